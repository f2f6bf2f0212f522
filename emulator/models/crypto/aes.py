"""AES by FIPS 197, over round keys."""

from functools import cache


def _times(x: int, y: int) -> int:
    """Multiply in GF(2^8) modulo x^8 + x^4 + x^3 + x + 1 (4.2)."""
    product = 0
    while y:
        product ^= x if y & 1 else 0
        x = x << 1 ^ (0x11B if x & 0x80 else 0)
        y >>= 1
    return product


@cache
def s_box() -> bytes:
    """Return the S-box: the inverse, then the affine map (5.1.1)."""
    box = []
    for x in range(256):
        inverse = next((y for y in range(256) if _times(x, y) == 1), 0)
        bits = inverse * 0x101
        mapped = inverse ^ bits >> 4 ^ bits >> 5 ^ bits >> 6 ^ bits >> 7 ^ 0x63
        box.append(mapped & 0xFF)
    return bytes(box)


@cache
def _doubled() -> bytes:
    return bytes(_times(x, 2) for x in range(256))


def round_keys(key: bytes) -> list[bytes]:
    """Return the key expansion (5.2), a round key each of 16 bytes."""
    words = [key[n : n + 4] for n in range(0, len(key), 4)]
    size, constant = len(words), 1
    for n in range(size, 4 * (size + 7)):
        last = words[-1]
        if n % size == 0:
            turned = bytes(s_box()[b] for b in last[1:] + last[:1])
            last = bytes([turned[0] ^ constant]) + turned[1:]
            constant = _times(constant, 2)
        elif size == 8 and n % size == 4:
            last = bytes(s_box()[b] for b in last)
        words.append(bytes(x ^ y for x, y in zip(words[n - size], last, strict=True)))
    return [b"".join(words[n : n + 4]) for n in range(0, len(words), 4)]


_SHIFTED = [(4 * (column + row) + row) % 16 for column in range(4) for row in range(4)]


def by_rows(block: bytes) -> bytes:
    """Return the bytes of a block, which go down the columns, in the order of the rows; and back."""
    return bytes(block[4 * column + row] for row in range(4) for column in range(4))


def shifted(block: bytes) -> bytes:
    """ShiftRows (5.1.2)."""
    return bytes(block[at] for at in _SHIFTED)


def mixed(block: bytes) -> bytes:
    """MixColumns (5.1.3): 2 x + 3 y + z + v is x + 2 (x + y) + (x + y + z + v)."""
    double, found = _doubled(), []
    for at in range(0, 16, 4):
        column = block[at : at + 4]
        total = column[0] ^ column[1] ^ column[2] ^ column[3]
        found += [x ^ total ^ double[x ^ column[(row + 1) % 4]] for row, x in enumerate(column)]
    return bytes(found)


def encrypted(keys: list[bytes], block: bytes) -> bytes:
    """Return the cipher of a block (5.1)."""
    box = s_box()
    state = bytes(x ^ k for x, k in zip(block, keys[0], strict=True))
    for n, key in enumerate(keys[1:], 1):
        state = shifted(bytes(box[x] for x in state))
        if n < len(keys) - 1:
            state = mixed(state)
        state = bytes(x ^ k for x, k in zip(state, key, strict=True))
    return state
