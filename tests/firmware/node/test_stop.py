"""The clean stop of a node: begun once, bounded, reported, and then over."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.environment import Environment
from firmware.layouts.control import ControlResult
from firmware.layouts.fleet import FLEET, HeldPhase
from firmware.layouts.log import LOG, LOG_RING
from firmware.layouts.node import CLOCK, CORE, PLAN
from firmware.layouts.power import POWER
from firmware.layouts.shard import ShardContext, ShardState
from firmware.layouts.stop import STOP, StopPhase, StopReason, StopReport
from firmware.layouts.tcp import TcpState
from firmware.node.stop import control_stop, stop_begin, stop_open, stop_tick
from tests.support.lab import Lab
from tests.support.states import MS, NOW
from toolchain.layout.pack import unpack

LAB = Lab(stop_begin, stop_open, stop_tick, control_stop, slots=3)
NEVER = 2**64 - 1
S, P, T = ShardState, StopPhase, TcpState


def prepare(*shards, cycles=MS):
    """Return the shards' contexts, each given as state, TCP state, close deadline and flag."""
    LAB.reset()
    LAB.g(CLOCK).tsc_cycles_per_ms, LAB.g(CORE).now = cycles, NOW
    core, made = LAB.g(CORE), []
    core.slots_used = len(shards)
    LAB.g(PLAN).local_count = len(shards)
    for n, (state, tcp, deadline, flag) in enumerate(shards):
        context = LAB.view(ShardContext, LAB.shard(n))
        context.state, context.tcp.state, context.close_deadline = state, tcp, deadline
        core.slots[n].context, core.slots[n].flags = context.address_, flag
        core.slots[n].deadline = NEVER
        made.append(context)
    return made


def lines():
    raw = LAB.machine.read(LAB.image.address(LOG_RING), LAB.g(LOG).head)
    return [line.split(" code=")[1] for line in raw.decode().splitlines()]


def tick(*, status=0):
    where = Environment(on_port_in=lambda _port, _size: status)
    return LAB.call(stop_tick, where).outputs["rax"]


@pytest.mark.parametrize(
    ("shard", "counted"),
    [
        ((S.ASSIGNED, T.CLOSED, 0, 1), 0),
        ((S.FATAL, T.CLOSED, 0, 1), 0),
        ((S.FATAL, T.FAILED, 0, 1), 0),
        ((S.FATAL, T.FIN_WAIT_1, 5, 1), 1),
        ((S.ASSIGNED, T.CLOSED, 5, 1), 1),
        ((S.ASSIGNED, T.TIME_WAIT, 0, 1), 1),
        ((S.READY, T.CLOSED, 0, 1), 1),
        ((S.BACKOFF, T.CLOSED, 0, 1), 1),
        ((S.READY, T.ESTABLISHED, 0, 0), 0),
    ],
)
def test_stop_open_counts_what_is_not_released(shard, counted):
    prepare(shard, (S.ASSIGNED, T.CLOSED, 0, 1))
    assert LAB.call(stop_open).outputs["eax"] == counted


@settings(max_examples=60)
@given(
    shards=st.lists(
        st.tuples(
            st.sampled_from(S), st.sampled_from(T), st.sampled_from([0, 1]), st.integers(0, 1)
        ),
        max_size=3,
    )
)
def test_stop_open_any_shards_match_model(shards):
    prepare(*shards)
    LAB.call(stop_open)


def test_stop_begin_makes_every_shard_due_and_does_so_once():
    prepare(*[(S.READY, T.ESTABLISHED, 0, 1)] * 3)
    LAB.call(stop_begin, reason=StopReason.COMMAND)
    stop, core = LAB.g(STOP), LAB.g(CORE)
    assert (stop.phase, stop.reason, stop.began) == (P.DRAINING, StopReason.COMMAND, NOW)
    assert stop.deadline == NOW + 6000 * MS
    assert [core.slots[n].deadline for n in range(3)] == [0, 0, 0]
    core.now += MS
    LAB.call(stop_begin, reason=StopReason.POWER_BUTTON)
    assert (stop.reason, stop.began) == (StopReason.COMMAND, NOW)
    assert lines() == ["node.stopping reason=command shards=3"]


def test_stop_gives_the_slots_of_a_fleet_back_and_waits_for_it():
    prepare((S.ASSIGNED, T.CLOSED, 0, 1))
    fleet, stop = LAB.g(FLEET), LAB.g(STOP)
    fleet.held[0].phase, fleet.holding = HeldPhase.RUNNING, 1
    LAB.call(stop_begin, reason=StopReason.COMMAND)
    assert (fleet.held[0].phase, fleet.closing) == (HeldPhase.STOPPING, 1)
    assert tick() == stop.deadline
    assert stop.phase == P.DRAINING
    fleet.holding = 0
    tick()
    assert (stop.phase, stop.left) == (P.STOPPED, 0)


