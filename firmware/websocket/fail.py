"""How the layer ends a connection: one site, one close code, one consequence for each violation."""

from dataclasses import dataclass

from firmware.errors import Site
from firmware.failure import shard_fail
from firmware.layouts.shard import End, FailureFlag, ShardContext
from firmware.layouts.websocket import (
    ACCEPT_FIELD,
    BINARY,
    CLOSE_CODE,
    CLOSE_LENGTH,
    CLOSE_UTF8,
    CONTROL_FRAGMENTED,
    CONTROL_TOO_LONG,
    END_OF_STREAM,
    EXTENSION,
    FIELD_MISSING,
    HEADER_LINE,
    IN_MESSAGE,
    LENGTH_FORM,
    MASKED,
    MESSAGE_TOO_LONG,
    NO_MESSAGE,
    RESERVED_BITS,
    RESERVED_OPCODE,
    RESPONSE_TOO_LONG,
    STATUS_LINE,
    SUBPROTOCOL,
    TEXT_UTF8,
    UPGRADE_CHALLENGED,
    UPGRADE_REFUSED,
    CloseCode,
    WebSocketContext,
    WsState,
)
from toolchain.asm import (
    ECX,
    EDX,
    R8D,
    R9D,
    RBX,
    Asm,
    E,
    In,
    Label,
    Reg32,
    routine,
)


@dataclass(frozen=True)
class Consequence:
    """What a violation asks of the lifecycle."""

    end: End = End.PROTOCOL
    flags: int = 0
    close: int = 0


_PROTOCOL = Consequence(close=CloseCode.PROTOCOL_ERROR)
# A Resume would replay what was refused, so the session goes too (case E20).
_PAYLOAD = Consequence(flags=FailureFlag.RESET_SESSION, close=CloseCode.INVALID_PAYLOAD)
_HANDSHAKE = Consequence()
CONSEQUENCES: dict[Site, Consequence] = {
    RESPONSE_TOO_LONG: _HANDSHAKE,
    STATUS_LINE: _HANDSHAKE,
    UPGRADE_REFUSED: Consequence(End.NETWORK),
    UPGRADE_CHALLENGED: Consequence(End.CHALLENGED),
    HEADER_LINE: _HANDSHAKE,
    ACCEPT_FIELD: _HANDSHAKE,
    FIELD_MISSING: _HANDSHAKE,
    EXTENSION: _HANDSHAKE,
    SUBPROTOCOL: _HANDSHAKE,
    RESERVED_BITS: _PROTOCOL,
    RESERVED_OPCODE: _PROTOCOL,
    MASKED: _PROTOCOL,
    CONTROL_FRAGMENTED: _PROTOCOL,
    CONTROL_TOO_LONG: _PROTOCOL,
    NO_MESSAGE: _PROTOCOL,
    IN_MESSAGE: _PROTOCOL,
    LENGTH_FORM: _PROTOCOL,
    MESSAGE_TOO_LONG: Consequence(
        flags=FailureFlag.RESET_SESSION, close=CloseCode.TOO_BIG
    ),
    TEXT_UTF8: _PAYLOAD,
    # Nobody negotiated compression: a retry would meet the same frame (case E21).
    BINARY: Consequence(
        flags=FailureFlag.FATAL | FailureFlag.CONFIG, close=CloseCode.UNSUPPORTED
    ),
    CLOSE_LENGTH: _PROTOCOL,
    CLOSE_CODE: _PROTOCOL,
    CLOSE_UTF8: Consequence(close=CloseCode.INVALID_PAYLOAD),
    END_OF_STREAM: Consequence(End.NETWORK),
}  # fmt: skip


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(EDX, int, "End: why"),
        In(ECX, int, "FailureFlag"),
        In(R8D, int, "close code to send; 0 = none"),
        In(R9D, int, "the error"),
    ],
    reads=[WebSocketContext.state],
    writes=[WebSocketContext.state, WebSocketContext.error],
    calls=[shard_fail],
    source="RFC 6455 7.1.7",
)
def ws_fail(
    a: Asm, shard: ShardContext, end: Reg32, flags: Reg32, close: Reg32, error: Reg32
) -> None:
    """Fail the connection: nothing more is read; an open one can still say its close code."""
    a.mov(shard.websocket.error, error)
    a.cmp(shard.websocket.state, WsState.HANDSHAKE)
    with a.if_(E):
        a.mov(shard.websocket.state, WsState.FAILED)
    a.jmp(shard_fail)


def fail_with(a: Asm, where: Site) -> None:
    """Call `ws_fail` with the consequence of a site; the error is in R9D already."""
    what = CONSEQUENCES[where]
    a.mov(EDX, what.end)
    a.mov(ECX, what.flags)
    a.mov(R8D, what.close)
    a.call(ws_fail)


class Violations:
    """Labels of the violations that a routine can meet; `emit` puts their code at its end."""

    def __init__(self, a: Asm) -> None:
        self._asm = a
        self._labels: dict[Site, Label] = {}

    def __getitem__(self, where: Site) -> Label:
        """Return the label to branch to. For a site with a detail, R9D holds the detail."""
        if where not in self._labels:
            self._labels[where] = self._asm.label(where.name)
        return self._labels[where]

    def emit(self, done: Label, *, detailed: tuple[Site, ...] = ()) -> None:
        """Emit each violation; `done` follows the call of `ws_fail`."""
        a = self._asm
        for where, label in self._labels.items():
            a.place(label)
            if where in detailed:
                a.or_(R9D, where.code)
            else:
                a.mov(R9D, where.code)
            fail_with(a, where)
            a.jmp(done)
