"""Before the SYN: is TLS wanted, may it be had, and is there an arena for its handshake?"""

from firmware.abi import CALLER_SAVED
from firmware.cpu.date import date_now
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.crypto import BUFFER_IN, DRBG, Drbg
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import HANDSHAKE_TIMEOUT_MS, TlsContext
from firmware.layouts.tls_arena import TlsArena
from firmware.layouts.tls_pool import TLS_POOL, TlsPool
from firmware.layouts.tls_sites import (
    CLOCK_IMPOSSIBLE,
    CLOCK_YEARS,
    CRYPTO_BROKEN,
    NO_ARENA,
    NO_ENTROPY,
)
from firmware.layouts.variants import VARIANTS, Variants
from firmware.net.dns_name import dns_parse_quad
from firmware.tls.fail import tls_fail
from firmware.tls.pool import tls_arena_take
from firmware.tls.refuse import Refusals
from toolchain.asm import (
    AE,
    AX,
    CF,
    EAX,
    ECX,
    NE,
    R12,
    R13,
    R13D,
    R14,
    RAX,
    RBX,
    RDI,
    RSI,
    Asm,
    C,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    mem8,
    routine,
)

YEAR_S = 31_556_952
"""The mean year of the calendar, in seconds."""


@routine(
    inputs=[
        In(RBX, ShardContext, "a shard that is about to connect"),
        In(RSI, int, "whom to: name or dotted quad"),
        In(ECX, int, "its bytes, 1..HOST_MAX"),
    ],
    outputs=[Out(CF, "1 = not now: it waits for an arena, or the attempt failed")],
    clobbers=CALLER_SAVED,
    reads=[
        ConfigBlob.gateway_secure,
        ConfigBlob.build_time,
        BUFFER_IN,
        Drbg.weak,
        Variants.usable,
        TlsPool.slots,
        TlsContext.arena_ptr,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[TlsContext.deadline, TlsArena.host, TlsArena.host_len, TlsArena.is_address],
    calls=[date_now, tls_arena_take, dns_parse_quad, tls_fail],
    saves=[R12, R13, R14],
    source="firmware/docs/tls.md#before-the-syn",
)
def tls_prepare(a: Asm, shard: ShardContext, host: Reg64, length: Reg32) -> None:
    """Make sure of entropy, cryptography, clock and an arena, and lay the host down in it; nothing without TLS."""
    arena, failed, waits = TlsArena.at(R14), a.label("failed"), a.label("waits")
    bad = Refusals(a)
    a.cmp(CONFIG.it.gateway_secure, 0)
    with a.if_(E):
        a.ret()  # CF = 0
    a.mov(R12, host)
    a.mov(R13D, length)
    a.cmp(DRBG.it.weak, 0)
    a.j(NE, bad[NO_ENTROPY])
    a.cmp(VARIANTS.it.usable, 0)
    a.j(E, bad[CRYPTO_BROKEN])
    a.call(date_now)
    a.sub(RAX, CONFIG.it.build_time)
    a.j(C, bad[CLOCK_IMPOSSIBLE])
    a.cmp(RAX, CLOCK_YEARS * YEAR_S)
    a.j(AE, bad[CLOCK_IMPOSSIBLE])
    a.cmp(TLS_POOL.it.slots.m64(), 0)
    a.j(E, bad[NO_ARENA])
    a.call(tls_arena_take)
    a.j(C, waits)

    # What keeps the arena from others is bounded: the SYN counts too.
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, HANDSHAKE_TIMEOUT_MS)
    a.add(RAX, core.now)
    a.mov(shard.tls.deadline, RAX)
    # RFC 6066 3: a name goes without its last dot, and an address is no name.
    a.mov(R14, shard.tls.arena_ptr)
    a.cmp(mem8(R12, -1, index=R13, ref=BUFFER_IN), ord("."))
    with a.if_(E):
        a.dec(R13D)
    a.lea(RDI, arena.host.address)
    a.mov(RSI, R12)
    a.mov(ECX, R13D)
    a.mov(arena.host_len, ECX)
    a.rep_movsb()
    a.mov(RSI, R12)
    a.mov(ECX, R13D)
    a.call(dns_parse_quad)
    a.mov(EAX, 1)
    a.sbb(EAX, 0)
    a.mov(arena.is_address, AX)
    a.clc()
    a.ret()
    bad.emit(failed)
    a.place(failed)
    a.call(tls_fail)
    a.place(waits)
    a.stc()
    a.ret()
