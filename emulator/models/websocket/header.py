"""Frame headers of a server."""

from dataclasses import dataclass

from emulator.effects import View, World, model
from emulator.models.websocket.fail import violate
from firmware.errors import Site
from firmware.layouts import websocket as layout
from firmware.layouts.shard import ShardContext
from firmware.layouts.websocket import Opcode, WsFlag
from firmware.limits import MESSAGE_BYTES_MAX
from firmware.websocket.utf8 import UTF8_ACCEPT


@dataclass
class Header:
    """Its bytes, its first byte, and the payload that it announces."""

    size: int
    first: int
    length: int

    @property
    def opcode(self) -> int:
        """The low four bits."""
        return self.first & 15

    @property
    def fin(self) -> bool:
        """Whether it is the last of its message."""
        return self.first >= 128


def _judge(ws: View, start: bytes) -> Header | Site | None:
    """Return the header, the rule that it breaks, or None while it is not whole."""
    if len(start) < 2:
        return None
    header = Header(2, start[0], start[1] & 127)
    if start[0] & 0x70:
        return layout.RESERVED_BITS
    if start[1] & 0x80:
        return layout.MASKED
    if header.opcode not in list(Opcode):
        return layout.RESERVED_OPCODE
    if header.opcode >= Opcode.CLOSE:
        if not header.fin:
            return layout.CONTROL_FRAGMENTED
        return layout.CONTROL_TOO_LONG if header.length > 125 else header
    inside = bool(ws.flags & WsFlag.MESSAGE)
    if inside != (header.opcode == Opcode.CONTINUATION):
        return layout.IN_MESSAGE if inside else layout.NO_MESSAGE
    if header.opcode == Opcode.BINARY and not ws.flags & WsFlag.BINARY_ALLOWED:
        return layout.BINARY
    extra = {126: 2, 127: 8}.get(header.length, 0)
    if extra:
        if len(start) < 2 + extra:
            return None
        header.size += extra
        header.length = int.from_bytes(start[2 : 2 + extra], "big")
        shortest = 126 if extra == 2 else 65536
        if not shortest <= header.length < 2**63:
            return layout.LENGTH_FORM
    if ws.message_bytes + header.length > MESSAGE_BYTES_MAX:
        return layout.MESSAGE_TOO_LONG
    return header


@model
def ws_header(
    w: World, shard: int, frame: int, available: int
) -> tuple[int, int, int | None, int | None]:
    """Judge what can be judged of a header."""
    ws = w.view(ShardContext, shard).websocket
    start = w.read(frame, min(available, 10))
    found = _judge(ws, start)
    if isinstance(found, Site):
        detail = start[0] & 15 if found is layout.RESERVED_OPCODE else 0
        violate(w, shard, found, detail)
        return 1, 0, None, None
    if found is None:
        return 0, 0, None, None
    return 0, found.size, found.first, found.length


@model
def ws_open_frame(w: World, shard: int, first: int, length: int) -> None:
    """Begin a frame; begin a message too when none is open."""
    ws = w.view(ShardContext, shard).websocket
    ws.frame_left = length
    ws.message_bytes += length
    flags = ws.flags
    if not flags & WsFlag.MESSAGE:
        flags = flags & WsFlag.BINARY_ALLOWED | WsFlag.MESSAGE | WsFlag.FIRST
        if first & 15 == Opcode.TEXT:
            flags |= WsFlag.TEXT
            ws.utf8 = UTF8_ACCEPT
    if first & 0x80:
        flags |= WsFlag.FIN
    ws.flags = flags
