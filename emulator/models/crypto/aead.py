"""What the models of the authenticated ciphers share."""

from emulator.effects import World


def added(text: bytes, stream: bytes) -> bytes:
    """Return the text with as much of the key stream added as it needs."""
    return bytes(x ^ y for x, y in zip(text, stream, strict=False))


def store(w: World, at: int, text: bytes) -> None:
    """Store a text; its last block is stored whole, with what was behind it."""
    rest = -len(text) % 16
    w.write(at, text + w.read(at + len(text), rest))
