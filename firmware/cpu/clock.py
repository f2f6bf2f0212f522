"""How fast the time-stamp counter runs: two independent timers must tell the same.

Each window reads the PIT and the ACPI PM timer at its start and end, with the TSC read outside of
both and again between, so that a stall is seen; what stays unseen makes an estimate too high.
"""

from firmware.layouts.clock import (
    AGREE_EARLY_PPM,
    AGREE_PPM,
    GAP_SHIFT,
    PIT_CHANNEL_2,
    PIT_CONTROL,
    PIT_HZ,
    PM_HZ,
    PM_MASK,
    PORT_B,
    SETTLE_READS,
    SPIN_LIMIT,
    WINDOW_TICKS,
    WINDOWS_MAX,
    WINDOWS_MIN,
    ClockSource,
)
from firmware.layouts.node import CLOCK, Clock
from toolchain.asm import (
    AL,
    BE,
    CF,
    DX,
    EAX,
    EBP,
    ECX,
    EDI,
    EDX,
    ESI,
    NZ,
    R8,
    R8D,
    R9,
    R9D,
    R9W,
    R10,
    R10D,
    R11,
    R11D,
    R12,
    R12D,
    R13,
    R13D,
    R14,
    R15,
    RAX,
    RBP,
    RBX,
    RCX,
    RDX,
    RSI,
    A,
    Asm,
    B,
    In,
    Out,
    Reg32,
    Reg64,
    routine,
)


def _pm(a: Asm, port: Reg32) -> None:
    """EAX := the PM timer. Clobbers EDX."""
    a.mov(EDX, port)
    a.in_(EAX, DX)


@routine(
    outputs=[Out(EAX, "count, going down from 65535 and around")],
    clobbers=[RDX],
    source="Intel 8254 data sheet, counter latch command",
)
def pit_read(a: Asm) -> None:
    """Latch and read PIT channel 2."""
    a.mov(AL, 0x80)
    a.out(PIT_CONTROL, AL)
    a.in_(AL, PIT_CHANNEL_2)
    a.movzx(EDX, AL)
    a.in_(AL, PIT_CHANNEL_2)
    a.movzx(EAX, AL)
    a.shl(EAX, 8)
    a.or_(EAX, EDX)
    a.ret()


@routine(
    clobbers=[RAX, RCX],
    source="Intel 8254 data sheet, mode 0",
)
def pit_start(a: Asm) -> None:
    """Let channel 2 count down for ever: gate on, speaker off."""
    a.in_(AL, PORT_B)
    a.and_(AL, 0xFC)
    a.or_(AL, 1)
    a.out(PORT_B, AL)
    a.mov(AL, 0xB0)
    a.out(PIT_CONTROL, AL)
    a.mov(AL, 0xFF)
    a.out(PIT_CHANNEL_2, AL)
    a.out(PIT_CHANNEL_2, AL)
    # The count is loaded with the timer's next tick, after a microsecond.
    a.mov(ECX, SETTLE_READS)
    with a.loop() as settle:
        a.in_(AL, PORT_B)
        a.dec(ECX)
        a.again(NZ, settle)
    a.ret()


@routine(
    inputs=[In(EDI, int, "port of the ACPI PM timer; 0 = none")],
    outputs=[
        Out(RAX, "TSC cycles of the window; all ones = a stall between readings spoiled it"),
        Out(ECX, "PM timer ticks of the window; 0 = it does not count"),
        Out(EDX, "PIT ticks of the window"),
        Out(CF, "1 = the PIT does not count"),
    ],
    clobbers=[RSI, R8, R9, R10, R11],
    calls=[pit_read],
    saves=[RBX],
    source="firmware/docs/clock.md#calibration",
)
def clock_window(a: Asm, port: Reg32) -> None:
    """Read all three counters, wait 10 ms of the PIT, read them again.

    The TSC is read before and after each reading of the timers: the middle counts, and a window
    whose readings took more than a share of it is spoiled. Stalls while we wait do no harm.
    """
    starts, gaps, first_pit, first_pm, last, left, before = R8, RBX, R9D, R10D, R11D, ESI, RSI
    none, ticks = a.label("none"), ECX
    a.rdtsc64()
    a.mov(starts, RAX)
    a.mov(gaps, RAX)
    a.call(pit_read)
    a.mov(first_pit, EAX)
    _pm(a, port)
    a.mov(first_pm, EAX)
    a.rdtsc64()
    a.add(starts, RAX)
    a.sub(gaps, RAX)
    a.xor(last, last)
    a.mov(left, SPIN_LIMIT)
    with a.loop() as waiting:
        a.call(pit_read)
        a.mov(ticks, first_pit)
        a.sub(ticks, EAX)
        a.and_(ticks, 0xFFFF)
        a.cmp(ticks, last)
        with a.if_(NZ):
            a.mov(last, ticks)
            a.mov(left, SPIN_LIMIT)
        a.dec(left)
        a.jz(none)
        a.cmp(ticks, WINDOW_TICKS)
        a.again(B, waiting)
    a.rdtsc64()
    a.mov(before, RAX)
    a.add(gaps, RAX)
    a.call(pit_read)
    a.sub(first_pit, EAX)
    a.movzx(first_pit, R9W)
    _pm(a, port)
    a.sub(EAX, first_pm)
    a.and_(EAX, PM_MASK)
    a.mov(ticks, EAX)
    a.rdtsc64()
    # Both pairs of TSC values, summed: twice the cycles from middle to middle.
    a.sub(gaps, RAX)
    a.neg(gaps)
    a.add(RAX, before)
    a.sub(RAX, starts)
    a.shr(RAX, 1)
    a.mov(RDX, RAX)
    a.shr(RDX, GAP_SHIFT)
    a.cmp(gaps, RDX)
    with a.if_(A):
        a.mov(RAX, -1)
    a.mov(EDX, first_pit)
    a.clc()
    a.ret()
    a.place(none)
    a.xor(EAX, EAX)
    a.xor(ECX, ECX)
    a.xor(EDX, EDX)
    a.stc()
    a.ret()


