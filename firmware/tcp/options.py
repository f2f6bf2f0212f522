"""Options of a SYN (RFC 9293 3.2, RFC 7323, RFC 2018)."""

from firmware.layouts.tcp import PAYLOAD, SCALE_MAX, SCALE_PRESENT, TcpOption
from toolchain.asm import (
    AX,
    EAX,
    ECX,
    EDI,
    EDX,
    R8,
    R8D,
    R9,
    R9D,
    RCX,
    RSI,
    A,
    Asm,
    B,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    Z,
    mem8,
    mem16,
    routine,
)


@routine(
    inputs=[In(RSI, int, "first option byte"), In(ECX, int, "bytes of options, at most 40")],
    outputs=[
        Out(EAX, "MSS; 0 = absent"),
        Out(EDX, "window shift with SCALE_PRESENT; 0 = absent"),
        Out(EDI, "1 = selective acknowledgements permitted"),
    ],
    clobbers=[R8, R9, RCX, RSI],
    reads=[PAYLOAD],
    source="RFC 9293 3.2",
)
def tcp_options(a: Asm, at: Reg64, left: Reg32) -> None:
    """Read the options of a SYN; what is malformed ends the list, what is unknown is skipped."""
    kind, length = R8D, R9D
    mss, scale, sack = EAX, EDX, EDI
    with a.block() as done:
        a.xor(mss, mss)
        a.xor(scale, scale)
        a.xor(sack, sack)
        with a.loop() as options:
            a.test(left, left)
            a.leave(Z, done)
            a.movzx(kind, mem8(at, ref=PAYLOAD))
            a.cmp(kind, TcpOption.NOP)
            a.leave(B, done)  # end of the list
            with a.if_(E):
                a.inc(at)
                a.dec(left)
                a.jmp(options.top)
            a.cmp(left, 2)
            a.leave(B, done)
            a.movzx(length, mem8(at, 1, ref=PAYLOAD))
            # A length of 0 or 1 would never end, a long one would leave the header.
            a.cmp(length, 2)
            a.leave(B, done)
            a.cmp(length, left)
            a.leave(A, done)

            # Kind and length together tell an option that means what it should.
            a.shl(kind, 8)
            a.or_(kind, length)
            a.cmp(kind, TcpOption.MSS << 8 | 4)
            with a.if_(E):
                a.movzx(mss, mem16(at, 2, ref=PAYLOAD))
                a.rol(AX, 8)
            a.cmp(kind, TcpOption.SCALE << 8 | 3)
            with a.if_(E):
                a.movzx(scale, mem8(at, 2, ref=PAYLOAD))
                a.mov(kind, SCALE_MAX)  # RFC 7323 2.3
                a.cmp(scale, kind)
                a.cmov(A, scale, kind)
                a.or_(scale, SCALE_PRESENT)
            a.cmp(kind, TcpOption.SACK_PERMITTED << 8 | 2)
            with a.if_(E):
                a.mov(sack, 1)
            a.add(at, R9)
            a.sub(left, length)
            a.jmp(options.top)
    a.ret()
