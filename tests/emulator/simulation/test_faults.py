from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.simulation.clock import NS_PER_MS, NS_PER_S
from emulator.simulation.faults import (
    ACTIONS,
    Event,
    FaultInjector,
    FaultPlan,
    PlanError,
    Rule,
    format_time,
    parse_time,
    shortest,
)
from emulator.simulation.matching import TESTS

FRAMES = [bytes([n]) * 6 + b"\x02" * 6 + b"\x08\x00" + bytes(50) for n in range(100)]


def run(plan: FaultPlan | str, frames=FRAMES, *, seed: int = 1, step_ns: int = NS_PER_MS):
    """Return the injector and (arrival time, frame) of everything that came out."""
    plan = FaultPlan.parse(plan) if isinstance(plan, str) else plan
    injector = FaultInjector(plan, random.Random(seed))
    out = [
        (index * step_ns + delivery.delay_ns, delivery.frame)
        for index, frame in enumerate(frames)
        for delivery in injector.enter(frame, index * step_ns, "node")
    ]
    return injector, out


def came_out(plan: FaultPlan | str, **how) -> list[bytes]:
    return [frame for _, frame in run(plan, **how)[1]]


rules = st.builds(
    Rule,
    action=st.sampled_from(ACTIONS),
    p=st.floats(0, 1),
    match=st.lists(st.sampled_from(sorted(TESTS)), min_size=1, max_size=2).map("+".join),
    nth=st.lists(st.integers(1, 40), max_size=3).map(tuple),
    src=st.sampled_from(("", "node")),
    dst=st.sampled_from(("", "peer")),
    after_ns=st.integers(0, 10**10),
    before_ns=st.none() | st.integers(1, 10**11),
    limit=st.integers(0, 5),
    by_ns=st.integers(0, 10**9),
    jitter_ns=st.integers(0, 10**8),
    copies=st.integers(1, 3),
    keep=st.none() | st.integers(0, 60),
    offset=st.none() | st.integers(0, 60),
    mask=st.integers(0, 255),
)
events = st.builds(
    Event, st.integers(0, 10**11), st.sampled_from(("link-down", "x")), st.sampled_from(("", "a b"))
)
plans = st.builds(
    FaultPlan,
    st.lists(rules, max_size=4).map(tuple),
    st.lists(events, max_size=2).map(tuple),
    st.none() | st.integers(0, 99),
)


@given(plans)
def test_a_plan_survives_being_printed_and_read_back(plan):
    assert FaultPlan.parse(str(plan)) == plan


@given(st.integers(0, 10**12))
def test_a_time_survives_being_printed_and_read_back(value):
    assert parse_time(format_time(value)) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("explode p=1", "fault plan line 1: 'explode' is no action; known: drop, delay"),
        ("drop\ndrop q=1", "fault plan line 2: 'q=1' is no setting; known: p, match"),
        ("drop p=2", "p=2.0 is no probability: write 0 to 1, such as p=0.01"),
        ("delay by=3", "'by=3': '3' is no time: write a number and ns, us, ms or s"),
        ("drop match=sinack", "match=sinack is unknown; known: any, broadcast"),
        ("drop nth=x", "'nth=x': invalid literal"),
        ("at soon x", "'soon' is no time"),
    ],
)
def test_a_bad_line_says_where_and_what_to_write(text, message):
    with pytest.raises(PlanError) as caught:
        FaultPlan.parse(text)
    assert message in str(caught.value)


def test_comments_and_empty_lines_are_allowed():
    plan = FaultPlan.parse("# nothing\n\n drop p=0.5 # half\nseed 3")
    assert plan == FaultPlan((Rule("drop", 0.5),), (), 3)