def _estimate(a: Asm, minimum: Reg64, hz: int) -> None:
    """Lower `minimum` to RBX cycles * hz / R8, when that is less. Clobbers RAX, RDX."""
    a.imul(RAX, RBX, hz)
    a.xor(EDX, EDX)
    a.div(R8)
    a.cmp(RAX, minimum)
    a.cmov(B, minimum, RAX)


@routine(
    inputs=[In(EDI, int, "port of the ACPI PM timer; 0 = none")],
    clobbers=[RAX, RCX, RDX, RSI, R8, R9, R10, R11],
    saves=[RBX, RBP, R12, R13, R14, R15],
    writes=[Clock.tsc_cycles_per_ms, Clock.spread_ppm, Clock.source],
    calls=[pit_start, clock_window],
    source="firmware/docs/clock.md#calibration",
)
def clock_calibrate(a: Asm, port: Reg32) -> None:
    """Set cycles per millisecond from the minima of both timers; 0 when they do not agree."""
    pit, pm, windows, sources, spread = R14, R15, EBP, R12D, R13
    following, decide, store = a.label("following"), a.label("decide"), a.label("store")
    a.call(pit_start)
    a.mov(pit, -1)
    a.mov(pm, -1)
    a.mov(spread, -1)
    a.xor(windows, windows)
    a.xor(sources, sources)
    with a.loop() as each:
        a.inc(windows)
        a.call(clock_window)
        a.j(B, decide)
        # A window of 2**40 cycles is a stopped machine, no measure; products stay below 2**63.
        a.mov(RBX, RAX)
        a.shr(RAX, 40)
        a.jnz(following)
        a.or_(sources, ClockSource.PIT)
        a.imul(R8D, EDX, 1000)
        a.test(R8D, R8D)
        a.jz(following)  # stalled for a whole turn of the PIT
        _estimate(a, pit, PIT_HZ)
        a.imul(R8D, ECX, 1000)
        a.test(R8D, R8D)
        with a.if_(NZ):
            a.or_(sources, ClockSource.PM_TIMER)
            _estimate(a, pm, PM_HZ)
        # How far apart the two are, in parts per million of the smaller.
        a.cmp(pm, -1)
        a.jz(following)
        a.mov(RAX, pit)
        a.sub(RAX, pm)
        a.mov(R8, pm)
        with a.if_(B):
            a.neg(RAX)
            a.mov(R8, pit)
        a.test(R8, R8)
        a.jz(following)
        a.imul(RAX, RAX, 1_000_000)
        a.xor(EDX, EDX)
        a.div(R8)
        a.mov(spread, RAX)
        a.cmp(windows, WINDOWS_MIN)
        a.j(B, following)
        a.cmp(spread, AGREE_EARLY_PPM)
        a.leave(BE, each)
        a.place(following)
        a.cmp(windows, WINDOWS_MAX)
        a.again(B, each)
    a.place(decide)
    a.xor(EAX, EAX)
    a.cmp(spread, AGREE_PPM)
    a.j(A, store)
    a.mov(RAX, pm)
    a.cmp(pit, pm)
    a.cmov(B, RAX, pit)
    a.place(store)
    a.mov(CLOCK.it.tsc_cycles_per_ms, RAX)
    a.mov(CLOCK.it.spread_ppm, R13D)
    a.mov(CLOCK.it.source, sources)
    a.ret()
