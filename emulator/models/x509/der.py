"""Reading DER."""

from emulator.effects import World, model

_NONE = (1, 0)


def _header(w: World, at: int, left: int) -> tuple[int, int, int] | None:
    """Return tag, bytes of the header and bytes of the contents; None when it is no DER."""
    if left < 2:
        return None
    tag, first = w.read(at, 2)
    if tag % 32 == 31:
        return None
    if first < 128:
        return tag, 2, first
    more = first - 128
    # One or two bytes of length; without any it would be indefinite.
    if more not in (1, 2) or left < 2 + more:
        return None
    size = int.from_bytes(w.read(at + 2, more), "big")
    return (tag, 2 + more, size) if size >= (128, 256)[more - 1] else None


@model
def der_read(w: World, element: int, end: int) -> tuple[int, int, int, int]:
    """The shortest definite form, inside of what holds it."""
    found = _header(w, element, end - element)
    if found is None or found[1] + found[2] > end - element:
        return 1, 0, element, 0
    tag, head, size = found
    return 0, tag, element + head, element + head + size


@model
def der_open(w: World, element: int, end: int, tag: int) -> tuple[int, int, int, int]:
    """An element of that tag is there."""
    if element >= end or w.u8(element) != tag & 0xFF:
        return 1, 0, element, 0
    return der_read(w, element, end)


@model
def der_unsigned(w: World, contents: int, end: int) -> tuple[int, int, int]:
    """Two's complement in the fewest bytes, and not negative."""
    raw = w.read(contents, min(2, end - contents)) if end > contents else b""
    if not raw or raw[0] > 127 or (len(raw) == 2 and raw[0] == 0 and raw[1] < 128):
        return 1, contents, 0
    skip = int(len(raw) == 2 and raw[0] == 0)
    return 0, contents + skip, end - contents - skip


@model
def der_small(w: World, contents: int, end: int) -> tuple[int, int]:
    """A number below 2**32."""
    bad, first, size = der_unsigned(w, contents, end)
    if bad or size > 4:
        return _NONE
    return 0, int.from_bytes(w.read(first, size), "big")


@model
def der_known(w: World, contents: int, end: int, table: int) -> int:
    """The value of the one entry that is the same, byte for byte."""
    while size := w.u8(table):
        value = w.u8(table + 1)
        if size == end - contents and w.read(contents, size) == w.read(table + 2, size):
            return value
        table += 2 + size
    return 0
