"""Before the SYN: entropy, clock, memory, an arena with the host in it."""

import pytest

from emulator.memory import Region
from firmware.errors import describe
from firmware.layouts.config import CONFIG
from firmware.layouts.crypto import DRBG
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.shard import FailureFlag, ShardContext
from firmware.layouts.tls import TlsState
from firmware.layouts.tls_arena import TlsArena
from firmware.layouts.tls_pool import ARENAS_MAX, TLS_POOL
from firmware.layouts.variants import VARIANTS, Variant
from firmware.limits import ARENA_STRIDE, WINDOW_ARENAS
from firmware.tls.judge import tls_wakes
from firmware.tls.prepare import YEAR_S, tls_prepare
from firmware.tls.transport import tls_abort, tls_ready, tls_start
from tests.support.lab import Lab
from tests.support.tls import DATE
from tests.support.variants import choose

SHARDS = 6
LAB = Lab(
    tls_abort, tls_prepare, tls_ready, tls_start, tls_wakes, slots=SHARDS, semantics=False,
    extra=[
        Region(f"arena{n}", WINDOW_ARENAS + n * ARENA_STRIDE, TlsArena.SIZE, foreign=True)
        for n in range(ARENAS_MAX)
    ],
)  # fmt: skip
BUILT = DATE - 100 * 86_400


@pytest.fixture(autouse=True)
def _fresh():
    LAB.reset()
    for n in range(SHARDS):
        LAB.shard(n)
    config, clock, drbg = LAB.g(CONFIG), LAB.g(CLOCK), LAB.g(DRBG)
    config.gateway_secure, config.build_time = 1, BUILT
    clock.unix_time, clock.tsc_cycles_per_ms, LAB.g(CORE).now = DATE, 1000, 1 << 40
    clock.unix_tsc = 1 << 40
    drbg.seeded = 1
    choose(LAB, Variant.FAST)
    for n in range(ARENAS_MAX):
        arena = WINDOW_ARENAS + n * ARENA_STRIDE
        LAB.g(TLS_POOL).slots[n].address = arena
        LAB.machine.write(arena, bytes(TlsArena.SIZE))


def shard(n=0):
    return LAB.view(ShardContext, LAB.shard(n, wipe=False))


def prepare(n=0, host=b"gateway.example"):
    at = LAB.put(host)
    return LAB.call(tls_prepare, shard=shard(n).address_, host=at, length=len(host)).outputs["cf"]


@pytest.mark.parametrize(
    ("host", "kept", "is_address"),
    [
        (b"gateway.example", b"gateway.example", 0),
        (b"gateway.example.", b"gateway.example", 0),
        (b"Gateway.Example", b"Gateway.Example", 0),
        (b"10.0.0.2", b"10.0.0.2", 1),
        (b"10.0.0.256", b"10.0.0.256", 0),
        (b"h" * 128, b"h" * 128, 0),
    ],
)
def test_the_host_is_laid_down_for_name_and_chain(host, kept, is_address):
    assert prepare(host=host) == 0
    arena = LAB.view(TlsArena, shard().tls.arena_ptr)
    assert bytes(arena.host[: arena.host_len]) == kept
    assert arena.is_address == is_address


def test_the_ten_seconds_begin_before_the_syn():
    assert prepare() == 0
    assert shard().tls.deadline == LAB.g(CORE).now + 10_000 * 1000
    assert LAB.call(tls_wakes, shard=shard().address_).outputs["rax"] == shard().tls.deadline
    LAB.g(CORE).now += 9
    LAB.call(tls_start, shard=shard().address_)
    assert shard().tls.deadline == LAB.g(CORE).now - 9 + 10_000 * 1000
    LAB.call(tls_abort, shard=shard().address_)
    assert LAB.call(tls_wakes, shard=shard().address_).outputs["rax"] == 2**64 - 1


