"""The wait for a saved session: its budget, its end, and who does not wait."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware.layouts.config import CONFIG
from firmware.layouts.log import LOG, LOG_RING
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.permit import PERMITS
from firmware.layouts.plan import MOVES
from firmware.layouts.policy import STARTUP, SessionProvider
from firmware.layouts.shard import Hold, SessionLoad, ShardContext, ShardFlag
from firmware.shard.load import session_wait
from tests.support.lab import Lab

LAB = Lab(session_wait)
MS, NOW = 1_000_000, 900_000 * 1_000_000


def prepare(*, left_ms=30_000, timeout_ms=5_000, provider=SessionProvider.HOST):
    LAB.reset()
    LAB.g(CLOCK).tsc_cycles_per_ms, LAB.g(CORE).now = MS, NOW
    config = LAB.g(CONFIG)
    config.session_provider, config.load_timeout_ms = provider, timeout_ms
    LAB.g(STARTUP).deadline = 0 if left_ms is None else NOW + left_ms * MS
    return LAB.view(ShardContext, LAB.shard(0))


def wait(shard, at_ms=0):
    LAB.g(CORE).now = NOW + at_ms * MS
    return LAB.call(session_wait, shard=shard.address_).outputs["eax"]


def lines():
    return LAB.machine.read(LAB.image.address(LOG_RING), LAB.g(LOG).head).decode()


def test_without_a_provider_nobody_waits():
    shard = prepare(provider=SessionProvider.NONE)
    assert (wait(shard), shard.load_deadline) == (0, 0)


def test_a_host_that_keeps_none_lets_nobody_wait():
    shard = prepare(timeout_ms=0)
    assert (wait(shard), shard.load_deadline, lines()) == (0, 0, "")


def test_who_has_heard_does_not_wait():
    shard = prepare()
    shard.load = SessionLoad.SETTLED
    assert (wait(shard), shard.load_deadline) == (0, 0)


@pytest.mark.parametrize(
    ("left_ms", "timeout_ms", "budget_ms"),
    [
        (30_000, 5_000, 5_000),
        (4_000, 5_000, 4_000),
        (0, 5_000, 1),
        (-7, 5_000, 1),
        (9, 1, 1),
        (2**63 // MS + 1, 5_000, 5_000),
    ],
)
def test_the_budget_is_bounded_by_the_startup(left_ms, timeout_ms, budget_ms):
    shard = prepare(left_ms=left_ms, timeout_ms=timeout_ms)
    assert wait(shard) == Hold.SESSION_LOAD
    assert shard.load_deadline == NOW + budget_ms * MS
    LAB.g(CORE).now = shard.load_deadline - 1
    assert LAB.call(session_wait, shard=shard.address_).outputs["eax"] == Hold.SESSION_LOAD
    assert lines() == ""
    assert wait(shard, budget_ms) == 0
    assert shard.load == SessionLoad.SETTLED
    assert (
        f"code=lifecycle.sessionLoadFailed origin=application timeoutMs={timeout_ms}\n" in lines()
    )
    assert wait(shard, budget_ms) == 0
    assert lines().count("\n") == 1


def test_the_end_of_the_startup_is_compared_without_a_sign():
    shard = prepare()
    LAB.g(CORE).now, LAB.g(STARTUP).deadline = 2**63 - 2 * MS, 2**63 + 7 * MS
    LAB.call(session_wait, shard=shard.address_)
    assert shard.load_deadline == 2**63 + 7 * MS


@pytest.mark.parametrize("late", [-1, 0, 1])
def test_the_end_of_the_wait_is_compared_without_a_sign(late):
    shard = prepare()
    LAB.g(CORE).now, shard.load_deadline = 2**63 + late, 2**63
    got = LAB.call(session_wait, shard=shard.address_).outputs["eax"]
    assert got == (Hold.SESSION_LOAD if late < 0 else 0)


@pytest.mark.parametrize("flags", [0, 0xFF & ~ShardFlag.ESTABLISHED])
def test_a_wait_of_the_boot_that_ends_tells_the_timeout_of_the_boot(flags):
    shard = prepare()
    shard.flags, shard.load_deadline, LAB.g(MOVES).wait_ms = flags, NOW, 700
    assert wait(shard) == 0
    assert "timeoutMs=5000\n" in lines()


@pytest.mark.parametrize("timeout_ms", [0, 5_000])
def test_a_shard_that_a_move_brings_waits_as_the_move_says(timeout_ms):
    """The startup is over, and what the image says of loads at the boot does not count."""
    shard = prepare(left_ms=-90_000, timeout_ms=timeout_ms)
    shard.flags, shard.load_deadline = ShardFlag.ESTABLISHED, NOW + 700 * MS
    LAB.g(MOVES).wait_ms = 700
    assert wait(shard, 699) == Hold.SESSION_LOAD
    assert lines() == ""
    assert wait(shard, 700) == 0
    assert shard.load == SessionLoad.SETTLED
    assert "code=lifecycle.sessionLoadFailed origin=application timeoutMs=700\n" in lines()


def test_a_shard_of_a_fleet_waits_as_the_fleet_says():
    shard = prepare(left_ms=-90_000, provider=SessionProvider.BUS)
    shard.flags, shard.load_deadline = ShardFlag.ESTABLISHED, NOW + 20_000 * MS
    LAB.g(MOVES).wait_ms = 700
    assert wait(shard, 19_999) == Hold.SESSION_LOAD
    assert wait(shard, 20_000) == 0
    assert shard.load == SessionLoad.SETTLED
    assert "code=lifecycle.sessionLoadFailed origin=application timeoutMs=20000\n" in lines()


def test_the_first_wait_begins_the_group_start():
    shard = prepare(left_ms=None)
    LAB.g(CONFIG).startup_timeout_ms, LAB.g(PERMITS).max_concurrency = 2_000, 1
    LAB.g(CORE).slots_used = 1
    assert wait(shard) == Hold.SESSION_LOAD
    assert LAB.g(STARTUP).deadline == NOW + 2_000 * MS
    assert shard.load_deadline == NOW + 2_000 * MS


@given(
    st.integers(0, 40_000),
    st.integers(0, 2**31 - 1),
    st.integers(0, 60_000),
    st.integers(0, 1),
    st.integers(0, 60_000),
)
def test_any_wait_is_as_the_model_says(left_ms, timeout_ms, at_ms, load, moved_ms):
    shard = prepare(left_ms=left_ms, timeout_ms=timeout_ms)
    shard.load = load
    if moved_ms:
        shard.flags, shard.load_deadline = ShardFlag.ESTABLISHED, NOW + moved_ms * MS
        LAB.g(MOVES).wait_ms = moved_ms
    wait(shard)
    wait(shard, at_ms)
