"""Each rule about a turn finds what it is there for, and leaves right turns alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from emulator.simulation.node import CYCLES_PER_MS
from emulator.simulation.shard_row import (
    GATEWAY_AT,
    GATEWAY_BYTES,
    HEAD_BYTES,
    SESSION_BYTES,
    ShardRow,
    read_row,
)
from emulator.simulation.shard_rules import LONGEST_WAITS_MS, SHARD_RULES, TRANSITIONS, Turn
from firmware.layouts.clock import NEVER
from firmware.layouts.gateway import GatewayFlag
from firmware.layouts.shard import Hold, Phase, Session, ShardContext, ShardFlag, ShardState
from firmware.layouts.tcp import TcpState
from toolchain.layout.pack import pack

S = ShardState
NOW = 9_000_000_000
TURN = Turn(now=NOW, deadline=NOW + 1, expired=0, generation=1, tcp_frames=0)
BACKOFF_NS = 5000 * CYCLES_PER_MS


def row(state: int = S.ASSIGNED, **fields: Any) -> ShardRow:
    plain = {
        "state": state,
        "session_ptr": 0x7000_3000,
        "hold": Hold.NEW if state == S.ASSIGNED else 0,
        "phase": Phase.TCP if state == S.STARTING else 0,
        "attempt_deadline": NOW + 5 if state == S.STARTING else 0,
        "connected_at": NOW - 5 if state == S.READY else 0,
        "disconnected_at": NOW if state == S.BACKOFF else 0,
        "reconnect_deadline": NOW + BACKOFF_NS if state == S.BACKOFF else 0,
        "reconnects": 1 if state == S.BACKOFF else 0,
        "evidence": {"failed_at": NOW, "delay_ms": 5000} if state == S.BACKOFF else {},
    }
    context = bytearray(pack(ShardContext, plain))
    session = pack(Session, {"session_id": b"abc", "session_id_len": 3})
    gateway = context[GATEWAY_AT : GATEWAY_AT + GATEWAY_BYTES]
    return replace(
        read_row(bytes(context[:HEAD_BYTES]), bytes(gateway), session[:SESSION_BYTES]), **fields
    )


def broken(old: ShardRow, new: ShardRow, turn: Turn = TURN) -> set[str]:
    return {name for name, rule in SHARD_RULES.items() if rule(old, new, turn)}


def test_a_row_is_read_from_the_firmware_s_own_layout():
    one = row(S.BACKOFF)
    assert (one.state, one.reconnects, one.evidence_failed_at) == (S.BACKOFF, 1, NOW)
    assert (one.session_id_len, one.session_id[:4]) == (3, b"abc\0")
    assert not one.resumable
    assert replace(one, flags=ShardFlag.SEQ_VALID, session_valid=1).resumable


@pytest.mark.parametrize("old", list(S))
@pytest.mark.parametrize("new", list(S))
def test_only_the_listed_transitions_pass(old, new):
    reconnects = {"reconnects": 1} if new == S.BACKOFF and old != new else {"reconnects": 0}
    due = {"reconnect_deadline": NOW} if old == S.BACKOFF else {}
    before, after = row(old, reconnects=0, **due), row(new, **reconnects)
    legal = new == old or new in TRANSITIONS[old]
    assert broken(before, after) == (set() if legal else {"legal transition"})


GOOD = row(S.READY)
CASES = {
    "identity": (GOOD, replace(GOOD, tx_base=1)),
    "counters grow": (replace(GOOD, dispatches=5), replace(GOOD, dispatches=4)),
    "backoff": (row(S.READY), row(S.BACKOFF, reconnects=2)),
    "every wait has a deadline": (GOOD, row(S.STARTING, attempt_deadline=0)),
    "no wait is overdue or too long": (GOOD, replace(GOOD, gateway_hb_next=NOW)),
    "nothing of the last connection": (
        row(S.STARTING),
        row(S.STARTING, gateway_flags=GatewayFlag.ACK_PENDING),
    ),
    "fields of the state": (GOOD, replace(GOOD, connected_at=0)),
    "resume needs a session": (row(S.STARTING), row(S.STARTING, phase=Phase.REPLAY)),
    "step of the backoff": (replace(GOOD, recovery_step=3), replace(GOOD, recovery_step=2)),
    "reset keeps the session": (
        row(S.BACKOFF, flags=ShardFlag.SEQ_VALID, session_valid=1),
        row(S.STARTING),
    ),
    "resume host": (
        row(S.STARTING, reconnects=0),
        row(S.BACKOFF, evidence_phase=Phase.TCP, session_resume_host_len=9),
    ),
    "sequence within a session": (
        replace(GOOD, flags=ShardFlag.SEQ_VALID, sequence=7),
        replace(GOOD, flags=ShardFlag.SEQ_VALID, sequence=6),
    ),
    "sequence needs a session": (GOOD, replace(GOOD, flags=ShardFlag.SEQ_VALID, session_valid=0)),
    "legal transition": (row(S.FATAL), row(S.STARTING)),
    "expired lease": (GOOD, row(S.ASSIGNED)),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_each_rule_finds_its_breach(name):
    old, new = CASES[name]
    turn = replace(TURN, expired=1) if name == "expired lease" else TURN
    assert name in broken(old, new, turn)


def test_every_rule_has_a_breach_above():
    assert set(CASES) == set(SHARD_RULES)


@pytest.mark.parametrize(
    "change",
    [
        {"evidence_failed_at": NOW - 1},
        {"reconnect_deadline": NOW + BACKOFF_NS - 1},
        {"reconnects": 0},
        {"evidence_delay_ms": 4_999},
        {"evidence_required_wait_ms": 5_001},
    ],
)
def test_a_backoff_is_dated_counted_and_as_long_as_it_says(change):
    assert broken(row(S.READY), row(S.BACKOFF)) == set()
    assert "backoff" in broken(row(S.READY), row(S.BACKOFF, **change))


def test_the_node_must_want_to_run_at_the_earliest_deadline():
    late = replace(TURN, deadline=NOW + 6)
    starting = row(S.STARTING)
    assert broken(starting, starting) == set()
    assert broken(starting, starting, late) == {"every wait has a deadline"}
    phased = replace(starting, phase_deadline=NOW + 2)
    assert broken(phased, phased, replace(TURN, deadline=NOW + 3)) != set()
    waiting = row(S.STARTING, phase=Phase.PERMIT, attempt_deadline=0)
    assert broken(waiting, waiting, late) == set()
    leaving = replace(row(S.BACKOFF), close_deadline=NOW + 2)
    assert broken(leaving, leaving, late) == {"every wait has a deadline"}
    assert broken(GOOD, GOOD, replace(TURN, deadline=NEVER)) == set()


@pytest.mark.parametrize(("name", "most"), sorted(LONGEST_WAITS_MS.items()))
def test_a_wait_may_be_as_long_as_its_bound_and_no_longer(name, most):
    state = S.BACKOFF if name == "close_deadline" else S.STARTING
    after = {"flags": ShardFlag.ESTABLISHED}
    longest = row(state, **after, **{name: NOW + most * CYCLES_PER_MS})
    late = replace(TURN, deadline=NOW)
    assert broken(longest, longest, late) == set()
    longer = row(state, **after, **{name: NOW + most * CYCLES_PER_MS + 1})
    assert broken(longer, longer, late) == {"no wait is overdue or too long"}


def test_a_missing_ack_ends_the_connection_after_one_interval():
    fields = {"gateway_heartbeat_interval_ms": 5, "gateway_flags": GatewayFlag.ACK_PENDING}
    ready = row(S.READY, gateway_hb_next=NOW + 9, **fields)
    sent = NOW - 5 * CYCLES_PER_MS
    assert broken(ready, replace(ready, gateway_hb_sent_at=sent + 1)) == set()
    late = replace(ready, gateway_hb_sent_at=sent)
    assert "no wait is overdue or too long" in broken(ready, late)


def test_the_next_heartbeat_is_at_most_one_interval_away():
    interval = 5 * CYCLES_PER_MS
    ready = row(S.READY, gateway_heartbeat_interval_ms=5, gateway_hb_next=NOW + interval)
    assert broken(ready, ready) == set()
    late = replace(ready, gateway_hb_next=NOW + interval + 1)
    assert broken(ready, late) == {"no wait is overdue or too long"}


def test_a_minute_of_health_clears_the_step_and_less_does_not():
    minute = 60_000 * CYCLES_PER_MS
    turn = replace(TURN, now=NOW + minute, deadline=NOW + minute)
    healthy = row(S.READY, connected_at=NOW, recovery_step=3)
    assert "step of the backoff" not in broken(healthy, replace(healthy, recovery_step=1), turn)
    short = replace(healthy, connected_at=NOW + 1)
    assert "step of the backoff" in broken(short, replace(short, recovery_step=1), turn)


def test_a_reset_keeps_sequence_and_session_id():
    fields = {"flags": ShardFlag.SEQ_VALID, "session_valid": 1, "sequence": 7}
    due = {"reconnect_deadline": NOW, "reconnects": 0}
    old, new = row(S.BACKOFF, **due, **fields), row(S.STARTING, **fields)
    assert broken(old, new) == set()
    assert broken(old, replace(new, sequence=6)) >= {"reset keeps the session"}
    assert broken(old, replace(new, session_id=b"other")) >= {"reset keeps the session"}


def test_a_due_reconnect_may_wait_for_the_farewell():
    overdue = row(S.BACKOFF, reconnect_deadline=NOW)
    turn = replace(TURN, deadline=NOW)
    assert broken(overdue, overdue, turn) == {"no wait is overdue or too long"}
    leaving = replace(overdue, close_deadline=NOW + 1)
    assert broken(leaving, leaving, turn) == set()


def test_a_delay_of_nothing_ends_with_the_next_turn():
    drawn = replace(row(S.BACKOFF, reconnect_deadline=NOW), reconnects=1)
    turn = replace(TURN, deadline=NOW)
    wrong = broken(row(S.READY, connected_at=NOW - 5), drawn, turn)
    assert "no wait is overdue or too long" not in wrong
    assert "no wait is overdue or too long" in broken(drawn, drawn, turn)


def test_a_fresh_identify_may_begin_at_a_lower_sequence():
    old = replace(GOOD, flags=ShardFlag.SEQ_VALID, session_valid=1, sequence=7)
    assert broken(old, replace(old, sequence=1, identifies=old.identifies + 1)) == set()


def test_an_expired_lease_allows_held_and_fatal_shards_only():
    turn = replace(TURN, expired=1)
    held = row(S.ASSIGNED, hold=Hold.LEASE_EXPIRED)
    assert broken(held, held, turn) == set()
    assert broken(row(S.FATAL), row(S.FATAL), turn) == set()
    talking = replace(held, tcp_state=TcpState.ESTABLISHED)
    assert broken(held, talking, turn) == {"expired lease"}


@pytest.mark.parametrize(
    ("had", "good"),
    [
        ({"held": 2}, True),
        ({"held": 2, "dispatches": 71}, True),
        ({"held": 2, "identifies": 1}, True),
        ({"held": 2, "identifies": 1, "dispatches": 1}, False),
        ({"held": 2, "resumes": 1}, False),
        ({}, False),
    ],
)
def test_a_fleet_s_row_that_was_never_ready_lost_nothing(had, good):
    """It takes another node's session over and is closed while that is replayed."""
    lost = row(S.BACKOFF, disconnected_at=0, flags=ShardFlag.ESTABLISHED, **had)
    assert ("fields of the state" in broken(lost, lost)) == (not good)


