"""Lines of the log on the bus: whole, in order, a few in a turn, and what a ring that ran ahead costs."""

import pytest

from firmware.events.lines import LINES_PER_TURN, lines_publish
from firmware.layouts.bus import BUS, DATA, LinkState
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.log import LOG, LOG_ON_BUS, LOG_RING, LOG_RING_BYTES
from tests.support.lab import Lab
from tests.support.publisher import furnish_names
from tests.support.stream import Stream

LAB = Lab(lines_publish, slots=1)


class Node:
    """A node whose link DATA is UP, and its log."""

    def __init__(self, at=0):
        LAB.reset()
        self.stream = Stream(LAB, LAB.shard(0))
        furnish_names(LAB)
        self.magic(FLEET_MAGIC)
        self.link.context, self.link.state = self.stream.shard, LinkState.UP
        LAB.g(LOG).head = LAB.g(LOG).tail = LAB.g(LOG_ON_BUS).told = at

    def magic(self, value):
        LAB.machine.write(LAB.g(FLEET_CONFIG).offset_of("magic"), value.to_bytes(4, "little"))

    @property
    def link(self):
        return LAB.g(BUS).links[DATA]

    def log(self, *lines):
        ring, log = LAB.image.address(LOG_RING), LAB.g(LOG)
        for byte in b"".join(line + b"\n" for line in lines):
            LAB.machine.write(ring + log.head % LOG_RING_BYTES, bytes([byte]))
            log.head += 1

    def turn(self):
        LAB.call(lines_publish)
        return self.stream.take_sent()


def said(*lines):
    return b"".join(
        b"PUB shardfw.b1.log.n525400123456 %d\r\n%b\r\n" % (len(line), line) for line in lines
    )


def test_lines_go_in_order_a_few_in_a_turn():
    node, lines = Node(), [b"t=%d level=info code=x" % n for n in range(LINES_PER_TURN + 1)]
    node.log(*lines)
    assert node.turn() == said(*lines[:LINES_PER_TURN])
    assert node.turn() == said(lines[-1])
    assert node.turn() == b""
    assert LAB.g(LOG_ON_BUS).lines == LINES_PER_TURN + 1


@pytest.mark.parametrize("before", [1, 5, 22, 23])
def test_line_that_goes_on_at_the_start_of_the_ring(before):
    node = Node(3 * LOG_RING_BYTES - before)
    node.log(b"t=5 level=info code=x.y", b"t=6")
    assert node.turn() == said(b"t=5 level=info code=x.y", b"t=6")


def test_ring_that_ran_ahead_is_passed_over():
    node = Node()
    LAB.g(LOG).head = LOG_RING_BYTES + 1
    assert node.turn() == b""
    told = LAB.g(LOG_ON_BUS)
    assert (told.told, told.lost, told.lines) == (LOG_RING_BYTES + 1, 1, 0)
    node.log(b"t=7")
    assert node.turn() == said(b"t=7")


def test_without_room_lines_wait():
    node = Node()
    node.log(b"t=1")
    node.stream.fill(100)
    assert b"PUB" not in node.turn()
    assert node.turn() == said(b"t=1")


@pytest.mark.parametrize("what", ["down", "midway", "wanted", "enrolling", "no fleet"])
def test_nothing_is_said_where_nothing_may_be(what):
    node = Node()
    node.log(b"t=1")
    if what == "down":
        node.link.state = LinkState.HELLO
    elif what == "midway":
        node.link.midway = 1
    elif what == "wanted":
        node.link.wanted = 1
    elif what == "enrolling":
        LAB.g(BUS).enrolling = 1
    else:
        node.magic(0)
    assert node.turn() == b""
