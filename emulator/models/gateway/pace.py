"""How often an application may send: what left in the last minute, and the server's own word."""

from emulator.effects import World, model
from emulator.models.gateway.session import kind, value
from emulator.models.log import log
from firmware.layouts.json import JsonField, JsonKind
from firmware.layouts.log import GATEWAY_RATE_LIMITED
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.profile import PROFILES, SEND_OPS
from firmware.layouts.shard import ShardContext


def row_of(profile: int, op: int) -> int | None:
    """Return the place of an opcode in `Pacer.not_before`, or None when the profile sends none."""
    return SEND_OPS.index(op) if op in PROFILES[profile].send_ops else None


def _words(raw: bytes) -> list[int]:
    return [int.from_bytes(raw[n : n + 2], "little") for n in range(0, len(raw), 2)]


@model
def gateway_pace_clear(w: World, shard: int) -> None:
    """Nothing was sent, and a second begins now."""
    pacer = w.view(ShardContext, shard).pacer
    pacer.buckets[:] = bytes(120)
    pacer.total = pacer.running = 0
    pacer.second_at = w.g(CORE).now


@model
def gateway_pace(w: World, shard: int) -> None:
    """Whole seconds that passed push as many old ones out of the minute."""
    pacer = w.view(ShardContext, shard).pacer
    second = 1000 * w.g(CLOCK).tsc_cycles_per_ms
    passed = (w.g(CORE).now - pacer.second_at) % 2**64
    if passed >= 61 * second:
        gateway_pace_clear(w, shard)
        return
    for _ in range(passed // second):
        at = pacer.oldest
        leaving = int.from_bytes(pacer.buckets[2 * at : 2 * at + 2], "little")
        pacer.total -= leaving
        pacer.buckets[2 * at : 2 * at + 2] = (pacer.running & 0xFFFF).to_bytes(2, "little")
        pacer.running = 0
        pacer.oldest = (at + 1) % 60
        pacer.second_at += second


@model
def gateway_ms_until(w: World, time: int) -> int:
    """Whole milliseconds that cover the way to a time to come."""
    now, per_ms = w.g(CORE).now, w.g(CLOCK).tsc_cycles_per_ms
    return -(-(time - now) // per_ms) % 2**32 if time > now and per_ms else 0


def allowance(profile: int, interval_ms: int) -> int:
    """Return how many application sends a minute may hold beside heartbeats and one handshake."""
    service = PROFILES[profile]
    beats = 60_000 // max(interval_ms, 1000) + 1
    return min(service.send_limit, service.send_ceiling - beats - 1)


@model
def gateway_pace_wait(w: World, shard: int) -> int:
    """The wait ends when so many old seconds left that the rest is below the allowance."""
    gateway_pace(w, shard)
    context = w.view(ShardContext, shard)
    pacer = context.pacer
    limit = allowance(context.profile, context.gateway.heartbeat_interval_ms)
    if pacer.total < limit:
        return 0
    seconds = _words(bytes(pacer.buckets[:]))
    inside, leave = pacer.total, 61
    for n in range(60):
        inside -= seconds[(pacer.oldest + n) % 60]
        if inside < limit:
            leave = n + 1
            break
    return gateway_ms_until(w, pacer.second_at + leave * 1000 * w.g(CLOCK).tsc_cycles_per_ms)


@model
def gateway_rate_limited(w: World, shard: int) -> None:
    """The opcode named waits as long as was named: half a minute when unclear, an hour at most."""
    context = w.view(ShardContext, shard)
    if kind(context, JsonField.RATE_OPCODE) != JsonKind.INTEGER:
        return
    op = value(context, JsonField.RATE_OPCODE)
    row = row_of(context.profile, op)
    if row is None:
        return
    after = value(context, JsonField.RETRY_AFTER)
    wait = {
        JsonKind.INTEGER: after * 1000,
        JsonKind.DECIMAL: after + 1,
    }.get(kind(context, JsonField.RETRY_AFTER), 30_000)
    wait = min(wait, 3_600_000)
    until = w.g(CORE).now + wait * w.g(CLOCK).tsc_cycles_per_ms
    known = int.from_bytes(context.pacer.not_before[8 * row : 8 * row + 8], "little")
    if until % 2**64 > known:
        context.pacer.not_before[8 * row : 8 * row + 8] = (until % 2**64).to_bytes(8, "little")
    log(w, GATEWAY_RATE_LIMITED, shard, op, wait)
