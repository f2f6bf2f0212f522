"""Commands over the bus: subjects of the shards that are here, what is asked, what is answered."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.gateway.poll import gateway_poll
from firmware.layouts.bus import BUS, BUS_IN, DATA, LinkState
from firmware.layouts.bus_sites import BAD_HEADER, MESSAGE_TOO_LONG
from firmware.layouts.commands import (
    ANSWER_RESERVE,
    ANSWERS_BYTES,
    COMMAND_LINE_MAX,
    COMMAND_SID,
    COMMANDS,
    OP_RESTART,
)
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.gateway import GatewayState
from firmware.layouts.node import CORE, SLOT_ACTIVE
from firmware.layouts.shard import End, ShardState
from firmware.layouts.tcp import TcpState
from firmware.limits import SHARDS_MAX, TX_BYTES
from firmware.node.command_text import OP_MAX, command_parse
from firmware.node.commands import command_take, commands_tick
from tests.support.gateway_client import CYCLES_PER_MS, GatewayClient, ready_data
from tests.support.lab import Lab
from tests.support.stream import Stream

LAB = Lab(commands_tick, command_take, gateway_poll, slots=4)
LINK = 3
REPLY = b"_INBOX.fw75d76mcc.c1"
NUMBERS = b"SUB shardfw.b1.diag.n7 2\r\n"
"""The first that a connection is told."""


class Commanded(GatewayClient):
    """A READY shard, number 3 in row 0, and the link DATA of its node."""

    def __init__(self):
        super().__init__(LAB)
        self.hello()
        self.dispatch("READY", 1, ready_data())
        assert self.gateway.state == GatewayState.READY
        self.sent()
        shard, core = self.shard, LAB.g(CORE)
        shard.state, shard.tcp.state, shard.held = ShardState.READY, TcpState.ESTABLISHED, 1
        core.slots_used, core.slots_due = 1, 2**63
        core.slots[0].context, core.slots[0].flags = self.at, SLOT_ACTIVE
        workspace = LAB.shard(LINK)
        self.link = Stream(LAB, workspace)
        data = self.data
        data.context, data.state, data.ups = workspace, LinkState.UP, 1
        config = LAB.g(FLEET_CONFIG)
        for field, value in (
            ("magic", FLEET_MAGIC.to_bytes(4, "little")),
            ("bot", b"b1"),
            ("bot_len", b"\2"),
        ):
            LAB.machine.write(config.offset_of(field), value)
        bus = LAB.g(BUS)
        bus.node[:2], bus.node_len = b"n7", 2

    @property
    def data(self):
        return LAB.g(BUS).links[DATA]

    def turn(self):
        LAB.call(commands_tick)
        return self.link.take_sent()

    def take(self, body, *, sid=COMMAND_SID, reply=REPLY, unreadable=0):
        message, at = LAB.g(BUS_IN), LAB.machine.alloc(len(reply) + 1)
        message.unreadable = unreadable
        LAB.machine.write(at, reply)
        message.sid, message.reply, message.reply_len = sid, at, len(reply)
        message.body, message.body_len = LAB.put(body), len(body)
        LAB.call(command_take)

    def ask(self, body, **more):
        self.take(body, **more)
        return self.turn()

    def answer(self, body, **more):
        """Return what is answered, its form checked."""
        line, text, rest = self.ask(body, **more).split(b"\r\n")
        assert line == b"PUB %b %d" % (REPLY, len(text))
        assert rest == b""
        return json.loads(text)


@pytest.fixture
def node():
    node = Commanded()
    node.turn()
    return node


def refused(name):
    return {"ok": False, "err": name}


def test_shards_of_the_node_are_subscribed_once():
    node = Commanded()
    assert node.turn() == NUMBERS + b"SUB shardfw.b1.cmd.3 256\r\n"
    assert node.turn() == b""
    assert LAB.g(COMMANDS).changed == 0


def test_another_connection_is_told_again(node):
    node.data.ups = 2
    assert node.turn() == NUMBERS + b"SUB shardfw.b1.cmd.3 256\r\n"


def test_row_that_gets_another_shard(node):
    node.shard.shard_id = 7
    assert node.turn() == b""
    LAB.g(COMMANDS).changed = 1
    assert node.turn() == b"UNSUB 256\r\nSUB shardfw.b1.cmd.7 512\r\n"


@pytest.mark.parametrize("gone", ["row", "slot"])
def test_shard_that_is_gone_is_given_up(node, gone):
    if gone == "row":
        LAB.g(CORE).slots[0].flags = 0
    else:
        node.shard.held = 0
    LAB.g(COMMANDS).changed = 1
    assert node.turn() == b"UNSUB 256\r\n"
    LAB.g(COMMANDS).changed = 1
    assert node.turn() == b""


def test_nothing_is_subscribed_without_a_link_or_a_fleet():
    node = Commanded()
    node.data.state = LinkState.HELLO
    assert node.turn() == b""
    node.data.state = LinkState.UP
    LAB.machine.write(LAB.g(FLEET_CONFIG).offset_of("magic"), bytes(4))
    assert node.turn() == b""


def test_a_login_that_may_only_enrol_listens_to_nothing():
    node = Commanded()
    LAB.g(BUS).enrolling = 1
    assert node.turn() == b""
    LAB.g(BUS).enrolling = 0
    assert node.turn().startswith(NUMBERS)


def test_without_room_the_rest_comes_later():
    node = Commanded()
    node.link.fill(0)
    assert b"SUB" not in node.turn()
    assert (LAB.g(COMMANDS).changed, node.data.wanted) == (1, 1)
    node.link.fill(2 * COMMAND_LINE_MAX - 1)
    assert node.turn().endswith(NUMBERS)
    assert (LAB.g(COMMANDS).changed, node.data.wanted) == (1, 0)
    node.link.take_sent()
    assert node.turn() == b"SUB shardfw.b1.cmd.3 256\r\n"


@pytest.mark.parametrize(
    "text",
    [
        b'{"op":3,"d":{"status":"online"}}',
        b'{"op": 3, "d": {"status": "online"}}',
        b' \t{ "op" : 3 ,\r\n"d" : {"status":"online"} }\n ',
    ],
)
def test_what_is_asked_is_sent(node, text):
    assert node.answer(text) == {"ok": True}
    assert node.sent() == [{"op": 3, "d": {"status": "online"}}]
    assert (LAB.g(COMMANDS).taken, LAB.g(COMMANDS).refused) == (1, 0)
    assert LAB.g(CORE).slots[0].deadline == 0


def test_nobody_waits_for_an_answer(node):
    assert node.ask(b'{"op":3,"d":{}}', reply=b"") == b""
    assert node.sent() == [{"op": 3, "d": {}}]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (b'{"op":2,"d":{}}', "bad_op"),
        (b'{"op":77,"d":{}}', "bad_op"),
        (b'{"op":99999999999999999999,"d":{}}', "bad_op"),
        (b'{"op":3,"d":{"a":]}}', "bad_body"),
        (b'{"op":3,"d":"x"}', "bad_body"),
        (b'{"op":3,"d":{},"e":1}', "bad_body"),
        (b'{"op":3}', "bad_body"),
        (b'{"d":{},"op":3}', "bad_body"),
        (b'{"op":"reboot"}', "bad_body"),
        (b'{"op":"restart","d":{}}', "bad_body"),
        (b"", "bad_body"),
        (b"}", "bad_body"),
        (b"hello", "bad_body"),
        (b'{"op":3,"d":{"a":"%b"}}' % (b"x" * 4100), "too_large"),
    ],
)
def test_what_cannot_be_is_refused_by_name(node, text, name):
    assert node.answer(text) == refused(name)
    assert node.sent() == []
    assert (LAB.g(COMMANDS).taken, LAB.g(COMMANDS).refused) == (0, 1)


def test_limit_says_how_long_to_wait(node):
    node.shard.pacer.total, node.shard.pacer.running = 118, 118
    node.shard.pacer.second_at = node.now
    answer = node.answer(b'{"op":3,"d":{}}')
    assert (answer["ok"], answer["err"]) == (False, "rate_limited")
    assert 0 < answer["retry_after_ms"] <= 61_000


def test_shard_that_is_not_ready(node):
    node.shard.state = ShardState.STARTING
    assert node.answer(b'{"op":3,"d":{}}') == refused("not_ready")
    assert node.answer(b'{"op":"restart"}') == refused("not_ready")


def test_a_message_too_long_for_the_ring_is_refused_by_name(node):
    assert node.answer(b"", unreadable=MESSAGE_TOO_LONG.code) == refused("too_large")
    assert node.answer(b"", unreadable=BAD_HEADER.code) == refused("bad_body")


@pytest.mark.parametrize(
    "reply",
    [
        b"$KV.shardfw.b1.ctl.lease.0", b"$JS.API.STREAM.PURGE.KV_shardfw", b"shardfw.b1.ev.3.READY",
        b"_I.n7.3fa2c1d0.c.2", b"_W.n7.1", b"_E.n7.1", b"_INBO", b"_INBOY", b"_R_", b"_R_x", b"_",
    ],
)  # fmt: skip
def test_nobody_makes_the_node_publish_for_them(node, reply):
    assert node.ask(b'{"op":3,"d":{}}', reply=reply) == b""
    assert node.sent() == []
    assert (LAB.g(COMMANDS).taken, LAB.g(COMMANDS).refused) == (0, 1)


@pytest.mark.parametrize("reply", [b"_INBOX.a.b", b"_INBOX_b1.x", b"_INBOX", b"_R_.k4"])
def test_every_clients_inbox_is_answered(node, reply):
    assert node.ask(b'{"op":3,"d":{}}', reply=reply).startswith(b"PUB " + reply + b" 11\r\n")


@pytest.mark.parametrize(("connected_ms", "left"), [(0, 10_001), (9_999, 2), (10_000, 0)])
def test_a_restart_is_asked_of_a_shard_that_has_been_connected_a_while(node, connected_ms, left):
    node.shard.connected_at = node.now - connected_ms * CYCLES_PER_MS
    wanted = {"ok": True} if not left else {**refused("rate_limited"), "retry_after_ms": left}
    assert node.answer(b'{"op":"restart"}') == wanted


def test_restart_closes_with_the_session_kept(node):
    node.shard.connected_at = node.now - 10_000 * CYCLES_PER_MS
    assert node.answer(b'{"op":"restart"}') == {"ok": True}
    assert (node.shard.failure, node.shard.failure_close) == (End.RECONNECT_REQUESTED, 4000)
    assert node.answer(b' { "op" : "restart" } ') == refused("not_ready")


@pytest.mark.parametrize("how", ["row", "used", "shard"])
def test_shard_that_has_gone_meanwhile(node, how):
    core = LAB.g(CORE)
    if how == "row":
        core.slots[0].flags = 0
    elif how == "used":
        core.slots_used = 0
    else:
        node.shard.shard_id = 9
    assert node.answer(b'{"op":3,"d":{}}') == refused("not_ready")


@pytest.mark.parametrize("sid", [0, COMMAND_SID - 1])
def test_other_subscriptions_are_no_commands(node, sid):
    assert node.ask(b'{"op":3,"d":{}}', sid=sid) == b""
    assert (LAB.g(COMMANDS).taken, LAB.g(COMMANDS).refused) == (0, 0)


@pytest.mark.parametrize(
    "sid", [COMMAND_SID + 1, COMMAND_SID + SHARDS_MAX - 1, COMMAND_SID + SHARDS_MAX, 2**32 - 1]
)
def test_who_asks_a_subscription_that_is_none_is_told(node, sid):
    assert node.answer(b'{"op":3,"d":{}}', sid=sid) == refused("not_ready")


def test_what_was_sent_to_the_rows_former_shard_is_not_done_by_the_next(node):
    node.shard.connected_at = node.now - 10_000 * CYCLES_PER_MS
    node.shard.shard_id = 7
    LAB.g(COMMANDS).changed = 1
    node.turn()
    assert node.answer(b'{"op":"restart"}') == refused("not_ready")
    assert node.answer(b'{"op":"restart"}', sid=COMMAND_SID + SHARDS_MAX) == {"ok": True}


def test_a_row_counts_what_it_gave_up_round(node):
    entry = LAB.g(COMMANDS).offset_of("shards")
    LAB.machine.write(entry + 2, b"\xff\xff")
    LAB.g(COMMANDS).changed, node.shard.shard_id = 1, 7
    assert node.turn() == b"UNSUB 16777216\r\nSUB shardfw.b1.cmd.7 256\r\n"


def answered(text):
    return b"PUB %b %d\r\n%b\r\n" % (REPLY, len(text), text)


NOT_READY = answered(b'{"ok":false,"err":"not_ready"}')


@pytest.fixture
def idle(node):
    """A node whose shard is not READY, so that it refuses all."""
    node.shard.state = ShardState.STARTING
    return node


def test_answer_without_room_comes_later(idle):
    idle.link.fill(ANSWER_RESERVE + len(NOT_READY) - 1)
    assert b"PUB" not in idle.ask(b'{"op":"restart"}')
    assert idle.data.wanted == 1
    idle.link.fill(ANSWER_RESERVE + len(NOT_READY))
    assert idle.turn().endswith(NOT_READY)
    assert (idle.data.wanted, LAB.g(COMMANDS).answers_end) == (0, 0)
    assert idle.turn() == b""


def test_nothing_is_said_in_the_middle_of_a_publication(idle):
    idle.data.midway = 1
    idle.shard.shard_id = 7
    LAB.g(COMMANDS).changed = 1
    assert idle.ask(b'{"op":"restart"}') == b""
    assert idle.data.wanted == 1
    idle.data.midway = 0
    said = b"UNSUB 256\r\nSUB shardfw.b1.cmd.7 512\r\n"
    assert idle.turn() == said + NOT_READY
    assert idle.data.wanted == 0


def test_nobody_waits_for_a_gap_without_a_word(node):
    node.data.wanted = node.data.midway = 1
    assert node.turn() == b""
    assert node.data.wanted == 0


def test_who_was_heard_leaves_the_next_gap_to_others(idle):
    for _ in range(2):
        idle.take(b'{"op":"restart"}')
    idle.link.fill(ANSWER_RESERVE + 2 * len(NOT_READY) - 1)
    assert idle.turn().endswith(NOT_READY)
    assert idle.data.wanted == 0
    idle.link.fill(0)
    assert len(idle.turn()) == TX_BYTES
    assert idle.data.wanted == 1
    assert idle.turn() == NOT_READY


def test_answers_wait_in_order_as_far_as_there_is_room(idle):
    idle.data.midway, entry = 1, 4 + len(NOT_READY)
    kept = (ANSWERS_BYTES - 2 * COMMAND_LINE_MAX - len(REPLY)) // entry + 1
    for _ in range(kept + 3):
        idle.take(b'{"op":"restart"}')
    assert LAB.g(COMMANDS).answers_end == kept * entry
    assert LAB.g(COMMANDS).refused == kept + 3
    idle.data.midway = 0
    said = b""
    while piece := idle.turn():
        said += piece
    assert said == kept * NOT_READY


def test_answers_that_have_left_make_room_for_others(idle):
    idle.data.midway = 1
    for _ in range(90):
        idle.take(b'{"op":"restart"}')
    waiting = LAB.g(COMMANDS).answers_end
    idle.data.midway = 0
    left = len(idle.turn())
    assert 0 < left < waiting
    assert LAB.g(COMMANDS).answers_end == waiting - left // len(NOT_READY) * (4 + len(NOT_READY))


@pytest.mark.parametrize("more", [0, 1])
def test_longest_reply_that_is_answered(idle, more):
    reply = b"_INBOX.".ljust(ANSWERS_BYTES - 2 * COMMAND_LINE_MAX + more, b"a")
    said = idle.ask(b'{"op":"restart"}', reply=reply)
    assert said == (b"" if more else b"PUB " + reply + NOT_READY[len(REPLY) + 4 :])


def test_another_connection_may_not_answer_for_the_last_one(idle):
    idle.data.midway = 1
    assert idle.ask(b'{"op":"restart"}') == b""
    idle.data.midway, idle.data.ups = 0, 2
    assert idle.turn() == NUMBERS + b"SUB shardfw.b1.cmd.3 256\r\n"
    assert (LAB.g(COMMANDS).answers_end, idle.data.wanted) == (0, 0)


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=40),
        st.lists(
            st.sampled_from(
                [b"{", b"}", b'"op"', b'"d"', b":", b",", b" ", b"\t", b"3", b"0", b'"restart"']
            ),
            max_size=14,
        ).map(b"".join),
    )
)
def test_any_text_is_read_as_the_model_reads_it(text):
    LAB.reset()
    got = LAB.call(command_parse, text=LAB.put(text), length=len(text)).outputs
    if not got["cf"]:
        assert got["eax"] == OP_RESTART or got["eax"] <= OP_MAX + 1
