"""How fast the time-stamp counter runs: two independent timers must tell the same.

Each window is timed by the PIT and by the ACPI PM timer at once, with the TSC read outside of both,
so that whatever delays us makes an estimate too high, never too low: the minimum is the best one.
"""

from firmware.layouts.clock import (
    AGREE_EARLY_PPM,
    AGREE_PPM,
    PIT_CHANNEL_2,
    PIT_CONTROL,
    PIT_HZ,
    PM_HZ,
    PM_MASK,
    PM_TIMEOUT,
    PORT_B,
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
    NZ,
    R8,
    R8D,
    R9,
    R9D,
    R10,
    R10D,
    R11,
    R12,
    R12D,
    R13,
    R13D,
    R14,
    RAX,
    RBP,
    RBX,
    RCX,
    RDX,
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
    inputs=[In(EDI, int, "port of the ACPI PM timer; 0 = none")],
    outputs=[
        Out(RAX, "TSC cycles of the window"),
        Out(ECX, "PM timer ticks of the window; 0 = it does not count"),
        Out(CF, "1 = the PIT never came to its end"),
    ],
    clobbers=[RDX, R8, R9, R10],
    source="Intel 8254 data sheet, mode 0; ACPI 6.5, 4.8.3.3",
)
def clock_window(a: Asm, port: Reg32) -> None:
    """Time one window of WINDOW_TICKS with all three counters."""
    start, first, left, last = R8, R9D, ECX, R10D
    spin, expired, none = a.label("spin"), a.label("expired"), a.label("none")
    # Speaker off, gate of channel 2 on; then a one-shot that starts with its second byte.
    a.in_(AL, PORT_B)
    a.and_(AL, 0xFC)
    a.or_(AL, 1)
    a.out(PORT_B, AL)
    a.mov(AL, 0xB0)
    a.out(PIT_CONTROL, AL)
    a.rdtsc64()
    a.mov(start, RAX)
    _pm(a, port)
    a.mov(first, EAX)
    a.mov(AL, WINDOW_TICKS & 0xFF)
    a.out(PIT_CHANNEL_2, AL)
    a.mov(AL, WINDOW_TICKS >> 8)
    a.out(PIT_CHANNEL_2, AL)
    a.mov(left, SPIN_LIMIT)
    a.xor(last, last)
    a.place(spin)
    a.in_(AL, PORT_B)
    a.test(AL, 0x20)
    a.jnz(expired)
    # A PIT that is not there is given up by the other timer, or, when that one stands still too,
    # after so many looks.
    _pm(a, port)
    a.sub(EAX, first)
    a.and_(EAX, PM_MASK)
    a.cmp(EAX, PM_TIMEOUT)
    a.j(A, none)
    a.cmp(EAX, last)
    with a.if_(NZ):
        a.mov(last, EAX)
        a.mov(left, SPIN_LIMIT)
    a.dec(left)
    a.jnz(spin)
    a.place(none)
    a.xor(EAX, EAX)
    a.xor(ECX, ECX)
    a.stc()
    a.ret()
    a.place(expired)
    _pm(a, port)
    a.sub(EAX, first)
    a.and_(EAX, PM_MASK)
    a.mov(ECX, EAX)
    a.rdtsc64()
    a.sub(RAX, start)
    a.clc()
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
    clobbers=[RAX, RCX, RDX, R8, R9, R10, R11],
    saves=[RBX, RBP, R12, R13, R14],
    writes=[Clock.tsc_cycles_per_ms, Clock.spread_ppm, Clock.source],
    calls=[clock_window],
    source="firmware/docs/clock.md#calibration",
)
def clock_calibrate(a: Asm, port: Reg32) -> None:
    """Set cycles per millisecond from the minima of both timers; 0 when they do not agree."""
    pit, pm, windows, sources, spread = R14, R11, EBP, R12D, R13
    following, decide, store = a.label("following"), a.label("decide"), a.label("store")
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
        a.mov(R8D, WINDOW_TICKS * 1000)
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
