"""A dispatch that is not what its name promises: skipped or the end, counted and said."""

import re

import pytest

from firmware.layouts import gateway as layout
from firmware.layouts.config import CONFIG
from firmware.layouts.gateway import GatewayState
from firmware.layouts.log import LOG, LOG_RING
from firmware.layouts.log_line import Level
from firmware.layouts.policy import OnMalformed
from firmware.layouts.profile import ProfileId
from firmware.layouts.shard import End, FailureFlag
from tests.support.gateway_states import LAB, failed_with, identified, ready, resuming

BODIES: list[object] = [..., None, True, 5, 1.5, "text", [], [{}]]
"""What `d` may be without being an object."""
LIMIT = {"opcode": 8, "retry_after": 5}


def rejected(c):
    ring = LAB.machine.read(LAB.image.address(LOG_RING), LAB.g(LOG).head)
    return [line for line in ring.decode().splitlines() if "gateway.dispatchRejected" in line]


def say(c, event, sequence, data):
    message = {"op": 0, "s": sequence, "t": event}
    c.receive(message if data is ... else message | {"d": data})


class TestMalformed:
    @pytest.mark.parametrize("policy", list(OnMalformed))
    @pytest.mark.parametrize("data", BODIES)
    def test_what_the_node_does_not_read_may_be_anything(self, data, policy):
        c = ready()
        LAB.g(CONFIG).on_malformed = policy
        say(c, "PRESENCES_REPLACE", 2, data)
        assert (c.shard.malformed, c.shard.failure) == (0, End.NONE)
        assert (c.shard.sequence, c.gateway.seq_acked, c.shard.dispatches) == (2, 2, 2)

    @pytest.mark.parametrize("profile", list(ProfileId))
    @pytest.mark.parametrize("data", BODIES)
    def test_a_rate_limit_that_is_no_object_is_skipped_counted_and_said(self, data, profile):
        c = ready()
        LAB.g(LOG).level, c.shard.profile = Level.WARN, profile
        say(c, "RATE_LIMITED", 2, data)
        assert (c.shard.malformed, c.shard.failure) == (1, End.NONE)
        assert (c.shard.sequence, c.gateway.seq_acked, c.shard.dispatches) == (2, 2, 2)
        (line,) = rejected(c)
        assert "dispatch=RATE_LIMITED sequence=2 " in line
        assert line.endswith(" policy=skip rejected=1")

    @pytest.mark.parametrize("profile", list(ProfileId))
    @pytest.mark.parametrize("data", BODIES)
    def test_a_policy_that_terminates_keeps_the_session_and_ends_for_good(self, data, profile):
        c = ready()
        LAB.g(LOG).level, c.shard.profile = Level.WARN, profile
        LAB.g(CONFIG).on_malformed = OnMalformed.TERMINATE
        say(c, "RATE_LIMITED", 2, data)
        failed_with(c, layout.DISPATCH_MALFORMED, flags=FailureFlag.FATAL)
        assert c.shard.session.valid == 1
        # A later Resume asks for it again.
        assert (c.shard.sequence, c.gateway.seq_acked) == (1, 1)
        assert rejected(c)[0].endswith(" policy=terminate rejected=1")

    @pytest.mark.parametrize("policy", list(OnMalformed))
    @pytest.mark.parametrize(
        ("data", "waits"),
        [
            ({}, False),
            ({"retry_after": 5}, False),
            ({"opcode": 8}, True),
            (LIMIT | {"opcode": "8"}, False),
            (LIMIT | {"opcode": 8.5}, False),
            (LIMIT | {"opcode": -1}, False),
            (LIMIT | {"retry_after": "5"}, True),
            (LIMIT | {"retry_after": None}, True),
            (LIMIT | {"retry_after": []}, True),
            (None, False),
        ],
    )
    def test_a_rate_limit_without_its_numbers_is_malformed(self, data, waits, policy):
        c = ready()
        LAB.g(CONFIG).on_malformed = policy
        before = bytes(c.shard.pacer.not_before[:])
        say(c, "RATE_LIMITED", 2, data)
        assert c.shard.malformed == 1
        # What can be read of it is obeyed.
        assert (bytes(c.shard.pacer.not_before[:]) != before) is waits
        assert c.shard.failure == (End.PROTOCOL if policy else End.NONE)

    @pytest.mark.parametrize("after", [0, 5, 1.5, 1e30, -1])
    def test_a_rate_limit_with_its_numbers_is_fine(self, after):
        c = ready()
        LAB.g(CONFIG).on_malformed = OnMalformed.TERMINATE
        say(c, "RATE_LIMITED", 2, LIMIT | {"retry_after": after})
        assert (c.shard.malformed, c.shard.failure, c.shard.sequence) == (0, End.NONE, 2)

    @pytest.mark.parametrize("profile", list(ProfileId))
    @pytest.mark.parametrize("data", [*BODIES, {}])
    def test_resumed_needs_no_body(self, data, profile):
        c = resuming(41)
        LAB.g(CONFIG).on_malformed, c.shard.profile = OnMalformed.TERMINATE, profile
        say(c, "RESUMED", 42, data)
        assert (c.shard.malformed, c.shard.failure) == (0, End.NONE)
        assert c.gateway.state == GatewayState.READY

    @pytest.mark.parametrize("policy", list(OnMalformed))
    def test_ready_without_a_body_stays_a_protocol_failure(self, policy):
        c = identified()
        LAB.g(CONFIG).on_malformed = policy
        say(c, "READY", 1, None)
        failed_with(c, layout.READY_SHARD)
        assert c.shard.malformed == 0

    @pytest.mark.parametrize("policy", list(OnMalformed))
    def test_bad_sequences_stay_protocol_failures(self, policy):
        c = ready(sequence=5)
        LAB.g(CONFIG).on_malformed = policy
        say(c, "X", 4, None)
        failed_with(c, layout.SEQUENCE_BACK)

    def test_a_replayed_one_is_judged_as_any_other(self):
        c = resuming(41)
        say(c, "RATE_LIMITED", 42, None)
        say(c, "RATE_LIMITED", 40, None)
        assert (c.shard.malformed, c.gateway.seq_lower, c.shard.sequence) == (1, 1, 42)

    @pytest.mark.parametrize("message", [b'{"op":12,"d":"SECRET"}', b'{"op":4294967295}'])
    def test_an_unknown_opcode_is_said(self, message):
        c = ready()
        LAB.g(LOG).level = Level.DEBUG
        c.receive(message)
        ring = LAB.machine.read(LAB.image.address(LOG_RING), LAB.g(LOG).head).decode()
        assert re.search(r"code=gateway\.unknownOpcode opcode=(12|4294967295)\n", ring)
        assert "SECRET" not in ring
