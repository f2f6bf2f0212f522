"""How fast the time-stamp counter runs."""

from emulator.effects import World, model
from firmware.layouts import clock
from firmware.layouts.clock import ClockSource
from firmware.layouts.node import CLOCK


@model
def clock_window(w: World, port: int) -> tuple[int, int, int]:
    """One-shot of PIT channel 2, the PM timer inside it, the TSC outside of both."""
    w.port_out(0x61, w.port_in(0x61) & 0xFC | 1)
    w.port_out(0x43, 0xB0)
    start = w.rdtsc()
    first = w.port_in(port & 0xFFFF, 4)
    w.port_out(0x42, clock.WINDOW_TICKS & 0xFF)
    w.port_out(0x42, clock.WINDOW_TICKS >> 8)
    last = still = 0
    while still < clock.SPIN_LIMIT:
        expired = w.port_in(0x61) & 0x20
        ticks = w.port_in(port & 0xFFFF, 4) - first & clock.PM_MASK
        if expired:
            return w.rdtsc() - start, ticks, 0
        if ticks > clock.PM_TIMEOUT:
            break
        still = 1 if ticks != last else still + 1
        last = ticks
    return 0, 0, 1


@model
def clock_calibrate(w: World, port: int) -> None:
    """The minimum of each source; they must agree, early or in the end."""
    pit: list[int] = []
    pm: list[int] = []
    spread = 2**64 - 1
    sources = 0
    for count in range(1, clock.WINDOWS_MAX + 1):
        cycles, ticks, dead = clock_window(w, port)
        if dead:
            break
        cycles %= 2**64
        if cycles >= 2**40:
            continue
        pit.append(cycles * clock.PIT_HZ // (clock.WINDOW_TICKS * 1000))
        sources |= ClockSource.PIT
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
