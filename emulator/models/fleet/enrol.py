"""Enrolment."""

from emulator.effects import World, model
from emulator.models.bus.link import bus_fail
from emulator.models.bus.send import bus_close, bus_open, bus_put_inbox, bus_request_id
from emulator.models.crypto.drbg import drbg_u64
from emulator.models.crypto.hpke import hpke_generate
from emulator.models.crypto.sha256 import sha256_finish, sha256_start, sha256_update
from emulator.models.fleet.enrol_text import enrol_body, enrol_facts
from emulator.models.log import log_write
from emulator.models.text import put_decimal
from firmware.layouts.bus import BUS, BusLink, LinkState
from firmware.layouts.bus_sites import RELOGIN
from firmware.layouts.clock import NEVER
from firmware.layouts.crypto import HASH
from firmware.layouts.enrol import (
    ENROL,
    ENROL_CRYPTO,
    ENROL_UNHEARD,
    ENROL_WEAK,
    LINE_MAX,
    EnrolState,
)
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.log import ENROL_IMPOSSIBLE, ENROL_WAITING
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.token import TOKEN
from firmware.layouts.variants import VARIANTS


@model
def enrol_begin(w: World) -> None:
    """A pair, what is said of it, and its digest; only without a token in a fleet."""
    state = w.g(ENROL)
    if w.g(FLEET_CONFIG).magic != FLEET_MAGIC or w.g(TOKEN).length:
        return
    error = ENROL_CRYPTO
    if w.g(VARIANTS).usable:
        error = ENROL_WEAK
        if not hpke_generate(w, state.keys.address_):
            enrol_facts(w)
            work = w.g(HASH).address_
            sha256_start(w, work)
            sha256_update(w, work, state.keys.public.address, 32)
            sha256_finish(w, work, state.digest.address)
            w.g(BUS).enrolling = 1
            state.state = EnrolState.WAITING
            start = int.from_bytes(state.digest[:8], "big")
            log_write(w, 0, ENROL_WAITING, start, 0, 0, 0)
            return
    state.error, state.state = error.code, EnrolState.IMPOSSIBLE
    log_write(w, 0, ENROL_IMPOSSIBLE, error.number, 0, 0, 0)


def _put(w: World, text: int, part: bytes) -> int:
    w.write(text, part)
    return text + len(part)


@model
def enrol_announce(w: World, link: int, shard: int) -> int:
    """PUB with a reply subject while it waits."""
    state, config, bus = w.g(ENROL), w.g(FLEET_CONFIG), w.g(BUS)
    size = enrol_body(w)
    at, none = bus_open(w, link, shard, LINE_MAX)
    if none:
        return 1
    names = config.bot[: config.bot_len], bus.node[: bus.node_len]
    at = _put(w, at, b"PUB shardfw.%b.enrol.%b " % names)
    if state.state == EnrolState.WAITING:
        if not state.inbox:
            state.inbox = bus_request_id(w, link)
        at = put_decimal(w, bus_put_inbox(w, link, at), state.inbox)
        at = _put(w, at, b" ")
    at = put_decimal(w, at, size)
    at = _put(w, at, b"\r\n" + state.body[:size] + b"\r\n")
    bus_close(w, link, shard, at)
    state.announced += 1
    state.here = (state.here + 1) % 2**16
    return 0


@model
def enrol_relogin(w: World) -> None:
    """Every link that is not DOWN ends."""
    w.g(ENROL).relogin = 0
    for n in range(2):
        link = w.g(BUS).links[n]
        if link.state != LinkState.DOWN:
            bus_fail(w, link.address_, link.context, RELOGIN.code)


@model
def enrol_tick(w: World, link: int, shard: int) -> int:
    """Every 4.5 to 5.5 s while it waits, once when it is enrolled, never on a link that is not UP."""
    state, now = w.g(ENROL), int(w.g(CORE).now)
    if state.relogin:
        enrol_relogin(w)
    waits = state.state == EnrolState.WAITING
    enrolled = state.state == EnrolState.ENROLLED and not state.told
    if w.view(BusLink, link).state != LinkState.UP or not (waits or enrolled):
        return NEVER
    if state.announce_at > now:
        return int(state.announce_at)
    if waits and state.here >= 24 and w.g(FLEET_CONFIG).servers_used > 1:
        state.here = 0
        bus_fail(w, link, shard, ENROL_UNHEARD.code)
        return NEVER
    if enrol_announce(w, link, shard):
        wait = 100
    elif enrolled:
        state.told = 1
        return NEVER
    else:
        wait = 4500 + drbg_u64(w) % 1001
    state.announce_at = now + wait * w.g(CLOCK).tsc_cycles_per_ms
    return int(state.announce_at)
