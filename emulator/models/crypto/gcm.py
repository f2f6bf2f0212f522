"""GCM by SP 800-38D, over any block cipher."""

from collections.abc import Callable

from emulator.models.crypto.aead import added

Cipher = Callable[[bytes], bytes]
_R = 0xE1 << 120


def product(x: int, y: int) -> int:
    """Multiply two blocks as 6.3 does; the leftmost bit is the coefficient of 1."""
    z = 0
    for n in range(127, -1, -1):
        if x >> n & 1:
            z ^= y
        y = y >> 1 ^ (_R if y & 1 else 0)
    return z


def ghash(h: int, *parts: bytes) -> int:
    """Hash the parts, each filled up with zeros to whole blocks (6.4)."""
    table = _powers(h)
    y = 0
    for part in parts:
        for at in range(0, len(part), 16):
            y ^= int.from_bytes(part[at : at + 16].ljust(16, b"\0"), "big")
            z = 0
            while y:
                bit = y.bit_length() - 1
                z ^= table[127 - bit]
                y ^= 1 << bit
            y = z
    return y


def _powers(h: int) -> list[int]:
    """Return h, h x, h x^2, ... up to h x^127."""
    found = [h]
    for _ in range(127):
        y = found[-1]
        found.append(y >> 1 ^ (_R if y & 1 else 0))
    return found


def ciphered(cipher: Cipher, nonce: bytes, text: bytes) -> bytes:
    """Return the text with the key stream added; counters begin at 2 (7.1 and 7.2)."""
    stream = b"".join(
        cipher(nonce + (n + 2).to_bytes(4, "big")) for n in range(-(-len(text) // 16))
    )
    return added(text, stream)


def tag(cipher: Cipher, nonce: bytes, aad: bytes, ciphertext: bytes) -> bytes:
    """Return the tag of 7.1: GHASH of data, ciphertext and their lengths, encrypted."""
    h = int.from_bytes(cipher(bytes(16)), "big")
    lengths = (8 * len(aad)).to_bytes(8, "big") + (8 * len(ciphertext)).to_bytes(8, "big")
    s = ghash(h, aad, ciphertext, lengths).to_bytes(16, "big")
    first = cipher(nonce + (1).to_bytes(4, "big"))
    return added(s, first)
