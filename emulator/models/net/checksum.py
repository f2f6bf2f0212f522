"""The Internet checksum."""

from emulator.effects import World, model


@model
def checksum(w: World, total: int, data: int, length: int) -> int:
    """RFC 1071: the complement of the one's complement sum of 16-bit words."""
    contents = w.read(data, length) if length else b""
    value = total + int.from_bytes(contents, "little")
    # Modulo 2**16 - 1, zero shows as all ones unless nothing at all was added.
    folded = value % 0xFFFF or (0xFFFF if value else 0)
    return ~folded & 0xFFFF
