"""The outbox on its link: pieces, midway, other connections, answers."""

import pytest

from firmware.events.deliver import (
    PIECE,
    outbox_leave,
    outbox_pass,
    outbox_send,
    publish_next,
    publish_tick,
)
from firmware.events.outbox import outbox_publish
from firmware.layouts.bus import BUS, BUS_IN, DATA, BusKind, LinkState
from firmware.layouts.events import PUBLISH_CUT, PUBLISH_UNTAKEN
from firmware.layouts.fleet_config import FLEET_CONFIG
from firmware.layouts.outbox import (
    ACK_TIMEOUT_MS,
    AGAIN_MS,
    HEAD_MAX,
    STUB_MAX,
    UNTAKEN_MS,
    EntryState,
)
from firmware.limits import TX_BYTES
from tests.support.lab import Lab
from tests.support.publisher import MS, NOW, REGIONS, Publisher
from tests.support.stream import Stream

LAB = Lab(outbox_publish, outbox_send, publish_next, publish_tick, slots=3, extra=REGIONS)
NEVER = 2**64 - 1
LINK_SLOT = 2
TAKEN = b'{"stream":"SHARDFW_EV","seq":7}'
LARGE = b'{"error":{"code":400,"err_code":10054},"stream":"SHARDFW_EV","seq":0}'


class Delivery(Publisher):
    """A node whose link DATA is UP, and what leaves on it."""

    def __init__(self):
        super().__init__(LAB)
        self.context = LAB.shard(LINK_SLOT)
        self.stream = Stream(LAB, self.context)
        link = self.link
        link.context, link.state, link.ups, link.index = self.context, LinkState.UP, 1, DATA
        LAB.g(FLEET_CONFIG).servers_used = 2

    @property
    def link(self):
        return LAB.g(BUS).links[DATA]

    def publish(self, size=2, sequence=41):
        name, body = LAB.machine.alloc(16), b"x" * size
        LAB.machine.write(name, b"A")
        given = {"body": LAB.put(body), "length": size, "name": name, "name_len": 1}
        assert self.call(outbox_publish, 0, sequence=sequence, **given).outputs["cf"] == 0

    def feed_answer(self, number, body=TAKEN, *, head=b""):
        verb, sizes = b"HMSG" if head else b"MSG", b"%d " % len(head) if head else b""
        if head:
            body = head
        to = b"_I.n525400123456.3fa2c1d0.d.%d" % number
        self.stream.feed(b"%b %b 1 %b%d\r\n%b\r\n" % (verb, to, sizes, len(body), body))

    def send(self):
        LAB.call(outbox_send, link=self.link.address_, shard=self.context)
        return self.stream.take_sent()

    def turn(self):
        """Read the link, then send; return when the next turn is wanted."""
        while self.call(publish_next).outputs["eax"] == BusKind.MESSAGE:
            pass
        return self.call(publish_tick).outputs["rax"]


@pytest.fixture
def node():
    return Delivery()


def test_everything_leaves_in_order(node):
    node.publish()
    node.publish(900)
    text = node.queued()
    assert node.send() == text
    assert (node.box.sent, node.box.sending, node.link.midway) == (node.box.end, 2, 0)
    assert node.send() == b""
    node.publish()
    assert node.send() == node.queued()[len(text) :]


@pytest.mark.parametrize("state", [s for s in LinkState if s != LinkState.UP])
def test_nothing_leaves_before_the_link_is_up(node, state):
    node.publish()
    node.link.state = state
    assert node.send() == b""


def test_long_publication_leaves_in_pieces(node):
    node.publish(TX_BYTES)
    node.publish(10)
    text = node.queued()
    got = node.send()
    assert 0 < len(got) < len(text)
    assert len(got) % PIECE == 0
    assert (node.link.midway, node.box.sending) == (1, 0)
    while len(got) < len(text):
        got += node.send()
    assert (got, node.link.midway, node.box.sending) == (text, 0, 2)


def test_piece_that_ends_with_a_publication(node):
    node.publish(10)
    size = node.box.end
    node.publish(PIECE - 2 * size + 10 - 2)  # its length has two digits more
    assert node.box.end == PIECE
    node.publish(10)
    assert len(node.send()) == node.box.end
    node.box.sending, node.box.sent = 0, PIECE
    node.call(outbox_pass, link=node.link.address_)
    assert (node.box.sending, node.link.midway) == (2, 0)


def test_another_connection_gets_all_that_waits(node):
    node.publish(TX_BYTES)
    text = node.queued()
    node.send()
    node.link.ups, node.link.midway = 2, 1
    got = node.send()
    while len(got) < len(text):
        got += node.send()
    assert got == text
    assert node.link.midway == 0


def test_what_was_given_up_unsent_is_passed_over(node):
    node.publish()
    node.publish(sequence=42)
    text = node.queued()
    node.box.ups = 1
    node.box.freed, node.box.first = node.box.entries[0].end, 1
    got = node.send()
    assert text.endswith(got)
    assert b"-42\r\n" in got
    assert b"-41\r\n" not in got


