"""The head of an HTTP/1.1 response."""

import re

from emulator.effects import World, model
from emulator.models.websocket.fields import VALUE
from firmware.layouts.websocket import RESPONSE_MAX
from firmware.websocket.http import NUMBER_MAX

_STATUS = re.compile(rb"HTTP/1\.1 ([0-9]{3})(?: %s*)?\r\n" % VALUE)


@model
def http_find_end(w: World, head: int, length: int, scanned: int) -> tuple[int, int]:
    """Find the first empty line of the first bytes, or say how far the search came."""
    known = w.read(head, min(length, RESPONSE_MAX))
    end = known.find(b"\r\n\r\n", scanned)
    return (1, max(scanned, len(known) - 3)) if end < 0 else (0, end)


@model
def http_status(w: World, head: int, last: int) -> tuple[int, int | None, int | None]:
    """Read `HTTP/1.1 NNN reason`; a right line ends before the empty one."""
    status = _STATUS.match(w.read(head, last - head))
    if status is None:
        return 1, None, None
    return 0, int(status[1]), head + status.end()


@model
def http_number(w: World, text: int, length: int) -> tuple[int, int | None]:
    """One digit or more, nothing else."""
    digits = w.read(text, length)
    if not re.fullmatch(rb"[0-9]+", digits):
        return 1, None
    return 0, min(int(digits), NUMBER_MAX)
