"""A lost connection: half an event is aborted, and a session that cannot be resumed leaves a gap."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.environment import Environment
from firmware.events.send import events_begin, events_part
from firmware.layouts.events import Notice
from firmware.layouts.gateway import GatewayState
from firmware.layouts.log import LOG
from firmware.layouts.log_line import Level
from firmware.layouts.permit import PERMITS
from firmware.layouts.shard import End, FailureFlag, Phase, ShardContext, ShardFlag, ShardState
from firmware.shard.gap import shard_gap_begin
from firmware.shard.lose import shard_lose
from tests.support.lab import Lab
from tests.support.listeners import ROUTINES, Listeners
from tests.support.publisher import NOW, REGIONS, Publisher
from tests.support.states import session_fields, shard_fields

LAB = Lab(*ROUTINES, events_part, shard_gap_begin, slots=1)
PUBLISHES = Lab(shard_lose, extra=REGIONS)
ESTABLISHED, VALID = ShardFlag.ESTABLISHED, ShardFlag.SEQ_VALID


class Lost(Listeners):
    """A shard that was just lost, and one listener."""

    def __init__(self, *, flags=ESTABLISHED, sequence=41, known=1, failure_flags=0, valid=0):
        super().__init__(LAB)
        self.with_shards(1)
        LAB.g(LOG).level = Level.ERROR
        self.subscribe(0)
        self.shard = LAB.view(ShardContext, LAB.shard(wipe=False))
        self.shard.flags, self.shard.failure_flags = flags, failure_flags
        self.shard.sequence = sequence
        self.shard.evidence.sequence_valid = known
        self.shard.session_ptr = self.shard.session.address_
        self.shard.session.valid = valid

    def lose(self):
        self.call(shard_gap_begin, shard=self.shard.address_)
        return [(e.notice, e.values) for e in self.heard()]


@pytest.mark.parametrize(
    ("sequence", "known", "first"),
    [(41, 1, 42), (0, 1, 1), (2**32 - 1, 1, None), (41, 0, None)],
)
def test_a_session_that_cannot_be_resumed_is_told_with_what_is_missing(sequence, known, first):
    lost = Lost(sequence=sequence, known=known)
    assert lost.lose() == [(Notice.NEW_SESSION, (None, 0)), (Notice.GAP, (first, None))]
    # The next attempts fail, too: the gap is the same one, and its start stays.
    lost.shard.sequence = 2**32 - 1
    assert lost.lose() == []
    assert lost.shard.events.gap_first == (2**32 - 1 if first is None else first)


@pytest.mark.parametrize(("sequence", "known"), [(60, 1), (41, 1), (60, 0)])
def test_a_hole_of_the_replay_before_is_where_the_gap_begins(sequence, known):
    lost = Lost(sequence=sequence, known=known)
    lost.shard.hole_first, lost.shard.hole_last = 42, 50
    assert lost.lose()[1] == (Notice.GAP, (42, None))


def test_a_hole_behind_what_the_stream_has_of_a_replay_is_not_where_the_gap_begins():
    """Resume named 100; 101 to 105 and 107 to 110 were repeated, and the stream has 103."""
    node = Publisher(PUBLISHES)
    PUBLISHES.g(PERMITS).max_concurrency = 1
    shard = node.shard()
    shard.flags, shard.sequence, shard.gateway.seq_acked = ESTABLISHED | VALID, 110, 103
    shard.hole_first = shard.hole_last = 106
    shard.gateway.state = GatewayState.WAIT_RESUMED
    shard.state, shard.phase = ShardState.STARTING, Phase.REPLAY
    shard.failure, shard.failure_flags = End.INVALID_SESSION, FailureFlag.RESET_SESSION
    shard.session_ptr, shard.session.valid = shard.session.address_, 1
    PUBLISHES.call(shard_lose, Environment(tsc=lambda: NOW), shard=shard.address_)
    assert (shard.sequence, shard.events.gap_first) == (103, 104)
    assert b'{"t":"SHARDFW_GAP","s":103,"first":104,"second":null}' in node.queued()


def test_a_gap_at_the_first_loss_begins_behind_what_the_stream_has_acknowledged():
    """What was read since is given up when the stream does not take it, and nobody repeats it."""
    node = Publisher(PUBLISHES)
    PUBLISHES.g(PERMITS).max_concurrency = 1
    shard = node.shard()
    shard.flags, shard.sequence, shard.gateway.seq_acked = ESTABLISHED | VALID, 140, 100
    shard.state, shard.connected_at = ShardState.READY, NOW - 1
    shard.failure, shard.failure_flags = End.INVALID_SESSION, FailureFlag.RESET_SESSION
    shard.session_ptr, shard.session.valid = shard.session.address_, 1
    PUBLISHES.call(shard_lose, Environment(tsc=lambda: NOW), shard=shard.address_)
    assert (shard.session.valid, shard.evidence.sequence) == (0, 140)
    assert shard.events.gap_first == 101
    assert b'{"t":"SHARDFW_GAP","s":100,"first":101,"second":null}' in node.queued()


@pytest.mark.parametrize(
    "state",
    [
        {"flags": ESTABLISHED | VALID, "valid": 1},
        {"flags": 0},
        {"failure_flags": FailureFlag.FATAL},
        {"failure_flags": FailureFlag.FATAL | FailureFlag.RESHARD},
    ],
)
def test_no_gap_when_the_next_handshake_is_a_resume_the_first_or_none(state):
    lost = Lost(**state)
    assert lost.lose() == []
    assert lost.shard.events.gap_open == 0


def test_half_an_event_of_the_lost_connection_is_aborted_first():
    lost = Lost()
    lost.call(events_begin, shard=lost.shard.address_)
    half = LAB.put(b'{"t":"X","d":')
    lost.call(events_part, shard=lost.shard.address_, part=half, length=13)
    assert [kind for kind, _ in lost.lose()] == [Notice.NEW_SESSION, Notice.GAP]
    assert (lost.streams[0].aborted, lost.streams[0].open) == (1, 0)


@settings(max_examples=60, deadline=None)
@given(
    fields=shard_fields(),
    session=session_fields(),
    sequence=st.sampled_from([0, 41, 2**32 - 2, 2**32 - 1]),
    open_=st.booleans(),
    told=st.booleans(),
    hole=st.sampled_from([0, 7]),
    known=st.booleans(),
)
def test_gap_any_state_matches_the_model(fields, session, sequence, open_, told, hole, known):
    lost = Lost()
    for name, value in fields.items():
        setattr(lost.shard, name, value)
    for name, value in session.items():
        setattr(lost.shard.session, name, value)
    lost.shard.sequence, lost.shard.events.gap_open = sequence, told
    lost.shard.hole_first, lost.shard.evidence.sequence_valid = hole, known
    if open_:
        lost.call(events_begin, shard=lost.shard.address_)
    lost.lose()
