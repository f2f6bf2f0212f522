"""Frame headers of a server: judged, then noted (RFC 6455 5.2 and 5.4)."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.shard import ShardContext
from firmware.layouts.websocket import (
    BINARY,
    CONTROL_BIT,
    CONTROL_FRAGMENTED,
    CONTROL_PAYLOAD_MAX,
    CONTROL_TOO_LONG,
    FIN_BIT,
    FRAME_IN,
    IN_MESSAGE,
    LENGTH_FORM,
    MASK_BIT,
    MASKED,
    MESSAGE_TOO_LONG,
    NO_MESSAGE,
    RESERVED_BITS,
    RESERVED_OPCODE,
    RSV_BITS,
    Opcode,
    WebSocketContext,
    WsFlag,
)
from firmware.limits import MESSAGE_BYTES_MAX
from firmware.websocket.fail import Violations, ws_fail
from firmware.websocket.send import LENGTH_16, MEDIUM_MAX
from firmware.websocket.utf8 import UTF8_ACCEPT
from toolchain.asm import (
    AX,
    BE,
    CF,
    DL,
    EAX,
    ECX,
    EDI,
    EDX,
    NE,
    NZ,
    R8B,
    R8D,
    R9D,
    RAX,
    RBX,
    RCX,
    RDI,
    RSI,
    A,
    Asm,
    C,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    Z,
    mem8,
    mem16,
    mem64,
    routine,
)


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(RSI, int, "what is readable"),
        In(ECX, int, "how much"),
    ],
    outputs=[
        Out(CF, "1 = a violation; the connection failed"),
        Out(EAX, "bytes of the header; 0 = not whole yet"),
        Out(EDX, "first byte of the frame"),
        Out(RDI, "payload bytes"),
    ],
    clobbers=CALLER_SAVED,
    reads=[FRAME_IN, WebSocketContext.flags, WebSocketContext.message_bytes],
    calls=[ws_fail],
    source="RFC 6455 5.2",
)
def ws_header(a: Asm, shard: ShardContext, frame: Reg64, available: Reg32) -> None:
    """Read and judge one frame header of a server; change nothing."""
    ws, bad = shard.websocket, Violations(a)
    opcode, first, short, length = R9D, EDX, R8D, RDI
    more, data, bounded, out, failed = map(a.label, ("more", "data", "bounded", "out", "failed"))
    a.xor(first, first)
    a.xor(EDI, EDI)
    a.cmp(available, 2)
    a.jb(more)
    a.movzx(first, mem8(frame, ref=FRAME_IN))
    a.movzx(short, mem8(frame, 1, ref=FRAME_IN))
    a.test(DL, RSV_BITS)
    a.jnz(bad[RESERVED_BITS])
    a.test(R8B, MASK_BIT)
    a.jnz(bad[MASKED])
    a.mov(opcode, first)
    a.and_(opcode, 0x0F)
    a.test(DL, CONTROL_BIT)
    a.jz(data)
    a.cmp(opcode, Opcode.PONG)
    a.j(A, bad[RESERVED_OPCODE])
    a.test(DL, FIN_BIT)
    a.jz(bad[CONTROL_FRAGMENTED])
    a.cmp(short, CONTROL_PAYLOAD_MAX)
    a.j(A, bad[CONTROL_TOO_LONG])
    a.mov(EDI, short)
    a.mov(EAX, 2)
    a.jmp(out)

    a.place(data)
    a.cmp(opcode, Opcode.BINARY)
    a.j(A, bad[RESERVED_OPCODE])
    a.test(ws.flags, WsFlag.MESSAGE)
    with a.if_(NZ):
        a.test(opcode, opcode)
        a.jnz(bad[IN_MESSAGE])
    with a.else_():
        a.test(opcode, opcode)
        a.jz(bad[NO_MESSAGE])
        with a.block() as allowed:
            a.cmp(opcode, Opcode.BINARY)
            a.leave(NE, allowed)
            a.test(ws.flags, WsFlag.BINARY_ALLOWED)
            a.jz(bad[BINARY])
    a.mov(EAX, 2)
    a.mov(EDI, short)
    a.cmp(short, LENGTH_16)
    a.jb(bounded)
    with a.if_(E):
        a.cmp(available, 4)
        a.jb(more)
        a.movzx(EAX, mem16(frame, 2, ref=FRAME_IN))
        a.rol(AX, 8)
        a.mov(EDI, EAX)
        a.mov(EAX, 4)
        a.cmp(EDI, LENGTH_16)
        a.jb(bad[LENGTH_FORM])
    with a.else_():
        a.cmp(available, 10)
        a.jb(more)
        a.mov(length, mem64(frame, 2, ref=FRAME_IN))
        a.bswap(length)
        a.mov(EAX, 10)
        a.cmp(length, MEDIUM_MAX)
        a.j(BE, bad[LENGTH_FORM])
        a.bt(length, 63)
        a.j(C, bad[LENGTH_FORM])
    a.place(bounded)
    a.mov(RCX, ws.message_bytes)
    a.add(RCX, length)
    a.cmp(RCX, MESSAGE_BYTES_MAX)
    a.j(A, bad[MESSAGE_TOO_LONG])
    a.place(out)
    a.clc()
    a.ret()
    a.place(more)
    a.xor(EAX, EAX)
    a.ret()
    bad.emit(failed, detailed=(RESERVED_OPCODE,))
    a.place(failed)
    a.xor(EAX, EAX)
    a.xor(EDX, EDX)
    a.xor(EDI, EDI)
    a.stc()
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard, between two frames"),
        In(EDX, int, "first byte of a data frame"),
        In(RDI, int, "its payload bytes"),
    ],
    clobbers=[RAX],
    reads=[WebSocketContext.flags],
    writes=[
        WebSocketContext.flags,
        WebSocketContext.frame_left,
        WebSocketContext.message_bytes,
        WebSocketContext.utf8,
    ],
    source="RFC 6455 5.4",
)
def ws_open_frame(a: Asm, shard: ShardContext, first: Reg32, length: Reg64) -> None:
    """Note a data frame, and a message when it is the first of one."""
    ws, flags = shard.websocket, EAX
    a.mov(ws.frame_left, length)
    a.add(ws.message_bytes, length)
    a.mov(flags, ws.flags)
    a.test(flags, WsFlag.MESSAGE)
    with a.if_(Z):
        a.and_(flags, WsFlag.BINARY_ALLOWED)
        a.or_(flags, WsFlag.MESSAGE | WsFlag.FIRST)
        a.test(DL, Opcode.TEXT)
        with a.if_(NZ):
            a.or_(flags, WsFlag.TEXT)
            a.mov(ws.utf8, UTF8_ACCEPT)
    a.test(DL, FIN_BIT)
    with a.if_(NZ):
        a.or_(flags, WsFlag.FIN)
    a.mov(ws.flags, flags)
    a.ret()
