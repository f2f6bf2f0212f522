"""Sessions over a warm reset: kept while they can be resumed, offered when young and whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.memory import Region
from firmware.layouts.log import LOG, LOG_RING
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.sessions import SESSION_KEPT_BYTES
from firmware.layouts.shard import SSES_VALID, ShardContext, ShardFlag, ShardState
from firmware.layouts.survivor import SURVIVAL, SavedSession
from firmware.limits import KEPT_PAGES, PAGE, RECORD_PAGE, SURVIVOR_PAGE
from firmware.shard.survive import survive_offer, survive_shard
from tests.support.lab import Lab

LAB = Lab(
    survive_shard,
    survive_offer,
    slots=2,
    extra=[Region("record", RECORD_PAGE, KEPT_PAGES * PAGE)],
)
MS, NOW, UNIX = 1_000_000, 900_000 * 1_000_000, 1_790_000_000
ROW = SURVIVOR_PAGE + PAGE + SavedSession.SIZE


def prepare(**fields):
    """A shard in slot 1 that is READY with a session, and empty pages."""
    LAB.reset()
    LAB.machine.write(RECORD_PAGE, bytes(KEPT_PAGES * PAGE))
    LAB.g(SURVIVAL).page = SURVIVOR_PAGE
    clock = LAB.g(CLOCK)
    clock.tsc_cycles_per_ms, clock.unix_time, clock.unix_tsc = MS, UNIX, NOW
    LAB.g(CORE).now = NOW
    shard = LAB.view(ShardContext, LAB.shard(1))
    shard.state, shard.flags = ShardState.READY, ShardFlag.SEQ_VALID
    shard.shard_id, shard.shard_total, shard.identifies = 41, 64, 1
    shard.sequence, shard.gateway.seq_acked = 77, 76
    shard.session_ptr = shard.session.address_
    session = shard.session
    session.valid, session.session_id_len, session.resume_host_len = SSES_VALID, 4, 3
    session.resume_port = 80
    session.session_id[0:4], session.resume_host[0:3] = b"abcd", b"gw1"
    for name, value in fields.items():
        setattr(shard, name, value)
    return shard


def keep(shard, *, at_s=0.0):
    LAB.g(CORE).now = NOW + round(at_s * 1000) * MS
    LAB.call(survive_shard, shard=shard.address_)
    return LAB.view(SavedSession, ROW)


def lines():
    return LAB.machine.read(LAB.image.address(LOG_RING), LAB.g(LOG).head).decode()


def test_before_the_pages_were_looked_at_nothing_is_kept_or_offered():
    shard = prepare()
    LAB.g(SURVIVAL).page = 0
    assert keep(shard).valid == 0
    LAB.call(survive_offer, shard=shard.address_)


def test_a_session_is_kept_with_what_was_handed_on():
    shard = prepare()
    row = keep(shard)
    assert (row.valid, row.connected, row.snapshot.sequence, row.saved_at) == (1, 1, 76, UNIX)
    assert (row.snapshot.shard_id, row.snapshot.shard_total, row.identifies) == (41, 64, 1)
    assert row.snapshot.session[0:SESSION_KEPT_BYTES] == LAB.machine.read(
        shard.session.address_, SESSION_KEPT_BYTES
    )


def test_a_sequence_that_grows_is_kept_once_a_second():
    shard = prepare()
    keep(shard)
    shard.gateway.seq_acked = 80
    assert keep(shard, at_s=0.999).snapshot.sequence == 76
    assert keep(shard, at_s=1).snapshot.sequence == 80
    shard.gateway.seq_acked = 81
    assert keep(shard, at_s=1.5).snapshot.sequence == 80


@pytest.mark.parametrize("late", [-1, 0, 1])
def test_when_a_sequence_is_kept_again_is_compared_without_a_sign(late):
    shard = prepare()
    row = keep(shard)
    shard.gateway.seq_acked, row.note_at, LAB.g(CORE).now = 80, 2**63, 2**63 + late
    LAB.call(survive_shard, shard=shard.address_)
    assert row.snapshot.sequence == (76 if late < 0 else 80)


@pytest.mark.parametrize("identifies", [0, 1, 7])
@pytest.mark.parametrize("state", [ShardState.READY, ShardState.BACKOFF])
def test_a_session_that_is_as_it_was_is_not_kept_anew(state, identifies):
    """However often it identified; a date that another boot gave it stays."""
    shard = prepare(state=state, identifies=identifies)
    row = keep(shard)
    assert row.saved_at == UNIX
    before = LAB.machine.read(ROW, SavedSession.SIZE)
    keep(shard, at_s=9)
    assert LAB.machine.read(ROW, SavedSession.SIZE) == before
    shard.identifies = 8
    connected = state == ShardState.READY
    assert keep(shard, at_s=10).saved_at == UNIX + 10 * connected
    row.valid = 0
    assert keep(shard, at_s=20).saved_at == UNIX + 20


def test_a_sequence_that_a_heartbeat_named_is_kept_at_once():
    shard = prepare()
    keep(shard)
    shard.gateway.seq_acked, shard.gateway.beats = 80, 1
    assert keep(shard, at_s=0.1).snapshot.sequence == 80
    shard.gateway.seq_acked = 81
    assert keep(shard, at_s=0.2).snapshot.sequence == 80


def test_the_date_is_that_of_the_connections_end():
    shard = prepare()
    keep(shard)
    shard.state = ShardState.BACKOFF
    row = keep(shard, at_s=10)
    assert (row.connected, row.saved_at, row.snapshot.sequence) == (0, UNIX + 10, 77)
    shard.session.unanswered_resumes = 1
    assert keep(shard, at_s=30).saved_at == UNIX + 10
    assert row.snapshot.session[0:16] == LAB.machine.read(shard.session.address_, 16)


@pytest.mark.parametrize(
    "change",
    [{"identifies": 2}, {"state": ShardState.STARTING}],
)
def test_whatever_changes_but_the_sequence_is_kept_at_once(change):
    shard = prepare()
    keep(shard)
    for name, value in change.items():
        setattr(shard, name, value)
    shard.sequence = shard.gateway.seq_acked = 99
    assert keep(shard, at_s=0.1).snapshot.sequence == 99


@pytest.mark.parametrize("field", ["session_id_len", "resume_host_len", "resume_port"])
def test_a_changed_session_is_kept_at_once(field):
    shard = prepare()
    keep(shard)
    setattr(shard.session, field, 7)
    row = keep(shard, at_s=0.1)
    assert row.snapshot.session[0:16] == LAB.machine.read(shard.session.address_, 16)


@pytest.mark.parametrize("flags", [0, ShardFlag.ESTABLISHED])
def test_what_cannot_be_resumed_is_forgotten(flags):
    shard = prepare()
    keep(shard)
    shard.flags = flags
    assert keep(shard).valid == 0


def offered(*, after_s, connected=True, beats=0):
    """Keep a session, reset the node, and offer it `after_s` after the connection's end."""
    shard = prepare()
    shard.gateway.beats = beats
    if not connected:
        shard.state = ShardState.BACKOFF
    keep(shard)
    session = LAB.machine.read(shard.session.address_, SESSION_KEPT_BYTES)
    LAB.g(SURVIVAL).before_at = UNIX if connected else 0
    shard.state, shard.flags, shard.sequence, shard.identifies = 0, 0, 0, 0
    LAB.machine.write(shard.session.address_, bytes(SESSION_KEPT_BYTES))
    LAB.g(CLOCK).unix_time = UNIX + after_s
    LAB.g(CORE).now = NOW
    return shard, session