def test_a_plain_connection_needs_nothing():
    LAB.g(CONFIG).gateway_secure = 0
    LAB.g(DRBG).weak = 1
    LAB.g(VARIANTS).usable = 0
    assert prepare() == 0
    assert (shard().tls.arena_ptr, shard().failure) == (0, 0)


def failure(n=0):
    context = shard(n)
    assert context.tls.state == TlsState.FAILED
    return describe(context.last_error), bool(context.failure_flags & FailureFlag.FATAL)


def test_without_entropy_there_is_no_tls():
    LAB.g(DRBG).weak = 1
    assert prepare() == 1
    assert failure() == ("tls.no_entropy", True)


def test_with_cryptography_that_is_wrong_there_is_no_tls():
    LAB.g(VARIANTS).usable = 0
    assert prepare() == 1
    assert failure() == ("tls.crypto_broken", True)


@pytest.mark.parametrize(
    ("date", "good"),
    [(BUILT - 1, False), (BUILT, True), (BUILT + 10 * YEAR_S - 1, True),
     (BUILT + 10 * YEAR_S, False), (0, False)],
)  # fmt: skip
def test_a_clock_that_cannot_be_right(date, good):
    LAB.g(CLOCK).unix_time = date
    assert prepare() == (not good)
    if not good:
        assert failure() == ("tls.clock_impossible", True)


def test_a_node_without_memory_for_an_arena_says_so():
    for n in range(ARENAS_MAX):
        LAB.g(TLS_POOL).slots[n].address = 0
    assert prepare() == 1
    assert failure() == ("tls.no_arena", True)


def test_a_shard_that_finds_no_arena_waits_and_is_woken_when_one_comes_back():
    core = LAB.g(CORE)
    core.slots_due = 7
    for n in range(SHARDS):
        core.slots[n].deadline = 1 << 50
        assert prepare(n) == (n >= ARENAS_MAX)
    assert shard(4).failure == 0
    LAB.call(tls_abort, shard=shard(2).address_)
    assert [core.slots[n].deadline for n in range(SHARDS)] == [1 << 50] * 4 + [0, 1 << 50]
    assert core.slots_due == 0
    assert prepare(5) == 1
    assert prepare(4) == 0


def test_start_begins_a_handshake_and_nothing_is_left_of_an_earlier_one():
    assert prepare() == 0
    context = shard()
    tls = context.tls
    arena, tls.flags, tls.plain_left, tls.gap, tls.suite = tls.arena_ptr, 0x7F, 9, 9, 0x1301
    tls.error, tls.peer_alert, tls.key_updates = 7, 40, 3
    tls.anchor, tls.key_kind = 9, 3
    LAB.call(tls_start, shard=context.address_)
    assert tls.state == TlsState.WAIT_SERVER_HELLO
    assert (tls.arena_ptr, tls.tcp_ptr) == (arena, context.tcp.address_)
    assert (tls.flags, tls.plain_left, tls.gap, tls.suite) == (0, 0, 0, 0)
    assert (tls.error, tls.peer_alert, tls.key_updates) == (0, 0, 0)
    assert (tls.anchor, tls.key_kind) == (0, 0)
    assert LAB.machine.read(context.tx_base, 3) == b"\x16\x03\x01"


@pytest.mark.parametrize(
    ("state", "ready"),
    [(TlsState.PASS_THROUGH, True), (TlsState.CONNECTED, True), (TlsState.FAILED, False),
     (TlsState.ENDED, False)],
)  # fmt: skip
def test_ready_tells_what_carries_bytes(state, ready):
    shard().tls.state = state
    assert LAB.call(tls_ready, shard=shard().address_).outputs["cf"] == (not ready)


def test_ready_starts_what_is_plain_at_once():
    LAB.g(CONFIG).gateway_secure = 0
    assert LAB.call(tls_ready, shard=shard().address_).outputs["cf"] == 0
    assert shard().tls.state == TlsState.PASS_THROUGH
