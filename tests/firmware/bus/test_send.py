"""What the node says: room, order, the numbers of requests and the inbox."""

import pytest

from firmware.bus.send import bus_close, bus_open, bus_put_inbox, bus_request_id
from firmware.layouts.bus import INBOX_MAX, LinkState
from firmware.limits import TX_BYTES
from tests.support.bus import BusBench

BENCH = BusBench(bus_open, bus_close, bus_put_inbox, bus_request_id)


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()


def test_what_is_written_between_open_and_close_is_sent():
    BENCH.up()
    for text in (b"PUB a 1\r\nx\r\n", b"PUB b 2\r\nyz\r\n"):
        out = BENCH.bus(bus_open, length=100)
        assert out["cf"] == 0
        BENCH.lab.machine.write(out["rdi"], text)
        BENCH.bus(bus_close, end=out["rdi"] + len(text))
    assert BENCH.queued() == b"PUB a 1\r\nx\r\nPUB b 2\r\nyz\r\n"
    assert BENCH.link.sent == 2


@pytest.mark.parametrize("state", [s for s in LinkState if s != LinkState.UP])
def test_only_a_link_that_is_up_takes_texts(state):
    BENCH.up(state)
    out = BENCH.bus(bus_open, length=10)
    assert (out["cf"], out["rdi"]) == (1, 0)


def test_without_room_nothing_is_begun():
    BENCH.up()
    out = BENCH.bus(bus_open, length=TX_BYTES + 1)
    assert (out["cf"], out["rdi"], BENCH.link.out) == (1, 0, 0)


@pytest.mark.parametrize(("last", "number"), [(0, 1), (7, 8), (2**32 - 1, 1)])
def test_requests_are_numbered_and_none_is_zero(last, number):
    link = BENCH.link
    link.inbox_next = last
    assert BENCH.bus(bus_request_id)["eax"] == number
    assert link.inbox_next == number


@pytest.mark.parametrize(("index", "letter"), [(0, b"c"), (1, b"d")])
def test_the_inbox_names_node_boot_and_link(index, letter):
    BENCH.link.index = index
    text = BENCH.lab.machine.alloc(INBOX_MAX)
    end = BENCH.bus(bus_put_inbox, text=text)["rdi"]
    assert BENCH.lab.machine.read(text, end - text) == b"_I.n7.3fa2c1d0." + letter + b"."
