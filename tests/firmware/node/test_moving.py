"""How a move goes on: who gives its row to whom, what the service wished, what the verb tells."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware.layouts.config import CONFIG
from firmware.layouts.control import ControlRequest
from firmware.layouts.node import CORE, PLAN
from firmware.layouts.plan import LOAD_WAIT_MAX_MS, MOVES, PlanOrder, PlanReport
from firmware.layouts.policy import SessionProvider
from firmware.layouts.sessions import DIGEST_BYTES
from firmware.layouts.shard import (
    SSES_VALID,
    Hold,
    ShardFlag,
)
from firmware.layouts.survivor import SURVIVAL, SavedSession
from firmware.layouts.tcp import TcpState
from firmware.limits import KEPT_PAGES, PAGE, RECORD_PAGE, SURVIVOR_PAGE
from firmware.node.moving import control_plan, plan_save, plan_settle, plan_tick
from tests.firmware.node.test_plan import (
    LAB,
    NEVER,
    NOW,
    L,
    P,
    R,
    S,
    lines,
    moved,
    prepare,
    ready_shards,
)
from tests.support.states import MS
from tests.support.token import set_token
from toolchain.layout.pack import pack, unpack


def settle(*shards, count, tcp=TcpState.CLOSED, close=0):
    made = prepare(*shards, count=count)
    for shard in made:
        shard.tcp.state, shard.close_deadline = tcp, close
    LAB.call(plan_settle)
    return made


@pytest.mark.parametrize("state", [S.ASSIGNED, S.FATAL])
@pytest.mark.parametrize("tcp", [TcpState.CLOSED, TcpState.FAILED])
def test_a_released_row_passes_on(state, tcp):
    made = settle((5, state, L.KEEPING), (0, S.READY, L.NO), count=2, tcp=tcp)
    assert [shard.shard_id for shard in made] == [1, 0]
    assert (made[0].leaving, LAB.g(MOVES).leaving) == (L.NO, 0)
    assert [LAB.g(CORE).slots[n].deadline for n in range(2)] == [0, NEVER]


def test_a_row_that_nobody_needs_is_free():
    made = settle((5, S.ASSIGNED, L.KEEPING), (0, S.READY, L.NO), count=1)
    assert [LAB.g(CORE).slots[n].flags for n in range(2)] == [0, 1]
    assert (made[0].shard_id, made[0].leaving, LAB.g(MOVES).leaving) == (5, L.NO, 0)
    LAB.g(MOVES).leaving = 1
    LAB.call(plan_settle)
    assert LAB.g(MOVES).leaving == 1


def test_every_row_is_looked_at():
    """Those that nobody uses are nobody's, whatever their shard was."""
    leaves, unused = (5, S.ASSIGNED, L.KEEPING), (6, S.ASSIGNED, L.KEEPING)
    for free in range(4):
        made = prepare(*(unused if n == free else leaves for n in range(4)), count=2)
        LAB.g(CORE).slots[free].flags = 0
        LAB.g(MOVES).leaving = 3
        LAB.call(plan_settle)
        used = [n for n in range(4) if n != free]
        assert [made[n].shard_id for n in used] == [0, 1, 5]
        assert [LAB.g(CORE).slots[n].flags for n in used] == [1, 1, 0]
        assert (made[free].shard_id, made[free].leaving) == (6, L.KEEPING)
        assert LAB.g(MOVES).leaving == 0


def test_a_row_that_becomes_free_keeps_what_its_shard_knew_but_the_session():
    (shard,) = prepare((5, S.ASSIGNED, L.KEEPING), count=0)
    shard.flags = ShardFlag.SEQ_VALID | ShardFlag.ESTABLISHED | ShardFlag.LAST_CLOSE_KNOWN
    LAB.call(plan_settle)
    assert shard.flags == ShardFlag.ESTABLISHED | ShardFlag.LAST_CLOSE_KNOWN


