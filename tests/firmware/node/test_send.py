"""The verb `send`: one body in parts, and the verdict of the send path as the channel's result."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.gateway.poll import gateway_poll
from firmware.gateway.timers import gateway_tick
from firmware.layouts.clock import NEVER
from firmware.layouts.control import CONTROL_FRAME, CONTROL_MOST, ControlRequest, ControlResult
from firmware.layouts.node import CORE
from firmware.layouts.send import NOTHING_STAGED, SEND_STAGE, SendResult, part_argument
from firmware.layouts.shard import ShardContext, ShardState
from firmware.node.send import FIRST_RESULT, control_submit
from tests.support.gateway_client import GatewayClient, ready_data
from tests.support.lab import INPUT, Lab
from toolchain.layout.pack import pack

LAB = Lab(gateway_poll, gateway_tick, control_submit)
PART_MOST = CONTROL_MOST - CONTROL_FRAME
C = ControlResult
SLOT, SHARD = 1, 3


class Channel(GatewayClient):
    """A READY shard in slot 1 of 2, and an operator who sends through it."""

    def __init__(self):
        super().__init__(LAB)
        self.hello()
        self.dispatch("READY", 1, ready_data())
        self.shard.state, self.shard.slot = ShardState.READY, SLOT
        self.sent()
        core = LAB.g(CORE)
        core.slots_used = core.slots_due = 2
        core.slots[SLOT].context, core.slots[SLOT].flags = self.at, 1
        core.slots[SLOT].deadline = NEVER

    def part(self, payload=b"", *, opcode=3, size=None, number=7, offset=0, shard=SHARD):
        """Hand one part to the verb; return result and value."""
        argument = part_argument(opcode, len(payload) if size is None else size, number, offset)
        head = {"slot": shard, "argument": argument, "length": len(payload)}
        got = LAB.call(
            control_submit,
            request=LAB.put(pack(ControlRequest, head) + payload),
            length=len(payload),
            answer=INPUT,
            room=48,
        ).outputs
        assert got["ecx"] == 0
        return ControlResult(got["eax"]), got["rdx"]

    def parts(self, body, size=PART_MOST, **fields):
        """Hand a whole body over; return the last answer."""
        answers = [
            self.part(body[at : at + size], size=len(body), offset=at, **fields)
            for at in range(0, max(1, len(body)), size)
        ]
        for n, answer in enumerate(answers[:-1]):
            assert answer == (C.DONE, (n + 1) * size)
        return answers[-1]


def body_of(size):
    """Return a JSON object of some bytes that are not all the same."""
    text = "".join(chr(97 + n % 26) for n in range(size - 8))
    return b'{"x":"' + text.encode() + b'"}'


def test_the_results_follow_each_other_as_those_of_the_send_path():
    for verdict in SendResult:
        if verdict != SendResult.OK:
            assert C(verdict + FIRST_RESULT).name == f"SEND_{verdict.name}"


@pytest.mark.parametrize("size", [8, PART_MOST, PART_MOST + 1, 4083])
def test_a_body_arrives_in_as_many_parts_as_it_needs(size):
    channel = Channel()
    body = body_of(size)
    assert channel.parts(body) == (C.DONE, 0)
    assert channel.sent() == [{"op": 3, "d": json.loads(body)}]
    assert LAB.g(SEND_STAGE).filled == NOTHING_STAGED
    assert LAB.g(CORE).slots[SLOT].deadline == 0, "the shard is due in this turn"
    assert LAB.g(CORE).slots_due == 0


def test_nothing_leaves_before_the_last_part():
    channel = Channel()
    body = body_of(30)
    assert channel.part(body[:10], size=30) == (C.DONE, 10)
    assert channel.part(body[10:29], size=30, offset=10) == (C.DONE, 29)
    assert channel.sent() == []
    assert LAB.g(CORE).slots[SLOT].deadline == NEVER
    assert channel.part(body[29:], size=30, offset=29) == (C.DONE, 0)
    assert len(channel.sent()) == 1


@pytest.mark.parametrize(
    "change",
    [{"offset": 11}, {"offset": 9}, {"number": 8}, {"opcode": 4}, {"size": 31}, {"shard": 4}],
)
def test_a_part_that_does_not_follow_is_refused_and_costs_nothing(change):
    channel = Channel()
    other = LAB.shard(1)
    LAB.view(ShardContext, other).shard_id = 4
    LAB.g(CORE).slots[0].context, LAB.g(CORE).slots[0].flags = other, 1
    body = body_of(30)
    channel.part(body[:10], size=30)
    before = LAB.machine.read(LAB.image.address("send_stage"), SEND_STAGE.size)
    fields = {"size": 30, "offset": 10} | change
    assert channel.part(body[10:15], **fields) == (C.SEND_ORDER, 0)
    assert LAB.machine.read(LAB.image.address("send_stage"), SEND_STAGE.size) == before
    assert channel.part(body[10:], size=30, offset=10) == (C.DONE, 0)
    assert channel.sent() == [{"op": 3, "d": json.loads(body)}]


def test_a_new_first_part_takes_the_stage():
    channel = Channel()
    channel.part(b'{"a":', size=8, number=1)
    assert channel.parts(b'{"b":2}', number=2) == (C.DONE, 0)
    assert channel.part(b"1}}", size=8, offset=5, number=1)[0] == C.SEND_ORDER
    assert channel.sent() == [{"op": 3, "d": {"b": 2}}]


def test_what_was_sent_is_not_sent_again():
    channel = Channel()
    channel.parts(b'{"b":2}')
    assert channel.part(b"", size=7, offset=7) == (C.SEND_ORDER, 0)
    assert len(channel.sent()) == 1


def test_before_any_part_nothing_follows():
    channel = Channel()
    assert channel.part(b"}", size=2, offset=1, number=0, opcode=0) == (C.SEND_ORDER, 0)


@pytest.mark.parametrize("shard", [0, 2, 4, 2**32 - 1])
def test_a_shard_that_the_node_does_not_hold_is_refused(shard):
    assert Channel().part(b"{}", shard=shard) == (C.ARGUMENT, 0)


def test_a_shard_in_a_slot_that_is_not_used_is_refused():
    channel = Channel()
    LAB.g(CORE).slots_used = SLOT
    assert channel.part(b"{}") == (C.ARGUMENT, 0)


def test_a_part_beyond_the_body_is_refused():
    channel = Channel()
    assert channel.part(b"{} ", size=2) == (C.ARGUMENT, 0)
    channel.part(b"{", size=2)
    assert channel.part(b"}}", size=2, offset=1) == (C.ARGUMENT, 0)
    assert channel.part(b"}", size=2, offset=1) == (C.DONE, 0)


@pytest.mark.parametrize("size", [4097, 0xFFFF])
def test_a_body_larger_than_the_stage_is_refused_with_its_first_part(size):
    assert Channel().part(b"{", size=size) == (C.SEND_TOO_LARGE, 0)


@pytest.mark.parametrize("size", [4084, 4096])
def test_a_body_that_the_envelope_makes_too_large_is_refused(size):
    assert Channel().parts(body_of(size)) == (C.SEND_TOO_LARGE, 0)


class TestVerdicts:
    def test_a_shard_that_is_not_ready(self):
        channel = Channel()
        channel.shard.state = ShardState.BACKOFF
        assert channel.part(b"{}") == (C.SEND_NOT_READY, 0)
        assert LAB.g(CORE).slots[SLOT].deadline == NEVER

    def test_a_full_minute_tells_the_wait(self):
        channel = Channel()
        channel.part(b"{}")
        channel.shard.pacer.running = channel.shard.pacer.total = 110
        assert channel.part(b"{}") == (C.SEND_RATE_LIMITED, 61_000)

    @pytest.mark.parametrize("opcode", [1, 2, 6, 14, 0xFFFF])
    def test_an_opcode_of_another_kind(self, opcode):
        assert Channel().part(b"{}", opcode=opcode) == (C.SEND_BAD_OP, 0)

    @pytest.mark.parametrize("body", [b"", b"[]", b'{},"op":2'])
    def test_a_body_that_is_no_object(self, body):
        assert Channel().part(body) == (C.SEND_BAD_BODY, 0)


@settings(max_examples=60, deadline=None)
@given(
    parts=st.lists(
        st.fixed_dictionaries(
            {
                "payload": st.sampled_from([b"", b"{", b"}", b"{}", b'{"a":1', b"x" * PART_MOST]),
                "size": st.sampled_from([0, 1, 2, 7, 4096, 4097]),
                "offset": st.sampled_from([0, 1, 2, 6, PART_MOST, 0xFFFF]),
                "number": st.sampled_from([1, 2]),
                "opcode": st.sampled_from([3, 8, 9]),
                "shard": st.sampled_from([SHARD, SHARD, SHARD, 0, 5]),
            }
        ),
        max_size=6,
    )
)
def test_any_parts_match_the_model(parts):
    channel = Channel()
    for part in parts:
        channel.part(part.pop("payload"), **part)
