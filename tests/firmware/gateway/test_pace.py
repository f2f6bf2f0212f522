"""Send pacing: sixty buckets and the second that runs, and the server's own rate limits."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.gateway.pace import (
    gateway_ms_until,
    gateway_pace,
    gateway_pace_clear,
    gateway_pace_wait,
)
from firmware.gateway.poll import gateway_poll
from firmware.gateway.timers import gateway_tick
from firmware.layouts.gateway import GatewayState
from firmware.layouts.log import LOG
from firmware.layouts.log_line import Level
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.profile import PROFILES, SEND_OPS, ProfileId
from firmware.layouts.send import RETRY_MOST_MS, RETRY_UNKNOWN_MS
from firmware.layouts.shard import End
from tests.support.gateway_client import CYCLES_PER_MS, START, GatewayClient, ready_data
from tests.support.lab import Lab

LAB = Lab(
    gateway_poll, gateway_tick, gateway_pace, gateway_pace_clear, gateway_pace_wait, gateway_ms_until
)  # fmt: skip
SECOND = 1000 * CYCLES_PER_MS
WINDOW = 60 * SECOND


class Paced:
    """A shard whose sends are only counted."""

    def __init__(self, profile=ProfileId.DISCORD, interval=41_250):
        self.client = GatewayClient(LAB)
        self.client.shard.profile = profile
        self.client.gateway.heartbeat_interval_ms = interval
        self.client.shard.pacer.second_at = START

    @property
    def pacer(self):
        return self.client.shard.pacer

    def at(self, cycles):
        LAB.g(CORE).now = START + cycles

    def wait(self):
        return LAB.call(gateway_pace_wait, shard=self.client.at).outputs["eax"]

    def send(self, count=1):
        """Count sends as `gateway_submit` does."""
        LAB.call(gateway_pace, shard=self.client.at)
        self.pacer.running += count
        self.pacer.total += count


@pytest.mark.parametrize(
    ("profile", "interval", "limit"),
    [
        (ProfileId.DISCORD, 41_250, 110),
        (ProfileId.DISCORD, 2**31 - 1, 110),
        (ProfileId.DISCORD, 7_500, 110),
        (ProfileId.DISCORD, 6_666, 109),
        (ProfileId.DISCORD, 2_069, 90),
        (ProfileId.DISCORD, 1_000, 58),
        (ProfileId.DISCORD, 0, 58),
        (ProfileId.FLUXER, 41_250, 500),
        (ProfileId.FLUXER, 1_000, 500),
    ],
)
def test_the_limit_leaves_room_for_the_beats_of_a_minute(profile, interval, limit):
    paced = Paced(profile, interval)
    paced.send(limit - 1)
    assert paced.wait() == 0
    paced.send()
    assert paced.wait() == 61_000


def test_a_full_minute_opens_second_by_second():
    paced = Paced()
    for second in range(10):
        paced.at(second * SECOND)
        paced.send(11)
    assert paced.wait() == 61_000 - 9_000
    paced.at(61 * SECOND - 1)
    assert paced.wait() == 1
    paced.at(61 * SECOND)
    assert paced.wait() == 0
    assert paced.pacer.total == 99
    paced.send(11)
    assert paced.wait() == 1_000
    paced.at(62 * SECOND)
    assert paced.wait() == 0


@pytest.mark.parametrize(("late", "left"), [(0, 5), (61 * SECOND - 1, 5), (61 * SECOND, 0)])
def test_after_a_long_silence_nothing_is_remembered(late, left):
    paced = Paced()
    paced.send(5)
    paced.at(late)
    LAB.call(gateway_pace, shard=paced.client.at)
    assert paced.pacer.total == left
    assert sum(bytes(paced.pacer.buckets[:])) + paced.pacer.running == left


def test_a_second_that_begins_later_than_now_is_no_history():
    paced = Paced()
    paced.send(5)
    paced.at(-1)
    LAB.call(gateway_pace, shard=paced.client.at)
    assert paced.pacer.total == 0


@pytest.mark.parametrize(("now", "wait"), [(2**63 - 1, 2), (2**63, 1), (2**63 + 1, 0)])
def test_ms_until_has_no_sign(now, wait):
    LAB.reset()
    LAB.g(CORE).now, LAB.g(CLOCK).tsc_cycles_per_ms = now, 1
    assert LAB.call(gateway_ms_until, time=2**63 + 1).outputs["eax"] == wait


def test_without_a_clock_nothing_is_remembered():
    paced = Paced()
    paced.send(110)
    LAB.g(CLOCK).tsc_cycles_per_ms = 0
    assert paced.wait() == 0
    assert paced.pacer.total == 0


def test_clear_forgets_and_begins_a_second():
    paced = Paced()
    paced.send(7)
    paced.at(3 * SECOND)
    paced.send(7)
    LAB.call(gateway_pace_clear, shard=paced.client.at)
    pacer = paced.pacer
    assert (pacer.total, pacer.running, pacer.second_at) == (0, 0, START + 3 * SECOND)
    assert bytes(pacer.buckets[:]) == bytes(120)


@settings(max_examples=30, deadline=None)
@given(
    profile=st.sampled_from(ProfileId),
    interval=st.sampled_from([1_000, 3_000, 41_250]),
    steps=st.lists(
        st.tuples(
            st.one_of(st.integers(0, 1500), st.integers(0, 70_000), st.sampled_from([999, 1000])),
            st.integers(0, 300),
        ),
        max_size=14,
    ),
)
def test_no_minute_ever_holds_more_than_the_limit(profile, interval, steps):
    """The sends of any sixty seconds, to the cycle, and a wait that is neither short nor endless."""
    paced = Paced(profile, interval)
    now, sent = 0, []
    most = PROFILES[profile].send_limit
    for wait_ms, wanted in steps:
        now += wait_ms * CYCLES_PER_MS
        paced.at(now)
        waiting = paced.wait()
        assert waiting <= 61_000
        free = 0 if waiting else most - paced.pacer.total
        if waiting:
            now += waiting * CYCLES_PER_MS
            paced.at(now)
            assert paced.wait() == 0, "the wait that was told suffices"
            free = 1
        count = min(wanted, free)
        paced.send(count)
        sent += [now] * count
        assert sum(1 for at in sent if at > now - WINDOW) <= most
        kept = sum(1 for at in sent if at > now - 61 * SECOND)
        assert paced.pacer.total <= kept, "nothing is held against a sender for longer than 61 s"


@settings(max_examples=60, deadline=None)
@given(
    now=st.integers(0, 2**63),
    ahead=st.one_of(st.integers(-5, 5), st.integers(-(2**40), 2**40)),
    per_ms=st.sampled_from([0, 1, 1000, 2_400_000]),
)
def test_ms_until_rounds_up(now, ahead, per_ms):
    LAB.reset()
    LAB.g(CORE).now = now
    LAB.g(CLOCK).tsc_cycles_per_ms = per_ms
    time = max(0, now + ahead)
    got = LAB.call(gateway_ms_until, time=time).outputs["eax"]
    if ahead <= 0 or not per_ms:
        assert got == 0
    elif ahead // per_ms < 2**32 - 1:
        assert (got - 1) * per_ms < ahead <= got * per_ms


def connected(profile=ProfileId.DISCORD):
    client = GatewayClient(LAB)
    client.shard.profile = profile
    client.hello()
    client.dispatch("READY", 1, ready_data())
    return client


def not_before(client, op):
    row = SEND_OPS.index(op)
    raw = bytes(client.shard.pacer.not_before[8 * row : 8 * row + 8])
    return int.from_bytes(raw, "little")


def wait_of(client, op):
    until = not_before(client, op)
    return (until - client.now) // CYCLES_PER_MS if until else None


class TestRateLimited:
    @pytest.mark.parametrize(
        ("after", "wait"),
        [
            ("30", 30_000),
            ("29.4", 29_401),
            ("0.25", 251),
            ("0", 0),
            ("3600", RETRY_MOST_MS),
            ("3600.5", RETRY_MOST_MS),
            ("4294967295", RETRY_MOST_MS),
            ("4294967296", RETRY_UNKNOWN_MS),
            ("1e9", RETRY_UNKNOWN_MS),
            ("-3", RETRY_UNKNOWN_MS),
            ('"30"', RETRY_UNKNOWN_MS),
            ("null", RETRY_UNKNOWN_MS),
        ],
    )
    def test_the_opcode_waits_as_long_as_the_server_said(self, after, wait):
        client = connected()
        text = f'{{"t":"RATE_LIMITED","s":2,"op":0,"d":{{"opcode":8,"retry_after":{after},"meta":{{}}}}}}'
        client.receive(text.encode())
        assert wait_of(client, 8) == wait
        assert client.shard.sequence == 2
        assert client.shard.dispatches == 2
        assert all(not_before(client, op) == 0 for op in SEND_OPS if op != 8)

    def test_without_retry_after_the_wait_is_the_known_one(self):
        client = connected()
        client.dispatch("RATE_LIMITED", 2, {"opcode": 8})
        assert wait_of(client, 8) == RETRY_UNKNOWN_MS

    def test_a_later_limit_is_not_shortened(self):
        client = connected()
        client.dispatch("RATE_LIMITED", 2, {"opcode": 8, "retry_after": 30.0})
        until = not_before(client, 8)
        client.wait(1000)
        client.dispatch("RATE_LIMITED", 3, {"opcode": 8, "retry_after": 5.0})
        assert not_before(client, 8) == until
        client.dispatch("RATE_LIMITED", 4, {"opcode": 8, "retry_after": 60})
        assert wait_of(client, 8) == 60_000

    def test_the_same_limit_again_changes_nothing(self):
        client = connected()
        for sequence in (2, 3):
            client.dispatch("RATE_LIMITED", sequence, {"opcode": 8, "retry_after": 30.0})
        assert wait_of(client, 8) == 30_001

    def test_times_have_no_sign(self):
        """The first limit ends before the half of the counter, the second behind it."""
        client = connected()
        LAB.g(CORE).now = 2**63 - 30_000 * CYCLES_PER_MS
        client.dispatch("RATE_LIMITED", 2, {"opcode": 8, "retry_after": 29})
        client.dispatch("RATE_LIMITED", 3, {"opcode": 8, "retry_after": 31})
        assert wait_of(client, 8) == 31_000
        client.dispatch("RATE_LIMITED", 4, {"opcode": 8, "retry_after": 29})
        assert wait_of(client, 8) == 31_000

    @pytest.mark.parametrize("opcode", [0, 2, 7, 14, 63, 64, 2**32 - 1, 2**32, 8.0, "8", None, ...])
    def test_an_opcode_that_is_not_sent_is_nothing(self, opcode):
        client = connected()
        body = {"opcode": opcode, "retry_after": 30}
        client.dispatch("RATE_LIMITED", 2, {k: v for k, v in body.items() if v is not ...})
        assert bytes(client.shard.pacer.not_before[:]) == bytes(8 * len(SEND_OPS))
        assert client.shard.sequence == 2
        assert client.shard.failure == End.NONE

    @pytest.mark.parametrize("profile", PROFILES, ids=lambda p: p.id.name.lower())
    def test_every_opcode_of_a_profile_has_its_own_time(self, profile):
        client = connected(profile.id)
        for n, op in enumerate(profile.send_ops):
            client.dispatch("RATE_LIMITED", 2 + n, {"opcode": op, "retry_after": 10 + n})
        assert [wait_of(client, op) for op in profile.send_ops] == [
            1000 * (10 + n) for n in range(len(profile.send_ops))
        ]

    def test_the_line_says_which_opcode_and_how_long(self):
        client = connected()
        LAB.g(LOG).level = Level.WARN
        before = LAB.g(LOG).head
        client.dispatch("RATE_LIMITED", 2, {"opcode": 8, "retry_after": 30.0})
        start = LAB.image.address("log_ring")
        line = LAB.machine.read(start + before, LAB.g(LOG).head - before).decode()
        assert "code=gateway.rate_limited opcode=8 retry_ms=30001" in line

    def test_a_replayed_one_counts_too(self):
        client = GatewayClient(LAB)
        client.resumable(41)
        client.hello()
        client.dispatch("RATE_LIMITED", 42, {"opcode": 8, "retry_after": 30})
        assert wait_of(client, 8) == 30_000

    @pytest.mark.parametrize(
        "event", ["RATE_LIMITEX", "RATE_XIMITED", "XATE_LIMITED", "RATE_LIMITED_"]
    )
    def test_other_events_limit_nothing(self, event):
        client = connected()
        client.dispatch(event, 2, {"opcode": 8, "retry_after": 30})
        assert not_before(client, 8) == 0


class TestHistory:
    def test_an_identify_clears_it(self):
        client = GatewayClient(LAB)
        client.shard.pacer.total = client.shard.pacer.running = 110
        client.hello()
        assert [m["op"] for m in client.sent()] == [2]
        assert client.shard.pacer.total == 0

    def test_a_resume_keeps_it(self):
        client = GatewayClient(LAB)
        client.shard.pacer.total = client.shard.pacer.running = 110
        client.resumable()
        client.hello()
        client.dispatch("RESUMED", 42)
        assert client.gateway.state == GatewayState.READY
        assert client.shard.pacer.total == 110

    def test_an_identify_that_finds_no_room_clears_nothing_yet(self):
        client = GatewayClient(LAB)
        client.shard.pacer.total = client.shard.pacer.running = 110
        client.stream.fill(left=10)
        client.hello()
        assert client.shard.pacer.total == 110
