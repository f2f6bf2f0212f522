"""Hard stops, and a clock that may have stood still."""

from emulator.effects import World, model
from emulator.models.cpu.rtc import rtc_unix
from emulator.models.fleet.held import OWNED, entries, lease_mirror
from emulator.models.log import log_write
from firmware.layouts.clock import RTC_REGISTERS, RTC_UPDATING
from firmware.layouts.fleet import FLEET, HeldPhase
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.fleet_sites import FLEET_EXPIRED, FLEET_FROZEN
from firmware.layouts.log import FLEET_EXPIRED as SAID_EXPIRED
from firmware.layouts.log import FLEET_FROZEN as SAID_FROZEN
from firmware.layouts.node import CLOCK


def _register(w: World, number: int) -> int:
    w.port_out(0x70, number)
    return w.port_in(0x71)


@model
def rtc_glimpse(w: World) -> tuple[int, int]:
    """Not in an update, and the second is the same before the others and behind them."""
    if _register(w, 0x0A) & RTC_UPDATING:
        return 1, 0
    second = _register(w, 0)
    values = bytes(_register(w, register) for register in reversed(RTC_REGISTERS))
    if second != values[-1]:
        return 1, 0
    return 0, int.from_bytes(values, "big")


@model
def leases_end(w: World, reason: int) -> None:
    """What is over, or everything."""
    fleet, now, frozen = w.g(FLEET), w.rdtsc(), reason == FLEET_FROZEN.code
    for held in entries(w):
        if held.phase in OWNED and (frozen or now >= held.hard_stop):
            held.phase, held.reason = HeldPhase.GONE, reason
            fleet.expired += 1
            late = max(now - held.hard_stop, 0)
            log_write(w, 0, SAID_EXPIRED, held.slot, held.generation, late, reason >> 16 & 0xFF)
        elif held.phase in (HeldPhase.CLAIMING, HeldPhase.RELEASING) and frozen:
            held.phase = HeldPhase.NONE
    lease_mirror(w)


@model
def clocks_compare(w: World) -> None:
    """The RTC may be ahead of a TSC that is 1 % slow by less than half a second; only new time is forgiven."""
    fleet, now, cycles = w.g(FLEET), w.rdtsc(), w.g(CLOCK).tsc_cycles_per_ms
    sharp = now <= (fleet.rtc_look_at + 100 * cycles) % 2**64
    fleet.rtc_look_at, fleet.rtc_seen, fleet.rtc_doubt = now + 100 * cycles, 1, 0
    known = fleet.rtc_low
    low = int.from_bytes(bytes(_register(w, register) for register in (0, 2, 4)), "little") + 1
    if low == known:
        if not fleet.rtc_judges and (now - fleet.rtc_tsc) % 2**64 >= 2_000 * cycles:
            fleet.rtc_judges = 1
        return
    if not known:
        fleet.rtc_low, fleet.rtc_tsc = low, now
        return
    busy, snapshot = rtc_glimpse(w)
    if busy:
        if fleet.rtc_second:
            fleet.rtc_seen, fleet.rtc_doubt = 0, 1
        return
    seconds = rtc_unix(w, snapshot)
    if not seconds:
        fleet.rtc_judges = 1
        return
    fleet.rtc_low = snapshot % 2**24 + 1
    if fleet.rtc_second and seconds >= fleet.rtc_second:
        passed = seconds - fleet.rtc_second
        ahead = passed * cycles * 990 + fleet.rtc_tsc - now
        if passed >= 2**20 or ahead >= 500 * cycles:
            fleet.frozen += 1
            log_write(w, 0, SAID_FROZEN, passed, fleet.holding, 0, 0)
            leases_end(w, FLEET_FROZEN.code)
            seconds = 0
        elif passed < 10 or not sharp:
            return
        else:
            now += max(ahead, 0)
    fleet.rtc_second, fleet.rtc_tsc, fleet.rtc_judges = seconds, now, int(seconds > 0)


@model
def fleet_guard(w: World) -> None:
    """Nothing without a fleet, little without a lease."""
    fleet = w.g(FLEET)
    if w.g(FLEET_CONFIG).magic != FLEET_MAGIC:
        return
    fleet.rtc_seen = 0
    if fleet.holding:
        leases_end(w, FLEET_EXPIRED.code)
    if w.g(CLOCK).tsc_cycles_per_ms and w.rdtsc() >= fleet.rtc_look_at:
        clocks_compare(w)


@model
def fleet_look(w: World) -> int:
    """Once in a turn of a node that holds something."""
    fleet = w.g(FLEET)
    if w.g(FLEET_CONFIG).magic != FLEET_MAGIC or not fleet.holding or fleet.rtc_seen:
        return 0
    if not w.g(CLOCK).tsc_cycles_per_ms:
        return 0
    clocks_compare(w)
    return 1
