"""Poly1305 by RFC 8439 2.5."""

_P = (1 << 130) - 5


def tag(key: bytes, message: bytes) -> bytes:
    """Return the tag of a message under a 32-byte one-time key."""
    r = int.from_bytes(key[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    s, h = int.from_bytes(key[16:], "little"), 0
    for at in range(0, len(message), 16):
        h = (h + int.from_bytes(message[at : at + 16] + b"\1", "little")) * r % _P
    return ((h + s) % (1 << 128)).to_bytes(16, "little")