@pytest.mark.parametrize("reason", StopReason)
@pytest.mark.parametrize("phase", P)
def test_stop_begin_looks_at_the_phase_alone(phase, reason):
    prepare()
    stop = LAB.g(STOP)
    stop.phase, stop.reason = phase, reason
    LAB.call(stop_begin, reason=StopReason.COMMAND)
    assert stop.began == (NOW if phase == P.RUNNING else 0)


@pytest.mark.parametrize("late", [-1, 0, 1])
@pytest.mark.parametrize(("phase", "after"), [(P.DRAINING, P.STOPPED), (P.STOPPED, P.OFF)])
def test_the_end_of_a_phase_is_compared_without_a_sign(phase, after, late):
    prepare((S.READY, T.ESTABLISHED, 0, 1))
    stop = LAB.g(STOP)
    stop.phase, stop.deadline, LAB.g(CORE).now = phase, 2**63, 2**63 + late
    tick()
    assert stop.phase == (phase if late < 0 else after)


def test_a_press_of_the_power_button_begins_it():
    prepare((S.READY, T.ESTABLISHED, 0, 1))
    LAB.g(POWER).status = 0x600
    assert tick(status=0x20) == NEVER
    assert tick(status=0x120) == NOW
    assert LAB.g(STOP).phase == P.DRAINING
    assert lines() == ["node.stopping reason=power_button shards=1"]


def test_it_waits_for_the_last_connection_and_reports():
    (shard,) = prepare((S.READY, T.ESTABLISHED, 0, 1))
    LAB.call(stop_begin, reason=StopReason.COMMAND)
    stop = LAB.g(STOP)
    assert tick() == NOW + 6000 * MS
    shard.state, shard.tcp.state = S.ASSIGNED, T.CLOSED
    stop.closed, LAB.g(CORE).now = 1, NOW + 40 * MS
    assert tick() == NOW + 1040 * MS
    assert (stop.phase, stop.took, stop.left) == (P.STOPPED, 40 * MS, 0)
    assert lines()[-1] == "node.stopped closed=1 reset=0 left=0 took=40"
    LAB.g(CORE).now = NOW + 1040 * MS - 1
    assert tick() == NOW + 1040 * MS
    LAB.g(CORE).now += 1
    assert tick() == NEVER
    assert stop.phase == P.OFF
    assert tick() == NEVER


def test_it_ends_when_its_time_is_over_whatever_is_open():
    prepare((S.READY, T.ESTABLISHED, 0, 1), (S.READY, T.ESTABLISHED, 0, 1))
    LAB.call(stop_begin, reason=StopReason.COMMAND)
    LAB.g(CORE).now = NOW + 6000 * MS - 1
    tick()
    assert LAB.g(STOP).phase == P.DRAINING
    LAB.g(CORE).now += 1
    tick()
    assert lines()[-1] == "node.stopped closed=0 reset=0 left=2 took=6000"


def test_without_a_clock_it_ends_at_once():
    prepare((S.ASSIGNED, T.CLOSED, 0, 1), cycles=0)
    LAB.call(stop_begin, reason=StopReason.COMMAND)
    tick()
    tick()
    assert LAB.g(STOP).phase == P.OFF


@pytest.mark.parametrize("cycles", [0, MS])
def test_the_verb_begins_it_and_then_tells_how_far_it_is(cycles):
    prepare((S.READY, T.ESTABLISHED, 0, 1), cycles=cycles)
    answer = LAB.machine.alloc(64)

    def ask():
        request = LAB.machine.alloc(64)
        got = LAB.call(control_stop, request=request, length=0, answer=answer, room=48).outputs
        assert (got["eax"], got["ecx"]) == (ControlResult.DONE, StopReport.SIZE)
        report = unpack(StopReport, LAB.machine.read(answer, StopReport.SIZE))
        assert got["rdx"] == report["phase"]
        return report

    first = ask()
    assert (first["phase"], first["reason"], first["open"]) == (P.DRAINING, StopReason.COMMAND, 1)
    stop = LAB.g(STOP)
    stop.phase, stop.closed, stop.reset, stop.left, stop.took = P.STOPPED, 3, 2, 1, 7 * MS
    assert ask() == {
        "phase": P.STOPPED, "reason": StopReason.COMMAND, "open": 1, "closed": 3, "reset": 2,
        "left": 1, "took": 7 if cycles else 7 * MS,
    }  # fmt: skip
