"""Which handshake message may come now: the table of `firmware/layouts/tls.py`, looked up."""

from firmware.layouts.tls import MOVE_TYPES, TLS_MOVES, Action, TlsState
from toolchain.asm import (
    EAX,
    ECX,
    EDX,
    RAX,
    RCX,
    RDX,
    Asm,
    In,
    Out,
    Reg32,
    mem8,
    routine,
)


@routine(
    inputs=[
        In(EAX, int, "TlsState"),
        In(EDX, int, "HandshakeType of what came, 0..255"),
    ],
    outputs=[
        Out(EAX, "Action; REFUSE = it may not come now"),
        Out(ECX, "TlsState behind it; IDLE with REFUSE"),
    ],
    clobbers=[RDX],
    reads=[TLS_MOVES],
    source="RFC 8446 A.1",
)
def tls_find_move(a: Asm, state: Reg32, kind: Reg32) -> None:
    """Find what a message means in a state."""
    refuse = a.label("refuse")
    a.cmp(state, len(TlsState))
    a.jae(refuse)
    a.cmp(kind, MOVE_TYPES)
    a.jae(refuse)
    a.shl(state, MOVE_TYPES.bit_length() - 1)
    a.lea(ECX, mem8(RAX, index=RDX, ref=TLS_MOVES))
    a.lea(RDX, TLS_MOVES.address)
    a.movzx(EAX, mem8(RDX, index=RCX, scale=2, ref=TLS_MOVES))
    a.movzx(ECX, mem8(RDX, 1, index=RCX, scale=2, ref=TLS_MOVES))
    a.ret()
    a.place(refuse)
    a.mov(EAX, Action.REFUSE)
    a.xor(ECX, ECX)
    a.ret()
