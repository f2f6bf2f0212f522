"""When a shard tries again: seed A's fixed delay in its order, seed B's jitter, a schedule."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.environment import Environment
from firmware.layouts.config import CONFIG
from firmware.layouts.crypto import DRBG
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.policy import STARTUP, Policy
from firmware.layouts.shard import ShardContext, ShardFlag, ShardState, Stop
from firmware.shard.backoff import (
    choose_delay,
    full_jitter,
    recovery_delay,
    schedule_backoff,
    schedule_backoff_jittered,
)
from tests.support.lab import Lab
from tests.support.states import MS, NOW, policies, set_policy, shard_fields

LAB = Lab(schedule_backoff, schedule_backoff_jittered, full_jitter, recovery_delay, choose_delay)
WORDS = st.one_of(st.sampled_from([0, 1, 2**32 - 1, 2**63, 2**64 - 1]), st.integers(0, 2**64 - 1))


@settings(max_examples=60, deadline=None)
@given(reconnects=WORDS, cycles=WORDS, now=WORDS)
def test_schedule_backoff_any_state_matches_model(reconnects, cycles, now):
    shard = LAB.shard()
    context = LAB.view(ShardContext, shard)
    context.reconnects = reconnects
    LAB.g(CLOCK).tsc_cycles_per_ms = cycles
    LAB.call(schedule_backoff, Environment(tsc=[now]), shard=shard)
    assert context.state == ShardState.BACKOFF
    assert context.reconnects == (reconnects + 1) % 2**64
    wanted = (now + cycles * 5000) % 2**64 if cycles else 0
    assert context.reconnect_deadline == wanted


@pytest.mark.parametrize("routine", [schedule_backoff, schedule_backoff_jittered])
@pytest.mark.parametrize(("cycles", "deadline"), [(MS, NOW + 5_000 * MS), (0, 0)])
def test_without_a_clock_no_deadline_is_computed(routine, cycles, deadline):
    context = LAB.view(ShardContext, LAB.shard())
    context.reconnects, context.reconnect_deadline, context.evidence.delay_ms = 6, 1, 5_000
    LAB.g(CLOCK).tsc_cycles_per_ms = cycles
    LAB.call(routine, Environment(tsc=[NOW] if cycles else []), shard=context.address_)
    assert (context.state, context.reconnects) == (ShardState.BACKOFF, 7)
    assert context.reconnect_deadline == deadline


def test_schedule_backoff_bytes_follow_the_seed():
    placed = LAB.image.symbols["schedule_backoff"]
    code = LAB.machine.read(placed.address, placed.size)
    assert code.startswith(bytes.fromhex("c70303000000 48ff4310 488b05"))
    assert code.endswith(bytes.fromhex("48c7431800000000 c3"))


@settings(max_examples=60, deadline=None)
@given(reconnects=WORDS, cycles=WORDS, now=WORDS, delay=st.sampled_from([0, 1, 30_000, 2**32 - 1]))
def test_schedule_backoff_jittered_any_state_matches_model(reconnects, cycles, now, delay):
    shard = LAB.shard()
    context = LAB.view(ShardContext, shard)
    context.reconnects, context.evidence.delay_ms = reconnects, delay
    LAB.g(CLOCK).tsc_cycles_per_ms = cycles
    LAB.call(schedule_backoff_jittered, Environment(tsc=[now]), shard=shard)
    assert context.state == ShardState.BACKOFF
    wanted = (now + cycles * delay) % 2**64 or 1
    assert context.reconnect_deadline == (wanted if cycles else 0)


def prepare(fields=None, draw=b""):
    LAB.reset()
    LAB.g(CLOCK).tsc_cycles_per_ms, LAB.g(CORE).now = MS, NOW
    drbg = LAB.g(DRBG)
    drbg.available = 64
    start = drbg.pool.size - 64
    drbg.pool[start : start + len(draw)] = draw
    shard = LAB.shard()
    context = LAB.view(ShardContext, shard)
    for name, value in (fields or {}).items():
        setattr(context, name, value)
    return shard, context


LARGEST = b"\xff" * 8


@pytest.mark.parametrize(
    ("step", "wanted"),
    [(0, 999), (1, 1_999), (2, 3_999), (4, 15_999), (5, 29_999), (31, 29_999), (2**32 - 1, 29_999)],
)
def test_full_jitter_doubles_up_to_the_largest_ceiling(step, wanted):
    prepare(draw=LARGEST)
    assert LAB.call(full_jitter, least=1_000, most=30_000, step=step).outputs["eax"] == wanted


@settings(max_examples=80, deadline=None)
@given(
    least=st.sampled_from([0, 1, 100, 1_000, 2**31 - 1, 2**32 - 1]),
    most=st.sampled_from([0, 100, 30_000, 2**32 - 1]),
    step=st.integers(0, 40),
    draw=st.binary(min_size=8, max_size=8),
)
def test_full_jitter_is_below_its_ceiling(least, most, step, draw):
    prepare(draw=draw)
    got = LAB.call(full_jitter, least=least, most=most, step=step).outputs["eax"]
    assert got < max(1, min(most, least * 2 ** min(step, 31)))


@settings(max_examples=80, deadline=None)
@given(fields=shard_fields(), policy=policies())
def test_recovery_delay_any_state_matches_model(fields, policy):
    shard, context = prepare(fields)
    set_policy(LAB, policy, NOW)
    before = context.recovery_step
    LAB.call(recovery_delay, shard=shard)
    assert context.evidence.recovery_step == before


def test_recovery_delay_of_a_schedule_ends_with_it():
    shard, context = prepare()
    LAB.g(CONFIG).policy, LAB.g(CONFIG).schedule_len = Policy.SCHEDULE, 2
    for n, ms in enumerate((250, 4_000)):
        LAB.g(CONFIG).schedule_ms[n].ms = ms
    got = [LAB.call(recovery_delay, shard=shard).outputs for _ in range(3)]
    assert [(x["eax"], x["edx"]) for x in got] == [
        (250, 0),
        (4_000, 0),
        (0, Stop.SCHEDULE_ENDED),
    ]
    assert context.recovery_step == 2


@pytest.mark.parametrize(("before", "after"), [(0, 1), (30, 31), (31, 31), (255, 255)])
def test_recovery_delay_counts_no_further_than_its_ceiling_grows(before, after):
    shard, context = prepare({"recovery_step": before}, LARGEST)
    LAB.g(CONFIG).policy = Policy.JITTERED
    LAB.call(recovery_delay, shard=shard)
    assert (context.recovery_step, context.evidence.recovery_step) == (after, before)


def test_recovery_delay_of_a_schedule_that_became_shorter_has_ended():
    shard, context = prepare({"recovery_step": 255})
    LAB.g(CONFIG).policy, LAB.g(CONFIG).schedule_len = Policy.SCHEDULE, 2
    assert LAB.call(recovery_delay, shard=shard).outputs["edx"] == Stop.SCHEDULE_ENDED
    assert context.recovery_step == 255


@settings(max_examples=150, deadline=None)
@given(fields=shard_fields(), policy=policies())
def test_choose_delay_any_state_matches_model(fields, policy):
    shard, _ = prepare(fields)
    set_policy(LAB, policy, NOW)
    LAB.call(choose_delay, shard=shard)


@pytest.mark.parametrize(
    ("fields", "policy", "wanted"),
    [
        ({"attempts": 1}, Policy.JITTERED, 999),
        ({"attempts": 3}, Policy.JITTERED, 3_999),
        ({"attempts": 0}, Policy.JITTERED, 999),
        ({"flags": ShardFlag.ESTABLISHED, "recovery_step": 1}, Policy.JITTERED, 1_999),
        ({"flags": ShardFlag.STARTUP_OVER, "recovery_step": 2}, Policy.JITTERED, 3_999),
        ({"attempts": 2}, Policy.FIXED, 5_000),
        ({"attempts": 2, "required_wait_ms": 7_000}, Policy.FIXED, 7_000),
        ({"attempts": 1, "required_wait_ms": 7_000}, Policy.JITTERED, 7_000),
        ({"attempts": 1, "required_wait_ms": 998}, Policy.JITTERED, 999),
        ({"attempts": 1, "required_wait_ms": 2**31}, Policy.JITTERED, 2**31),
    ],
)
def test_choose_delay_by_phase_and_policy(fields, policy, wanted):
    shard, context = prepare(fields, LARGEST)
    LAB.g(CONFIG).policy = policy
    assert LAB.call(choose_delay, shard=shard).outputs["eax"] == 0
    assert context.evidence.delay_ms == wanted


@pytest.mark.parametrize(
    ("step", "stop", "delay_ms"), [(0, Stop.NONE, 250), (1, Stop.SCHEDULE_ENDED, 0)]
)
def test_choose_delay_ends_with_the_schedule(step, stop, delay_ms):
    shard, context = prepare({"flags": ShardFlag.ESTABLISHED, "recovery_step": step})
    LAB.g(CONFIG).policy, LAB.g(CONFIG).schedule_len = Policy.SCHEDULE, 1
    LAB.g(CONFIG).schedule_ms[0].ms = 250
    assert LAB.call(choose_delay, shard=shard).outputs["eax"] == stop
    assert context.evidence.delay_ms == delay_ms


@pytest.mark.parametrize(
    ("left_ms", "flags", "stop"),
    [
        (5_000, 0, Stop.STARTUP_DEADLINE),
        (5_001, 0, Stop.NONE),
        (5_000, ShardFlag.ESTABLISHED, Stop.NONE),
        (0, 0, Stop.NONE),
    ],
)
def test_choose_delay_startup_ends_where_no_attempt_fits(left_ms, flags, stop):
    shard, _ = prepare({"attempts": 1, "flags": flags})
    LAB.g(CONFIG).policy = Policy.FIXED
    LAB.g(STARTUP).deadline = NOW + left_ms * MS if left_ms else 0
    assert LAB.call(choose_delay, shard=shard).outputs["eax"] == stop


@pytest.mark.parametrize("late", [-1, 0, 1])
def test_choose_delay_compares_the_end_of_the_startup_without_a_sign(late):
    shard, _ = prepare({"attempts": 1})
    LAB.g(CONFIG).policy = Policy.FIXED
    LAB.g(STARTUP).deadline, LAB.g(CORE).now = 2**63, 2**63 + late - 5_000 * MS
    stop = Stop.NONE if late < 0 else Stop.STARTUP_DEADLINE
    assert LAB.call(choose_delay, shard=shard).outputs["eax"] == stop