def left(provider=SessionProvider.HOST, **changes):
    """A shard that has left and is released, with a session, and one that stays; none is new."""
    made = prepare((5, S.ASSIGNED, L.KEEPING), (0, S.READY, L.NO), count=1)
    LAB.g(CONFIG).session_provider = provider
    LAB.g(CORE).slots_due = NEVER
    for shard in made:
        shard.hold, shard.flags, shard.sequence = Hold.PLAN_CHANGED, ShardFlag.SEQ_VALID, 9
        shard.session_ptr, shard.session.valid = shard.session.address_, SSES_VALID
        shard.session.session_id_len = 4
        shard.session.session_id[0:4] = b"abcd"
    for name, value in changes.items():
        setattr(made[0], name, value)
    return made[0]


def settled(at_ms=0):
    """Let the move go on; return whether the row is still there."""
    LAB.g(CORE).now = NOW + at_ms * MS
    LAB.call(plan_settle)
    return LAB.g(CORE).slots[0].flags == 1


def test_a_session_that_nobody_took_keeps_its_row_for_five_seconds():
    shard = left()
    assert settled()
    core = LAB.g(CORE)
    assert core.slots[0].deadline == core.slots_due == shard.save_deadline == NOW + 5_000 * MS
    assert settled(4_998)
    core.slots_due = NOW + 1
    assert settled(4_999)
    assert (core.slots_due, LAB.g(MOVES).leaving, lines()) == (NOW + 1, 1, [])
    assert not settled(5_000)
    assert lines() == ["lifecycle.sessionSaveFailed origin=application sequence=9"]
    assert (shard.session.valid, shard.flags, LAB.g(MOVES).leaving) == (0, 0, 0)


@pytest.mark.parametrize("late", [-1, 0, 1])
def test_when_a_session_is_given_up_is_compared_without_a_sign(late):
    shard = left(save_deadline=2**63)
    LAB.g(CORE).now = 2**63 + late
    assert LAB.call(plan_save, shard=shard.address_).outputs["cf"] == (late < 0)


def test_a_session_that_was_taken_gives_its_row_up():
    left(saved=1)
    assert not settled()
    assert lines() == []


@pytest.mark.parametrize(
    "more",
    [
        {"provider": SessionProvider.NONE},
        {"leaving": L.ENDING},
        {"state": S.FATAL},
        {"flags": 0},
    ],
)
def test_without_a_session_to_save_no_row_waits(more):
    left(**more)
    assert not settled()
    assert lines() == []


@pytest.mark.parametrize("count", [1, 2])
def test_a_reset_does_not_bring_the_session_of_a_row_back_that_was_left(count):
    """Whether the row is free now or another shard's."""
    left(saved=1)
    LAB.g(PLAN).local_count = count
    LAB.machine.write(RECORD_PAGE, bytes(KEPT_PAGES * PAGE))
    LAB.g(SURVIVAL).page = SURVIVOR_PAGE
    kept = LAB.view(SavedSession, SURVIVOR_PAGE + PAGE)
    kept.valid = 1
    settled()
    assert kept.valid == 0


@given(
    st.sampled_from(SessionProvider),
    st.sampled_from(L),
    st.sampled_from(S),
    st.integers(0, 1),
    st.integers(0, 1),
    st.sampled_from([0, NOW, NOW + 1]),
)
def test_any_row_waits_as_the_model_says(provider, leaving, state, saved, flags, deadline):
    shard = left(
        provider, leaving=leaving, state=state, saved=saved, flags=flags, save_deadline=deadline
    )
    LAB.call(plan_save, shard=shard.address_)


@pytest.mark.parametrize(
    "more", [{"close": 7}, {"tcp": TcpState.FIN_WAIT_1}, {"state": S.BACKOFF}, {"state": S.READY}]
)
def test_a_row_that_is_not_released_stays(more):
    state = more.pop("state", S.ASSIGNED)
    (shard,) = settle((5, state, L.ENDING), count=1, **more)
    assert (shard.shard_id, shard.leaving, LAB.g(MOVES).leaving) == (5, L.ENDING, 1)


def test_while_nobody_leaves_no_row_is_looked_at():
    (shard,) = prepare((5, S.ASSIGNED, L.KEEPING), count=1)
    LAB.g(MOVES).leaving = 0
    LAB.call(plan_settle)
    assert shard.shard_id == 5


