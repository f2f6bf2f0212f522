"""Outgoing frames: reserved with room for the header, filled by the caller, masked in place."""

from firmware.abi import CALLER_SAVED
from firmware.crypto.drbg import drbg_u64
from firmware.layouts.shard import ShardContext
from firmware.layouts.websocket import (
    CONTROL_PAYLOAD_MAX,
    FRAME_OUT,
    MASK_BIT,
    WebSocketContext,
)
from firmware.tls.transport import tls_commit, tls_reserve
from toolchain.asm import (
    AL,
    CF,
    CL,
    CX,
    EAX,
    ECX,
    EDX,
    R12,
    R12B,
    R12D,
    R13,
    R13D,
    RAX,
    RBX,
    RCX,
    RDI,
    XMM0,
    XMM1,
    A,
    Asm,
    B,
    C,
    In,
    Out,
    Reg8,
    Reg32,
    Z,
    mem8,
    mem16,
    mem32,
    mem64,
    mem128,
    routine,
)

MASK_BYTES = 4
SHORT, MEDIUM, LONG = 2 + MASK_BYTES, 4 + MASK_BYTES, 10 + MASK_BYTES
"""Header bytes with the mask, by length form (RFC 6455 5.2)."""
MEDIUM_MAX = 0xFFFF
LENGTH_16, LENGTH_64 = 126, 127


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(ECX, int, "payload bytes"),
    ],
    outputs=[
        Out(RDI, "where the plain payload goes"),
        Out(CF, "1 = no room now"),
    ],
    clobbers=CALLER_SAVED,
    reads=[WebSocketContext.tx_header],
    writes=[WebSocketContext.tx_header, WebSocketContext.tx_frame],
    calls=[tls_reserve],
    source="RFC 6455 5.2",
)
def ws_begin(a: Asm, shard: ShardContext, length: Reg32) -> None:
    """Reserve one frame; nothing is sent before `ws_finish`."""
    ws = shard.websocket
    full = a.label("full")
    a.mov(EAX, SHORT)
    a.cmp(length, CONTROL_PAYLOAD_MAX)
    with a.if_(A):
        a.mov(EAX, MEDIUM)
        a.cmp(length, MEDIUM_MAX)
        with a.if_(A):
            a.mov(EAX, LONG)
    a.mov(ws.tx_header, EAX)
    a.add(length, EAX)
    a.call(tls_reserve)
    a.j(C, full)
    a.mov(ws.tx_frame, RDI)
    a.mov(EAX, ws.tx_header)
    a.add(RDI, RAX)
    a.clc()
    a.place(full)
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(ECX, int, "payload bytes, as reserved"),
        In(AL, int, "first byte of the frame: FIN_BIT and opcode"),
    ],
    clobbers=CALLER_SAVED,
    reads=[WebSocketContext.tx_header, WebSocketContext.tx_frame, FRAME_OUT],
    writes=[FRAME_OUT],
    calls=[drbg_u64, tls_commit],
    saves=[R12, R13],
    source="RFC 6455 5.3",
)
def ws_finish(a: Asm, shard: ShardContext, length: Reg32, first: Reg8) -> None:
    """Write the header, mask the payload with a fresh key, hand the frame to the transport."""
    ws = shard.websocket
    size, kind = R13D, R12D
    a.movzx(kind, first)
    a.mov(size, length)
    a.call(drbg_u64)
    a.mov(EAX, EAX)  # RAX = the masking key

    a.mov(RDI, ws.tx_frame)
    a.mov(ECX, size)
    a.mov(mem8(RDI, ref=FRAME_OUT), R12B)
    a.cmp(ws.tx_header, MEDIUM)
    with a.if_(B):
        a.or_(CL, MASK_BIT)
        a.mov(mem8(RDI, 1, ref=FRAME_OUT), CL)
    with a.else_():
        with a.if_(Z):
            a.mov(mem8(RDI, 1, ref=FRAME_OUT), MASK_BIT | LENGTH_16)
            a.rol(CX, 8)
            a.mov(mem16(RDI, 2, ref=FRAME_OUT), CX)
        with a.else_():
            a.mov(mem8(RDI, 1, ref=FRAME_OUT), MASK_BIT | LENGTH_64)
            a.bswap(RCX)
            a.mov(mem64(RDI, 2, ref=FRAME_OUT), RCX)
    a.mov(ECX, ws.tx_header)
    a.add(RDI, RCX)
    a.mov(mem32(RDI, -MASK_BYTES, ref=FRAME_OUT), EAX)

    a.movd(XMM0, EAX)
    a.pshufd(XMM0, XMM0, 0)
    a.mov(EDX, size)
    with a.loop() as blocks:
        a.sub(EDX, 16)
        a.leave(B, blocks)
        a.movdqu(XMM1, mem128(RDI, ref=FRAME_OUT))
        a.pxor(XMM1, XMM0)
        a.movdqu(mem128(RDI, ref=FRAME_OUT), XMM1)
        a.add(RDI, 16)
        a.jmp(blocks.top)
    a.add(EDX, 16)
    with a.loop() as rest:
        a.leave(Z, rest)
        a.xor(mem8(RDI, ref=FRAME_OUT), AL)
        a.ror(EAX, 8)
        a.inc(RDI)
        a.dec(EDX)
        a.jmp(rest.top)
    a.add(ECX, size)
    a.jmp(tls_commit)
