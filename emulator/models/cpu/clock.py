"""How fast the time-stamp counter runs."""

from emulator.effects import World, model
from firmware.layouts import clock
from firmware.layouts.clock import ClockSource
from firmware.layouts.node import CLOCK


@model
def pit_read(w: World) -> int:
    """Counter latch command, low byte, high byte."""
    w.port_out(0x43, 0x80)
    low = w.port_in(0x42)
    return low & 0xFF | (w.port_in(0x42) & 0xFF) << 8


@model
def pit_start(w: World) -> None:
    """Channel 2 in mode 0 from 65535, given time to load."""
    w.port_out(0x61, w.port_in(0x61) & 0xFC | 1)
    w.port_out(0x43, 0xB0)
    w.port_out(0x42, 0xFF)
    w.port_out(0x42, 0xFF)
    for _ in range(clock.SETTLE_READS):
        w.port_in(0x61)


@model
def clock_window(w: World, port: int) -> tuple[int, int, int, int]:
    """PIT and PM timer between two TSC values; wait; the same again."""
    outer = w.rdtsc()
    pit, pm = pit_read(w), w.port_in(port & 0xFFFF, 4)
    inner = w.rdtsc()
    last = still = ticks = 0
    while ticks < clock.WINDOW_TICKS:
        ticks = (pit - pit_read(w)) % 2**16
        still = 1 if ticks != last else still + 1
        last = ticks
        if still == clock.SPIN_LIMIT:
            return 0, 0, 0, 1
    before = w.rdtsc()
    pit_ticks = (pit - pit_read(w)) % 2**16
    pm_ticks = w.port_in(port & 0xFFFF, 4) - pm & clock.PM_MASK
    after = w.rdtsc()
    cycles = (before + after - outer - inner) % 2**64 // 2
    spoiled = (inner - outer + after - before) % 2**64 > cycles // 128
    return -1 if spoiled else cycles, pm_ticks, pit_ticks, 0


@model
def clock_calibrate(w: World, port: int) -> None:
    """The minimum of each source over good windows; they must agree, early or in the end."""
    pit_start(w)
    pit: list[int] = []
    pm: list[int] = []
    spread = 2**64 - 1
    sources = 0
    for count in range(1, clock.WINDOWS_MAX + 1):
        cycles, ticks, pit_ticks, dead = clock_window(w, port)
        if dead:
            break
        cycles %= 2**64
        if cycles >= 2**40:
            continue
        sources |= ClockSource.PIT
        if not pit_ticks:
            continue
        pit.append(cycles * clock.PIT_HZ // (pit_ticks * 1000))
        if ticks * 1000 % 2**32:
            pm.append(cycles * clock.PM_HZ // (ticks * 1000 % 2**32))
            sources |= ClockSource.PM_TIMER
        if pm and (low := min(*pit, *pm)):
            spread = abs(min(pit) - min(pm)) * 1_000_000 % 2**64 // low
            if count >= clock.WINDOWS_MIN and spread <= clock.AGREE_EARLY_PPM:
                break
    state = w.g(CLOCK)
    state.tsc_cycles_per_ms = min(*pit, *pm) if spread <= clock.AGREE_PPM else 0
    state.spread_ppm = spread
    state.source = sources
