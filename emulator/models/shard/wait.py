"""How long the peer wants us to wait."""

from emulator.effects import World, model
from emulator.models.crypto.drbg import drbg_u64
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.profile import PROFILES
from firmware.layouts.shard import End, FailureFlag, ShardContext


@model
def required_wait(w: World, shard: int) -> int:
    """The longest of: the layer's note, the profile's for a lost session, 60 s forbidden, 5 or 30 s."""
    context, now = w.view(ShardContext, shard), w.g(CORE).now
    flags, waits = context.failure_flags, [context.required_wait_ms]
    lost = context.failure == End.INVALID_SESSION and flags & FailureFlag.RESET_SESSION
    service = PROFILES[context.profile]
    if lost and service.invalid_spread_ms:
        part = drbg_u64(w) % 2**32 * service.invalid_spread_ms >> 32
        waits.append(service.invalid_wait_ms + part)
    if 400 <= context.evidence.http_status < 500:
        waits.append(5_000)
    if context.evidence.http_status in (401, 403):
        waits.append(60_000)
    if flags & FailureFlag.WAIT:
        waits.append(5_000)
        if context.peer_close == 4008:
            before = context.rate_limited_at
            context.rate_limited_at = now
            minute = 60_000 * w.g(CLOCK).tsc_cycles_per_ms % 2**64
            if before and (now - before) % 2**64 < minute:
                waits.append(30_000)
    context.evidence.required_wait_ms = max(waits)
    return int(max(waits))