class TestActions:
    def test_no_rules_pass_everything_at_once(self):
        assert run("")[1] == [(i * NS_PER_MS, frame) for i, frame in enumerate(FRAMES)]

    def test_drop_by_number_takes_exactly_those(self):
        assert came_out("drop nth=3,5") == FRAMES[:2] + FRAMES[3:4] + FRAMES[5:]

    def test_drop_by_chance_takes_about_that_share_and_the_seed_decides(self):
        kept = came_out("drop p=0.3")
        assert 50 < len(kept) < 90
        assert kept == came_out("drop p=0.3")
        assert kept != came_out("drop p=0.3", seed=2)

    def test_the_plans_own_seed_beats_the_worlds(self):
        assert came_out("seed 9; drop p=0.3", seed=1) == came_out("seed 9; drop p=0.3", seed=2)

    def test_delay_keeps_the_order(self):
        _, out = run("delay nth=2 by=10ms", FRAMES[:4])
        assert out[1] == (11 * NS_PER_MS, FRAMES[1])
        assert out[2] == (11 * NS_PER_MS, FRAMES[2])
        assert out[3] == (11 * NS_PER_MS, FRAMES[3])

    def test_reorder_lets_later_frames_overtake(self):
        _, out = run("reorder nth=2 by=10ms", FRAMES[:4])
        assert [frame for _, frame in sorted(out)] == [FRAMES[0], FRAMES[2], FRAMES[3], FRAMES[1]]

    def test_jitter_stays_within_its_bound(self):
        _, out = run("reorder by=1ms jitter=2ms")
        delays = [at - i * NS_PER_MS for i, (at, _) in enumerate(out)]
        assert NS_PER_MS <= min(delays) < max(delays) < 3 * NS_PER_MS
        assert len(set(delays)) > 50

    def test_duplicate_adds_copies(self):
        assert came_out("duplicate nth=1 copies=2", frames=FRAMES[:2]) == [FRAMES[0]] * 3 + [
            FRAMES[1]
        ]

    def test_corrupt_flips_the_bits_it_names(self):
        (out,) = came_out("corrupt offset=20 mask=0x81", frames=FRAMES[:1])
        assert out == FRAMES[0][:20] + b"\x81" + FRAMES[0][21:]

    @pytest.mark.parametrize("plan", ["corrupt", "corrupt; corrupt"])
    def test_corrupt_by_chance_flips_one_bit(self, plan):
        """Two flips could cancel out in a checksum, which no receiver can be blamed for."""
        for before, after in zip(FRAMES, came_out(plan), strict=True):
            changed = int.from_bytes(before, "big") ^ int.from_bytes(after, "big")
            assert changed.bit_count() == 1

    def test_truncate_keeps_the_start(self):
        assert came_out("truncate keep=20 nth=1")[0] == FRAMES[0][:20]
        assert {len(frame) for frame in came_out("truncate")} <= set(range(64))

    def test_actions_add_up(self):
        out = came_out("duplicate nth=1; truncate keep=5 nth=1", frames=FRAMES[:1])
        assert out == [FRAMES[0][:5]] * 2


class TestConditions:
    def test_the_time_window_is_half_open(self):
        out = came_out("drop after=3ms before=5ms")
        assert out == FRAMES[:3] + FRAMES[5:]

    def test_the_limit_ends_a_rule(self):
        injector, out = run("drop limit=4")
        assert len(out) == 96
        assert injector.hits == {"drop": 4}

    def test_direction_is_the_entering_port(self):
        injector = FaultInjector(FaultPlan.parse("drop from=node"))
        assert injector.enter(FRAMES[0], 0, "node") == []
        assert len(injector.enter(FRAMES[0], 0, "peer")) == 1

    def test_the_leaving_port_is_judged_alone(self):
        injector = FaultInjector(FaultPlan.parse("drop to=node"))
        assert len(injector.enter(FRAMES[0], 0, "peer")) == 1
        assert injector.leave(FRAMES[0], 0, "peer", "node") == []
        assert len(injector.leave(FRAMES[0], 0, "peer", "other")) == 1

    def test_a_dropped_frame_still_counts_for_other_rules(self):
        assert came_out("drop nth=1; duplicate nth=2", frames=FRAMES[:2]) == [FRAMES[1]] * 2


class TestReplay:
    PLAN = (
        "drop p=0.1; delay p=0.1 by=2ms jitter=9ms; duplicate p=0.1; corrupt p=0.1; "
        "truncate p=0.1; reorder p=0.1 by=1ms jitter=5ms"
    )

    @given(st.integers(0, 1000))
    def test_the_script_of_a_run_replays_it_without_chance(self, seed):
        injector, out = run(self.PLAN, seed=seed)
        script = injector.script()
        assert all(rule.p == 1 and len(rule.nth) == 1 for rule in script.rules)
        assert run(script, seed=seed + 1)[1] == out
        assert run(FaultPlan.parse(str(script)))[1] == out

    def test_shortest_keeps_only_what_makes_it_fail(self):
        plan = FaultPlan.parse("; ".join(f"drop nth={n}" for n in range(1, 31)))

        def fails(trial: FaultPlan) -> bool:
            out = came_out(trial)
            return FRAMES[6] not in out and FRAMES[20] not in out

        assert str(shortest(plan, fails)) == "drop nth=7; drop nth=21"

    def test_shortest_removes_events_too(self):
        plan = FaultPlan.parse("drop p=0.5; at 5s x; at 6s y")
        found = shortest(plan, lambda trial: Event(6 * NS_PER_S, "y") in trial.events)
        assert str(found) == "at 6s y"
