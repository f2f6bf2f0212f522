"""How a link ends and how it comes UP."""

from emulator.effects import World, model
from emulator.models.crypto.drbg import drbg_u64
from emulator.models.log import log
from emulator.models.tls.transport import tls_abort
from firmware.layouts.bus import BUS_IN, BusKind, BusLink, LinkState
from firmware.layouts.fleet_config import FLEET_CONFIG
from firmware.layouts.log import BUS_DOWN, BUS_REFUSED, BUS_RETRY, BUS_UP
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.shard import ShardContext

REFUSALS = range(0x0C40_0000, 0x0CFF_0000)
"""Sites 64 to 254 of the layer."""


@model
def bus_fail(w: World, link: int, shard: int, error: int) -> None:
    """One line, a reset, and another server after a random time that grows."""
    bus, context = w.view(BusLink, link), w.view(ShardContext, shard)
    bus.error = error
    bus.message_bytes = bus.skip = bus.aside = 0
    w.g(BUS_IN).kind = BusKind.NONE
    jitter = drbg_u64(w) % 2**32 % 201
    refused = error in REFUSALS
    last = bus.server + 1 >= w.g(FLEET_CONFIG).servers_used
    delay = 10_000 if refused and last else min((50 + jitter) << min(bus.failures, 4), 2_000)
    cycles = delay * w.g(CLOCK).tsc_cycles_per_ms
    bus.next_try = w.g(CORE).now + cycles
    bus.failures += 1
    again = bus.state != LinkState.UP and bus.told == error
    code = BUS_REFUSED if refused else BUS_RETRY if again else BUS_DOWN
    bus.told = error
    log(w, code, None, bus.index, error, bus.server, cycles)
    bus.server = bus.server + 1 if bus.server + 1 < w.g(FLEET_CONFIG).servers_used else 0
    bus.state, bus.midway = LinkState.DOWN, 0
    tls_abort(w, shard)
    context.failure = 0


@model
def bus_up(w: World, link: int, shard: int) -> None:
    """Failures in a row end here."""
    bus, tcp = w.view(BusLink, link), w.view(ShardContext, shard).tcp
    bus.state, bus.last_rx = LinkState.UP, w.g(CORE).now
    bus.failures = bus.told = bus.asked = 0
    bus.ups += 1
    log(w, BUS_UP, None, bus.index, tcp.remote_ip, tcp.remote_port, bus.version)
