"""The Internet checksum that IPv4, ICMP, UDP and TCP share."""

from toolchain.asm import (
    AE,
    AX,
    EAX,
    ECX,
    EDX,
    NZ,
    RAX,
    RCX,
    RDX,
    RSI,
    Asm,
    B,
    In,
    Out,
    Reg32,
    Reg64,
    Region,
    mem8,
    mem16,
    mem32,
    mem64,
    routine,
)

BLOCK = 64
SUMMED = Region("the summed bytes", "a packet, bounded by the caller's length")


@routine(
    inputs=[
        In(RAX, int, "sum so far: words as loaded from the wire (a pseudo-header); 0 = none"),
        In(RSI, int, "first byte"),
        In(ECX, int, "bytes, at most 65535"),
    ],
    outputs=[Out(AX, "complement of the sum, stored as it is; 0 = a packet with its sum is good")],
    clobbers=[RCX, RDX, RSI],
    reads=[SUMMED],
    source="RFC 1071",
)
def checksum(a: Asm, total: Reg64, data: Reg64, length: Reg32) -> None:
    """Return the Internet checksum of a run of bytes in the order of the wire.

    One's complement addition does not care about byte order, so little-endian words are summed and
    the result is stored without a swap (RFC 1071 2.B).
    """
    with a.block() as rest:
        a.cmp(length, BLOCK)
        a.leave(B, rest)
        with a.loop() as blocks:
            a.add(total, mem64(data, ref=SUMMED))
            for at in range(8, BLOCK, 8):  # unrolled: one chain of carries
                a.adc(total, mem64(data, at, ref=SUMMED))
            a.adc(total, 0)
            a.add(data, BLOCK)
            a.sub(length, BLOCK)
            a.cmp(length, BLOCK)
            a.again(AE, blocks)
    with a.block() as tail:
        a.cmp(length, 8)
        a.leave(B, tail)
        with a.loop() as words:
            a.add(total, mem64(data, ref=SUMMED))
            a.adc(total, 0)
            a.add(data, 8)
            a.sub(length, 8)
            a.cmp(length, 8)
            a.again(AE, words)

    # The last seven bytes at most, in halves.
    a.test(length, 4)
    with a.if_(NZ):
        a.mov(EDX, mem32(data, ref=SUMMED))
        a.add(total, RDX)
        a.adc(total, 0)
        a.add(data, 4)
    a.test(length, 2)
    with a.if_(NZ):
        a.movzx(EDX, mem16(data, ref=SUMMED))
        a.add(total, RDX)
        a.adc(total, 0)
        a.add(data, 2)
    a.test(length, 1)
    with a.if_(NZ):
        a.movzx(EDX, mem8(data, ref=SUMMED))
        a.add(total, RDX)
        a.adc(total, 0)

    # Fold 64 bits to 32, then to 16; each carry is added again.
    a.mov(RDX, total)
    a.shr(RDX, 32)
    a.add(EAX, EDX)
    a.adc(EAX, 0)
    a.mov(EDX, EAX)
    a.shr(EDX, 16)
    a.movzx(EAX, AX)
    a.add(EAX, EDX)
    a.mov(EDX, EAX)
    a.shr(EDX, 16)
    a.add(EAX, EDX)
    a.not_(EAX)
    a.ret()
