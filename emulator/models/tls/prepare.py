"""Before the SYN."""

from emulator.effects import World, model
from emulator.models.cpu.date import date_now
from emulator.models.net.dns_name import dns_parse_quad
from emulator.models.tls.fail import refuse
from emulator.models.tls.pool import tls_arena_take
from emulator.models.tls.transcript import arena_of
from firmware.layouts.config import CONFIG
from firmware.layouts.crypto import DRBG
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls_pool import TLS_POOL
from firmware.layouts.tls_sites import CLOCK_IMPOSSIBLE, CRYPTO_BROKEN, NO_ARENA, NO_ENTROPY
from firmware.layouts.variants import VARIANTS


@model
def tls_prepare(w: World, shard: int, host: int, length: int) -> int:
    """Entropy, known answers, a date within ten years of the build, an arena; then the host without its last dot."""
    config = w.g(CONFIG)
    if not config.gateway_secure:
        return 0
    if w.g(DRBG).weak:
        refuse(w, shard, NO_ENTROPY)
        return 1
    if not w.g(VARIANTS).usable:
        refuse(w, shard, CRYPTO_BROKEN)
        return 1
    age = date_now(w) - config.build_time
    if not 0 <= age < 10 * 31_556_952:
        refuse(w, shard, CLOCK_IMPOSSIBLE)
        return 1
    if not w.g(TLS_POOL).slots[0].address:
        refuse(w, shard, NO_ARENA)
        return 1
    if tls_arena_take(w, shard):
        return 1
    w.view(ShardContext, shard).tls.deadline = w.g(CORE).now + 10_000 * w.g(CLOCK).tsc_cycles_per_ms
    arena, name = arena_of(w, shard), w.read(host, length)
    if name.endswith(b"."):
        name = name[:-1]
    arena.host_len = len(name)
    w.write(arena.offset_of("host"), name)
    arena.is_address = 1 - dns_parse_quad(w, host, len(name))[0]
    return 0