def test_what_was_given_up_half_sent_costs_the_connection(node):
    node.publish(TX_BYTES)
    node.send()
    node.publish()
    node.box.freed, node.box.first = node.box.entries[0].end, 1
    node.send()
    assert (node.link.state, node.link.error) == (LinkState.DOWN, PUBLISH_CUT.code)
    assert node.link.midway == 0


def test_after_a_refusal_nothing_leaves_until_it_is_time_to_go_back(node):
    for sequence in (41, 42, 43):
        node.publish(sequence=sequence)
    text = node.queued()
    assert node.send() == text
    node.box.entries[1].state, node.box.acknowledged = EntryState.DONE, 1
    node.box.again_at = NOW + AGAIN_MS * MS
    node.publish(sequence=44)
    assert node.send() == b""
    node.now = NOW + AGAIN_MS * MS - 1
    assert node.send() == b""
    node.now += 1
    # What was taken among them goes again, too: the stream knows it.
    assert node.send() == node.queued()
    assert node.queued()[: len(text)] == text
    assert (node.box.again_at, node.box.sending, node.box.acknowledged) == (0, 4, 0)
    assert [node.box.entries[n].state for n in range(4)] == [EntryState.WAITING] * 4


def test_what_has_begun_ends_before_that(node):
    node.publish()
    node.publish(TX_BYTES)
    node.publish()
    got = node.send()
    assert node.link.midway == 1
    node.box.again_at = NOW
    end = node.box.entries[1].end
    while node.link.midway:
        got += node.send()
    assert got == node.queued()[:end]
    got = node.send()
    assert node.queued().startswith(got)
    assert (node.box.again_at, node.box.sent) == (0, len(got))


def test_what_was_taken_already_may_be_freed_only_whole(node):
    """An answer to the first sending comes while the second is under way."""
    node.publish()
    node.publish(TX_BYTES)
    node.box.entries[1].state, node.box.ups = EntryState.DONE, 1
    node.box.again_at = node.box.acknowledged = 1
    node.send()
    assert (node.link.midway, node.box.sending) == (1, 1)
    node.feed_answer(0)
    node.feed_answer(1)
    node.turn()
    assert (node.box.first, node.link.state) == (1, LinkState.UP)
    while node.link.midway:
        node.send()
    node.feed_answer(1)
    node.turn()
    assert (node.box.first, node.box.next, node.link.state) == (2, 2, LinkState.UP)


def test_another_connection_may_take_what_was_refused(node):
    node.publish()
    text = node.send()
    box = node.box
    box.again_at, box.refusals, box.too_large = NOW + AGAIN_MS * MS, 7, 5000
    node.link.ups = 2
    assert node.send() == text
    assert (box.again_at, box.refusals, box.too_large) == (0, 0, 0)


def test_turn_sends_again_what_nobody_took(node):
    node.publish()
    node.turn()
    text = node.stream.take_sent()
    node.feed_answer(0, head=b"NATS/1.0 503\r\n\r\n")
    again = NOW + AGAIN_MS * MS
    assert node.turn() == again
    assert node.stream.take_sent() == b""
    node.now = again
    assert node.turn() == NOW + UNTAKEN_MS * MS
    assert node.stream.take_sent() == text
    node.feed_answer(0)
    assert node.turn() == NEVER
    assert node.shard().gateway.seq_acked == 41


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize("connected_ms", [0, 200])
def test_server_by_which_nothing_is_taken_is_left(node, refused, connected_ms):
    """A server that is cut off from the others is silent or refuses, and answers each PING."""
    node.publish()
    node.now = NOW + connected_ms * MS
    node.turn()
    if refused:
        node.feed_answer(0, head=b"NATS/1.0 503\r\n\r\n")
    left = node.now + UNTAKEN_MS * MS
    node.now = left - 1
    node.turn()
    assert node.link.state == LinkState.UP
    node.now = left
    node.turn()
    assert (node.link.state, node.link.error) == (LinkState.DOWN, PUBLISH_UNTAKEN.code)
    # The next one gets all of it, and as much time.
    node.link.state, node.link.ups = LinkState.UP, 2
    node.stream.take_sent()
    node.turn()
    assert node.link.state == LinkState.UP
    node.now += UNTAKEN_MS * MS - 1
    node.turn()
    assert node.link.state == LinkState.UP


@pytest.mark.parametrize("servers", [1, 2])
def test_server_is_not_left_for_what_is_younger_or_when_there_is_no_other(node, servers):
    LAB.g(FLEET_CONFIG).servers_used = servers
    node.turn()
    node.now = NOW + 2 * UNTAKEN_MS * MS
    node.turn()
    assert node.link.state == LinkState.UP
    node.publish()
    node.turn()
    node.now += (2 - servers) * UNTAKEN_MS * MS
    node.turn()
    assert node.link.state == LinkState.UP


