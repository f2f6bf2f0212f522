"""Dispatches in order: the replay up to RESUMED, sequences, and events by their names."""

import pytest

from firmware.layouts import gateway as layout
from firmware.layouts.gateway import GatewayState
from firmware.layouts.shard import End, ShardFlag
from tests.support.gateway_client import ready_data
from tests.support.gateway_states import failed_with, identified, ready, resuming


class TestResumed:
    def test_replay_then_resumed(self):
        c = resuming(41)
        c.dispatch("MESSAGE_CREATE", 42)
        c.dispatch("MESSAGE_CREATE", 45)
        assert c.gateway.state == GatewayState.WAIT_RESUMED
        c.dispatch("RESUMED", 46)
        assert c.gateway.state == GatewayState.READY
        assert c.shard.sequence == 46
        assert c.shard.phase_deadline == 0
        assert c.shard.flags == ShardFlag.SEQ_VALID | ShardFlag.RESUMED
        assert c.shard.dispatches == 3

    @pytest.mark.parametrize("sequence", [0, 2, 45])
    def test_resumed_with_a_sequence_of_the_past_keeps_the_higher_one(self, sequence):
        c = resuming(41)
        c.dispatch("MESSAGE_CREATE", 45)
        c.dispatch("RESUMED", sequence)
        assert c.shard.sequence == 45
        assert c.gateway.state == GatewayState.READY

    @pytest.mark.parametrize("sequence", [2**31 - 1, 2**31, 2**32 - 1])
    def test_resumed_with_a_large_sequence_counts_without_a_sign(self, sequence):
        c = resuming(2**31 - 1)
        c.dispatch("RESUMED", sequence)
        assert c.shard.sequence == sequence

    def test_resumed_sets_no_other_flag(self):
        c = resuming()
        c.shard.flags = 0
        c.dispatch("RESUMED", 46)
        assert c.shard.flags == ShardFlag.RESUMED

    def test_lower_sequence_in_the_replay_is_a_warning(self):
        c = resuming(41)
        c.dispatch("MESSAGE_CREATE", 40)
        assert (c.shard.sequence, c.gateway.seq_lower, c.shard.failure) == (41, 1, End.NONE)

    def test_the_last_sequence_again_in_the_replay_is_neither_lower_nor_a_hole(self):
        c = resuming(41)
        c.dispatch("MESSAGE_CREATE", 41)
        assert (c.shard.sequence, c.shard.dispatches, c.gateway.seq_lower) == (41, 1, 0)
        assert (c.shard.hole_first, c.shard.hole_last) == (0, 0)

    def test_resumed_while_identifying_is_an_anomaly(self):
        c = identified()
        c.dispatch("RESUMED", 1)
        failed_with(c, layout.RESUMED_UNEXPECTED)

    def test_ready_after_resumed_flag_is_gone(self):
        c = identified()
        c.shard.flags = ShardFlag.RESUMED | ShardFlag.ESTABLISHED
        c.dispatch("READY", 1, ready_data())
        assert c.shard.flags == ShardFlag.SEQ_VALID | ShardFlag.ESTABLISHED


class TestDispatch:
    def test_sequence_goes_up_and_may_jump_or_stay(self):
        c = ready(sequence=1)
        for sequence in (2, 2, 9, 4294967295):
            c.dispatch("MESSAGE_CREATE", sequence)
            assert (c.shard.sequence, c.gateway.seq_acked) == (sequence, sequence)
        assert c.shard.dispatches == 5
        assert c.shard.failure == End.NONE

    def test_sequence_back_is_an_anomaly(self):
        c = ready(sequence=9)
        c.dispatch("MESSAGE_CREATE", 8)
        failed_with(c, layout.SEQUENCE_BACK)
        assert c.shard.sequence == 9

    @pytest.mark.parametrize("sequence", [None, -1, 1.0, "2", 4294967296, 2**64, [], True])
    def test_sequence_must_be_an_unsigned_integer(self, sequence):
        c = ready()
        c.dispatch("MESSAGE_CREATE", sequence)
        failed_with(c, layout.SEQUENCE_FORM)

    @pytest.mark.parametrize("message", [{"op": 0, "s": 2, "t": None}, {"op": 0, "s": 2}])
    def test_event_name_must_be_a_string(self, message):
        c = ready()
        c.receive(message)
        failed_with(c, layout.EVENT_NAME)

    @pytest.mark.parametrize(
        "event", ["", "X" * 64, "X" * 65, "READX", "XEADY", "RESUMEX", "XESUMED"]
    )
    def test_any_event_name_counts(self, event):
        c = ready(sequence=1)
        c.dispatch(event, 2)
        assert c.shard.sequence == 2