def test_a_backoff_longer_than_the_policy_needs_a_required_wait():
    long = {"evidence_delay_ms": 30_001, "reconnect_deadline": NOW + 30_001 * CYCLES_PER_MS}
    assert "backoff" in broken(row(S.READY), row(S.BACKOFF, **long))
    asked = row(S.BACKOFF, **long, evidence_required_wait_ms=30_001)
    assert broken(row(S.READY), asked) == set()


def test_the_first_attempt_has_what_the_group_start_leaves():
    late = row(S.STARTING, attempt_deadline=NOW + 45_000 * CYCLES_PER_MS)
    assert broken(late, late) == set()
    recovering = replace(late, flags=ShardFlag.ESTABLISHED)
    assert broken(recovering, recovering) == {"no wait is overdue or too long"}


def test_without_a_clock_a_backoff_has_no_deadline_and_no_delay():
    turn = replace(TURN, calibrated=False)
    ready = row(S.READY)
    undated = row(S.BACKOFF, reconnect_deadline=0, evidence_delay_ms=0)
    assert broken(ready, undated, turn) == set()
    assert "backoff" in broken(ready, undated)
    assert "every wait has a deadline" in broken(ready, undated)
    assert "backoff" in broken(ready, row(S.BACKOFF, evidence_delay_ms=5000), turn)


def test_a_retry_comes_no_earlier_than_its_deadline():
    waiting, started = row(S.BACKOFF, reconnect_deadline=NOW), row(S.STARTING, reconnects=1)
    assert broken(waiting, started) == set()
    assert broken(replace(waiting, reconnect_deadline=NOW + 1), started) == {"backoff"}
