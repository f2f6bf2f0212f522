"""What a command says."""

import re

from emulator.effects import World, model
from firmware.layouts.commands import OP_RESTART

OP_MAX = 99
BLANKS = b" \t\r\n"
_B = rb"[ \t\r\n]*"
_OP = re.compile(_B.join((b"", rb"\{", rb'"op"', b":", rb'(?:([0-9]+)|("restart"))', b"")))
_BODY = re.compile(_B.join((b",", rb'"d"', b":", b"")))


@model
def command_parse(
    w: World, text: int, length: int
) -> tuple[int, int | None, int | None, int | None]:
    """One object: `op` first, then `d`, or `op` alone when it asks for a restart."""
    whole = w.read(text, length).rstrip(BLANKS)
    bad = (1, None, None, None)
    if not whole.endswith(b"}"):
        return bad
    inner = whole[:-1]
    head = _OP.match(inner)
    if head is None:
        return bad
    if head[2]:
        end = text + len(inner)
        return (0, OP_RESTART, end, 0) if head.end() == len(inner) else bad
    body = _BODY.match(inner, head.end())
    if body is None:
        return bad
    return 0, min(int(head[1]), OP_MAX + 1), text + body.end(), len(inner) - body.end()
