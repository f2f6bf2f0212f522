"""What stands in a request line."""

import re

from emulator.effects import World, model

_TARGET = re.compile(rb'[!"$-~]*')
PATH_MAX = 256


@model
def discovery_target(
    w: World, text: int, length: int, to: int, room: int
) -> tuple[int, int | None, int | None]:
    """Copy path and query up to what must not be; a missing path is /."""
    asked = w.read(text, length)
    if not asked.startswith(b"/"):
        w.write(to, b"/")
        to, room = to + 1, room - 1
    if length > room:
        return 1, None, None
    good = _TARGET.match(asked)
    kept = good[0] if good else b""
    w.write(to, kept)
    if len(kept) < length:
        return 1, None, None
    return 0, to + length, int(b"?" in asked)