class TestObey:
    def wanted(self, total, *, auto=1, **plan):
        ready_shards(0, 1, total=2, **plan)
        LAB.g(CONFIG).plan_auto = auto
        LAB.g(MOVES).wanted = total
        LAB.call(plan_tick)
        assert LAB.g(MOVES).wanted == 0
        return LAB.g(PLAN).global_total

    def test_a_node_that_holds_every_shard_moves(self):
        assert self.wanted(3) == 3
        assert lines() == ["lifecycle.resharded total=3 start=0 shards=3 generation=2"]

    @pytest.mark.parametrize("total", [0, 2])
    @pytest.mark.parametrize("plan", [{}, {"count": 1}, {"start": 1, "count": 1}])
    def test_a_total_that_it_has_is_none(self, total, plan):
        assert self.wanted(total, **plan) == 2
        assert lines() == []

    def test_by_configuration_alone(self):
        assert self.wanted(3, auto=0) == 2
        assert lines() == []

    @pytest.mark.parametrize("plan", [{"start": 1}, {"count": 1}])
    def test_a_node_among_others_refuses(self, plan):
        assert self.wanted(3, **plan) == 2
        assert "reason=not_the_whole_plan" in lines()[0]

    @pytest.mark.parametrize("total", [300, 2**31])
    def test_a_refusal_of_the_move_is_said_aloud(self, total):
        assert self.wanted(total) == 2
        assert "reason=out_of_bounds" in lines()[0]


def ask(payload=b"", *, room=PlanReport.SIZE):
    request = LAB.put(pack(ControlRequest, {"length": len(payload)}) + payload)
    answer = LAB.machine.alloc(PlanReport.SIZE)
    got = LAB.call(
        control_plan, request=request, length=len(payload), answer=answer, room=room
    ).outputs
    told = LAB.machine.read(answer, got["ecx"])
    return got["eax"], got["rdx"], unpack(PlanReport, told) if told else None


class TestVerb:
    def test_without_payload_it_tells(self):
        ready_shards(1, 2, start=1)
        moved(3)
        result, value, report = ask()
        assert (result, value) == (R.DONE, 0)
        assert (report["total"], report["start"], report["count"]) == (8, 1, 2)
        assert (report["generation"], report["moves"], report["leaving"]) == (1, 1, 0)

    def test_any_larger_room_will_do(self):
        ready_shards(1)
        assert ask(room=2**31)[0] == R.DONE

    def test_it_tells_whose_sessions_who_keeps(self):
        ready_shards(0)
        LAB.g(CONFIG).session_provider = SessionProvider.HOST
        set_token(LAB, b"abcde")
        report = ask()[2]
        assert report["provider"] == SessionProvider.HOST
        assert report["bot"] == hashlib.sha256(b"abcde").digest()[:DIGEST_BYTES]

    @pytest.mark.parametrize("wait_ms", [0, 700, LOAD_WAIT_MAX_MS, LOAD_WAIT_MAX_MS + 1, 2**32 - 1])
    def test_an_order_says_how_long_who_comes_waits(self, wait_ms):
        ready_shards(0, 1)
        order = {"total": 8, "start": 0, "count": 3, "wait_ms": wait_ms}
        assert ask(pack(PlanOrder, order))[0] == R.DONE
        assert LAB.g(MOVES).wait_ms == min(wait_ms, LOAD_WAIT_MAX_MS)

    def test_an_order_moves(self):
        ready_shards(0, 1)
        result, value, report = ask(pack(PlanOrder, {"total": 8, "start": 1, "count": 1}))
        assert (result, value, report["generation"], report["leaving"]) == (R.DONE, 0, 2, 1)

    def test_a_refusal_has_its_reason(self):
        ready_shards(0, 1)
        result, value, report = ask(pack(PlanOrder, {"total": 8, "start": 8, "count": 1}))
        assert (result, value) == (R.PLAN_REFUSED, P.OUT_OF_BOUNDS)
        assert (report["refusal"], report["generation"]) == (P.OUT_OF_BOUNDS, 1)

    @pytest.mark.parametrize(
        ("payload", "room"),
        [
            (bytes(15), PlanReport.SIZE),
            (bytes(17), PlanReport.SIZE),
            (b"", PlanReport.SIZE - 1),
        ],
    )
    def test_another_size_is_refused(self, payload, room):
        ready_shards(0, 1)
        assert ask(payload, room=room) == (R.ARGUMENT, 0, None)