@pytest.mark.parametrize("connected", [True, False])
@pytest.mark.parametrize(("after_s", "beats"), [(-5, 0), (0, 1), (7, 0), (7, 1), (59, 1)])
def test_a_young_session_is_offered(after_s, beats, connected):
    shard, session = offered(after_s=after_s, connected=connected, beats=beats)
    LAB.call(survive_offer, shard=shard.address_)
    assert shard.sequence == shard.gap_from == (76 if connected else 77)
    assert shard.flags == ShardFlag.SEQ_VALID | ShardFlag.RESTORED
    assert LAB.machine.read(shard.session.address_, SESSION_KEPT_BYTES) == session
    row = LAB.view(SavedSession, ROW)
    assert (row.valid, row.connected, row.saved_at) == (1, 0, UNIX)
    assert (
        f"code=lifecycle.sessionRestored ageMs={max(after_s, 0) * 1000} "
        f"sequence={row.snapshot.sequence}" in lines()
    )


def test_an_offered_session_does_not_grow_younger_by_another_reset():
    shard, _ = offered(after_s=7)
    LAB.call(survive_offer, shard=shard.address_)
    assert keep(shard, at_s=20).saved_at == UNIX


@pytest.mark.parametrize(
    ("after_s", "change", "problem"),
    [
        (60, None, "too_old"),
        (-6, None, "saved_in_the_future"),
        (0, {"shard_id": 42}, "another_plan"),
        (0, {"shard_total": 65}, "another_plan"),
    ],
)
def test_a_session_that_does_not_fit_is_refused_with_its_problem(after_s, change, problem):
    shard, _ = offered(after_s=after_s)
    for name, value in (change or {}).items():
        setattr(shard, name, value)
    LAB.call(survive_offer, shard=shard.address_)
    assert (shard.sequence, shard.flags) == (0, 0)
    assert LAB.view(SavedSession, ROW).valid == 0
    assert f"code=lifecycle.sessionSnapshotIgnored problem={problem} sequence=76" in lines()


def test_without_a_date_no_age_is_known():
    shard, _ = offered(after_s=0)
    LAB.g(CLOCK).unix_time = 0
    LAB.call(survive_offer, shard=shard.address_)
    assert "problem=age_unknown" in lines()


def test_nothing_kept_is_nothing_said():
    shard = prepare()
    LAB.call(survive_offer, shard=shard.address_)
    assert lines() == ""


@pytest.mark.parametrize("field", [SavedSession.sum, SavedSession.saved_at])
def test_a_session_with_another_sum_is_refused(field):
    shard, _ = offered(after_s=0)
    byte = LAB.machine.read(ROW + field.offset, 1)[0]
    LAB.machine.write(ROW + field.offset, bytes([byte ^ 1]))
    LAB.call(survive_offer, shard=shard.address_)
    assert (shard.flags, LAB.view(SavedSession, ROW).valid) == (0, 0)
    assert "problem=malformed" in lines()


@given(st.integers(SavedSession.valid.offset + 4, SavedSession.SIZE - 1), st.integers(1, 255))
def test_a_damaged_session_is_refused(at, flip):
    shard, _ = offered(after_s=0)
    byte = LAB.machine.read(ROW + at, 1)[0]
    LAB.machine.write(ROW + at, bytes([byte ^ flip]))
    LAB.call(survive_offer, shard=shard.address_)
    assert shard.flags == 0
    assert "problem=malformed" in lines()