def test_server_that_refuses_everything_is_left(node):
    node.publish()
    node.turn()
    for ms in range(0, UNTAKEN_MS, AGAIN_MS):
        node.now = NOW + ms * MS
        node.feed_answer(0, head=b"NATS/1.0 503\r\n\r\n")
        node.turn()
        assert node.link.state == LinkState.UP
    node.now = NOW + UNTAKEN_MS * MS
    node.turn()
    assert (node.link.state, node.link.error) == (LinkState.DOWN, PUBLISH_UNTAKEN.code)
    assert node.box.refused == UNTAKEN_MS // AGAIN_MS


@pytest.mark.parametrize("state", [s for s in LinkState if s != LinkState.UP])
def test_link_that_is_not_up_is_not_left(node, state):
    node.publish()
    node.turn()
    node.link.state, node.now = state, NOW + UNTAKEN_MS * MS
    given = {"link": node.link.address_, "shard": node.context}
    assert LAB.call(outbox_leave, **given).outputs["rax"] == NEVER
    assert (node.link.state, node.link.error) == (state, 0)


@pytest.mark.parametrize("last", [TAKEN, LARGE])
def test_one_answer_of_the_stream_is_enough(node, last):
    node.publish()
    node.publish(HEAD_MAX + STUB_MAX)
    assert node.turn() == NOW + UNTAKEN_MS * MS
    node.now = later = NOW + (UNTAKEN_MS - 1) * MS
    node.feed_answer(1, last)
    assert node.turn() == later + UNTAKEN_MS * MS
    assert node.link.state == LinkState.UP


def test_what_still_leaves_cannot_be_answered(node):
    node.publish(TX_BYTES)
    node.turn()
    assert node.link.midway == 1
    node.now = NOW + 2 * UNTAKEN_MS * MS
    node.turn()
    assert (node.link.state, node.link.midway) == (LinkState.UP, 1)
    while node.link.midway:
        node.stream.take_sent()
        node.turn()
    assert node.turn() == node.now + UNTAKEN_MS * MS


def test_nobody_is_awaited_while_nothing_waits(node):
    node.publish()
    node.turn()
    node.feed_answer(0)
    node.turn()
    node.now = later = NOW + 2 * UNTAKEN_MS * MS
    node.publish()
    assert node.turn() == later + UNTAKEN_MS * MS


def test_turn_does_not_wait_for_what_is_due_already(node):
    node.publish(TX_BYTES)
    node.turn()
    node.box.again_at = NOW
    assert node.turn() == NOW + ACK_TIMEOUT_MS * MS
    assert (node.box.again_at, node.link.midway) == (NOW, 1)


def test_turn_takes_answers_and_sends(node):
    node.publish()
    node.publish(sequence=42)
    at = node.turn()
    assert at == NOW + UNTAKEN_MS * MS
    assert node.stream.take_sent() == node.queued()
    answer = b'{"stream":"SHARDFW_EV","seq":7}'
    line = b"MSG _I.n525400123456.3fa2c1d0.d.%d %d %d\r\n%b\r\n"
    node.stream.feed(line % (0, 1, len(answer), answer) + line % (1, 9, len(answer), answer))
    node.turn()
    # The second one is for a subscription that is not the inbox.
    assert (node.box.first, node.shard().gateway.seq_acked) == (1, 41)
    node.stream.feed(line % (1, 1, len(answer), answer))
    assert node.turn() == NEVER
    assert node.shard().gateway.seq_acked == 42


def test_node_that_does_not_publish_has_no_turn(node):
    node.box.base = 0
    assert node.turn() == NEVER


@pytest.mark.parametrize("publishes", [True, False])
def test_what_is_no_answer_of_the_stream_is_somebody_elses(node, publishes):
    node.publish()
    node.send()
    if not publishes:
        node.box.base = 0
    node.feed_answer(0)
    node.stream.feed(b"MSG shardfw.b1.cmd.5 256 _INBOX.a 2\r\n{}\r\n")
    assert node.call(publish_next).outputs["eax"] == BusKind.MESSAGE
    assert node.box.first == int(publishes)
    assert LAB.g(BUS_IN).sid == 256
    assert node.call(publish_next).outputs["eax"] == BusKind.NONE
    assert node.stream.ready == 0


def test_there_is_nothing_to_read_without_a_workspace(node):
    node.link.context = 0
    assert node.call(publish_next).outputs["eax"] == BusKind.NONE


def test_who_waits_for_a_gap_gets_the_next_one(node):
    node.publish(TX_BYTES)
    node.publish(10)
    text, first = node.queued(), node.box.entries[0].end
    got = node.send()
    node.link.wanted = 1
    while node.link.midway:
        got += node.send()
    assert (len(got), node.send()) == (first, b"")
    node.link.wanted = 0
    assert got + node.send() == text


@pytest.mark.parametrize("ups", [1, 2])
def test_nothing_begins_while_somebody_waits_for_a_gap(node, ups):
    node.publish()
    node.box.ups, node.link.ups, node.link.wanted = 1, ups, 1
    assert node.send() == b""
    node.box.again_at = NOW
    assert node.send() == b""
    node.link.wanted = 0
    assert node.send() == node.queued()
