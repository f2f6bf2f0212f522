"""Arenas: lent in order, wiped when they come back, nobody starves and nobody overtakes."""

import random

import pytest

from emulator.memory import Region
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls_arena import TlsArena
from firmware.layouts.tls_pool import ARENAS_MAX, TLS_POOL
from firmware.tls.pool import tls_arena_give, tls_arena_leave, tls_arena_take
from tests.support.lab import Lab

BASE, SHARDS = 0x6B00_0000, 8
LAB = Lab(
    tls_arena_give, tls_arena_leave, tls_arena_take, slots=SHARDS, semantics=False,
    extra=(Region("arenas", BASE, ARENAS_MAX * TlsArena.SIZE, foreign=True),),
)  # fmt: skip


@pytest.fixture(autouse=True)
def _fresh():
    LAB.reset()
    for slot in range(SHARDS):
        LAB.shard(slot)
    make(ARENAS_MAX)


def make(count):
    for n in range(ARENAS_MAX):
        row = LAB.g(TLS_POOL).slots[n]
        row.address = BASE + n * TlsArena.SIZE if n < count else 0


def shard(slot):
    return LAB.shard(slot, wipe=False)


def tls(slot):
    return LAB.view(ShardContext, shard(slot)).tls


def take(slot):
    return not LAB.call(tls_arena_take, shard=shard(slot)).outputs["cf"]


def give(slot):
    LAB.call(tls_arena_give, shard=shard(slot))


def waiting():
    pool = LAB.g(TLS_POOL)
    contexts = [shard(slot) for slot in range(SHARDS)]
    return [contexts.index(pool.queue[n].shard) for n in range(pool.waiting)]


def test_as_many_as_there_are_get_one_each():
    assert [take(slot) for slot in range(6)] == [True] * 4 + [False] * 2
    assert len({tls(slot).arena_ptr for slot in range(4)}) == 4
    assert waiting() == [4, 5]


def test_a_shard_that_has_one_keeps_it():
    assert take(0)
    first = tls(0).arena_ptr
    assert take(0)
    assert (tls(0).arena_ptr, waiting()) == (first, [])


def test_the_first_that_waits_is_the_next_whoever_asks():
    for slot in range(7):
        take(slot)
    give(2)
    assert not take(6)
    assert not take(5)
    assert take(4)
    assert waiting() == [5, 6]
    give(0)
    give(1)
    assert take(6)
    assert take(5)


def test_an_arena_comes_back_wiped():
    take(0)
    at = tls(0).arena_ptr
    LAB.machine.write(at, b"\xee" * TlsArena.SIZE)
    give(0)
    assert LAB.machine.read(at, TlsArena.SIZE) == bytes(TlsArena.SIZE)
    assert tls(0).arena_ptr == 0


def test_who_gives_up_leaves_the_queue():
    for slot in range(7):
        take(slot)
    give(5)
    assert waiting() == [4, 6]
    LAB.call(tls_arena_leave, shard=shard(4))
    assert waiting() == [6]
    give(3)
    assert take(6)


def test_without_arenas_everybody_waits():
    make(0)
    assert [take(0), take(1), take(0)] == [False] * 3
    assert waiting() == [0, 1]
    give(0)
    assert waiting() == [1]


@pytest.mark.parametrize("seed", range(4))
def test_nobody_starves_and_nobody_overtakes(seed):
    """Shards ask, finish and give up at random; who asked first is served first."""
    draw = random.Random(seed)
    order: list[int] = []
    for _ in range(60):
        slot = draw.randrange(SHARDS)
        if tls(slot).arena_ptr or draw.random() < 0.15:
            give(slot)
            order = [other for other in order if other != slot]
            continue
        if slot not in order:
            order.append(slot)
        free = ARENAS_MAX - sum(bool(tls(other).arena_ptr) for other in range(SHARDS))
        wanted = order.index(slot) < free
        assert take(slot) == wanted
        if wanted:
            order.remove(slot)
        assert waiting() == order


@pytest.mark.parametrize("wild", [0, 0x5A5A_5A5A_5A58, BASE + TlsArena.SIZE])
def test_a_shard_that_lost_its_word_gives_back_what_the_pool_lent_it(wild):
    """A fault may have left anything there; no other shard's arena is touched."""
    for slot in range(5):
        take(slot)
    first, second = BASE, BASE + TlsArena.SIZE
    for arena in (first, second):
        LAB.machine.write(arena, b"\xa5" * TlsArena.SIZE)
    tls(0).arena_ptr = wild
    give(0)
    assert LAB.machine.read(first, TlsArena.SIZE) == bytes(TlsArena.SIZE)
    assert LAB.machine.read(second, TlsArena.SIZE) == b"\xa5" * TlsArena.SIZE
    assert (tls(0).arena_ptr, LAB.g(TLS_POOL).slots[0].owner) == (0, 0)
    assert take(4)


def link(slot):
    LAB.view(ShardContext, shard(slot)).unleased = 1
    return slot


def test_in_a_fleet_the_last_one_is_left_to_the_links():
    LAB.g(FLEET_CONFIG).magic = FLEET_MAGIC
    assert [take(slot) for slot in range(5)] == [True] * 3 + [False] * 2
    assert take(link(6))
    assert waiting() == [3, 4]
    give(0)
    assert not take(3)  # the one that is free again is the links'
    give(6)
    assert [take(4), take(3)] == [False, True]


def test_a_link_waits_behind_nobody():
    assert [take(slot) for slot in range(6)] == [True] * 4 + [False] * 2
    assert not take(link(7))
    assert waiting() == [4, 5]
    give(2)
    assert take(7)
    assert waiting() == [4, 5]


def test_the_only_one_is_for_everybody():
    LAB.g(FLEET_CONFIG).magic = FLEET_MAGIC
    make(1)
    assert take(0)
    assert not take(link(1))
    give(0)
    assert take(1)
