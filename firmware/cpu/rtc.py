"""The real-time clock of the PC: read without tearing, decoded in all its dialects."""

from firmware.layouts.clock import (
    RTC_24_HOURS,
    RTC_BINARY,
    RTC_DATA,
    RTC_INDEX,
    RTC_LOOKS,
    RTC_READS,
    RTC_REGISTERS,
    RTC_STATUS_A,
    RTC_UPDATING,
)
from toolchain.asm import (
    AE,
    AL,
    DL,
    EAX,
    ECX,
    EDI,
    EDX,
    NZ,
    R8,
    R8D,
    R9,
    R9D,
    R10,
    R10D,
    R11,
    R11D,
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    In,
    Out,
    Reg32,
    Reg64,
    Z,
    mem8,
    routine,
)
from toolchain.asm.operands import Region

SUMS = Region("sums", "addresses added by lea; no memory is touched")
DAYS_BEFORE_1970 = 719_468
NIBBLES = 0x0F0F_0F0F_0F0F_0F0F
REGISTER_LIST = int.from_bytes(bytes(RTC_REGISTERS), "little")


@routine(
    outputs=[Out(RAX, "RTC_REGISTERS, one byte each")],
    clobbers=[RCX, RDX, R8],
    source="Motorola MC146818A data sheet, figure 13",
)
def rtc_snapshot(a: Asm) -> None:
    """Read the registers once, when no update is going on; a bounded wait."""
    a.mov(ECX, RTC_LOOKS)
    with a.loop() as waiting:
        a.mov(AL, RTC_STATUS_A)
        a.out(RTC_INDEX, AL)
        a.in_(AL, RTC_DATA)
        a.test(AL, RTC_UPDATING)
        a.leave(Z, waiting)
        a.dec(ECX)
        a.again(NZ, waiting)
    # From the last register to the first, so that the first ends up lowest.
    a.mov(R8, REGISTER_LIST)
    a.mov(ECX, len(RTC_REGISTERS))
    a.xor(EDX, EDX)
    with a.loop() as reading:
        a.rol(R8, 8)
        a.mov(EAX, R8D)
        a.out(RTC_INDEX, AL)
        a.in_(AL, RTC_DATA)
        a.shl(RDX, 8)
        a.mov(DL, AL)
        a.dec(ECX)
        a.again(NZ, reading)
    a.mov(RAX, RDX)
    a.ret()


@routine(
    inputs=[In(RAX, int, "snapshot")],
    outputs=[Out(RAX, "seconds since 1970; 0 = no date")],
    clobbers=[RCX, RDX, RSI, RDI, R8, R9, R10, R11],
    source="Motorola MC146818A data sheet, table 3; days: civil calendar from 0000-03-01",
)
def rtc_unix(a: Asm, snapshot: Reg64) -> None:
    """Decode a snapshot: BCD or binary, 12 or 24 hours, century register or none."""
    bad = a.label("bad")
    year, month, days, afternoon, twelve = R11D, R10D, R8, R9D, EDI
    a.mov(RSI, snapshot)
    # The afternoon bit leaves the hour before the digits are looked at.
    a.xor(afternoon, afternoon)
    a.xor(twelve, twelve)
    a.bt(RSI, 56 + RTC_24_HOURS.bit_length() - 1)
    with a.if_(AE):
        a.inc(twelve)
        a.btr(RSI, 16 + 7)
        with a.if_(B):
            a.mov(afternoon, 12)
    a.bt(RSI, 56 + RTC_BINARY.bit_length() - 1)
    with a.if_(AE):
        # value - 6 * (value >> 4) in all bytes at once: no byte borrows from the next.
        a.mov(RAX, RSI)
        a.shr(RAX, 4)
        a.mov(RCX, NIBBLES)
        a.and_(RAX, RCX)
        a.imul(RAX, RAX, 6)
        a.sub(RSI, RAX)

    def field(to: Reg32, byte: int, limit: int) -> None:
        """Take a byte of the snapshot; from `limit` on it is no date."""
        a.mov(RAX, RSI)
        a.shr(RAX, 8 * byte)
        a.movzx(to, AL)
        a.cmp(to, limit)
        a.j(AE, bad)

    # A century register that holds no century is another cell of the CMOS memory.
    field(year, 5, 100)
    a.mov(RAX, RSI)
    a.shr(RAX, 48)
    a.movzx(ECX, AL)
    a.lea(EAX, mem8(RCX, -19, ref=SUMS))
    a.cmp(EAX, 10)
    with a.if_(AE):
        a.cmp(year, 70)
        a.mov(ECX, 19)
        with a.if_(B):
            a.mov(ECX, 20)
    a.imul(ECX, ECX, 100)
    a.add(year, ECX)

    # Days since 0000-03-01: the leap day is the last of its year.
    field(month, 4, 13)
    a.sub(month, 1)
    a.j(B, bad)
    a.sub(month, 2)
    with a.if_(B):
        a.add(month, 12)
        a.dec(year)
    field(ECX, 3, 32)
    a.sub(ECX, 1)
    a.j(B, bad)
    a.imul(days, R11, 365)
    a.add(days, RCX)
    a.imul(EAX, month, 153)
    a.add(EAX, 2)
    _divide(a, 5)
    a.add(days, RAX)
    a.mov(EAX, year)
    a.shr(EAX, 2)
    a.add(days, RAX)
    a.mov(EAX, year)
    _divide(a, 100)
    a.sub(days, RAX)
    a.shr(EAX, 2)
    a.add(days, RAX)
    a.sub(days, DAYS_BEFORE_1970)
    a.j(B, bad)

    field(ECX, 2, 24)
    a.test(twelve, twelve)
    with a.if_(NZ):
        a.cmp(ECX, 12)
        with a.if_(Z):
            a.xor(ECX, ECX)
        a.j(A, bad)
        a.add(ECX, afternoon)
    a.imul(days, days, 24)
    a.add(days, RCX)
    # Minutes, then seconds, unrolled.
    for byte in (1, 0):
        field(ECX, byte, 60)
        a.imul(days, days, 60)
        a.add(days, RCX)
    a.mov(RAX, days)
    a.ret()
    a.place(bad)
    a.xor(EAX, EAX)
    a.ret()


def _divide(a: Asm, by: int) -> None:
    """EAX := EAX / by. Clobbers ECX, EDX."""
    a.xor(EDX, EDX)
    a.mov(ECX, by)
    a.div(ECX)


@routine(
    outputs=[Out(RAX, "seconds since 1970; 0 = the RTC does not hold still, or holds no date")],
    clobbers=[RCX, RDX, RSI, RDI, R8, R9, R10, R11],
    calls=[rtc_snapshot, rtc_unix],
    source="firmware/docs/clock.md#rtc",
)
def rtc_read(a: Asm) -> None:
    """Read the RTC until two readings in a row are the same, then decode it."""
    a.mov(R10D, RTC_READS)
    with a.loop() as pairs:
        a.call(rtc_snapshot)
        a.mov(R9, RAX)
        a.call(rtc_snapshot)
        a.cmp(RAX, R9)
        with a.if_(Z):
            a.jmp(rtc_unix)
        a.dec(R10D)
        a.again(NZ, pairs)
    a.xor(EAX, EAX)
    a.ret()
