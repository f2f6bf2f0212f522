"""The turn of both links: the nearer deadline, and what leaves."""

import pytest

from emulator.simulation.packet import SYN
from firmware.bus.turn import bus_flush, bus_tick
from firmware.layouts.bus import BUS, LinkState
from firmware.layouts.clock import NEVER
from firmware.layouts.fleet_config import FLEET_CONFIG
from tests.support.bus_link import BENCH, left, tick
from tests.support.segments import NOW, OUR_PORT, ms


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()


class TestTurn:
    def test_a_node_without_a_fleet_has_no_links(self):
        BENCH.lab.g(FLEET_CONFIG).magic = 0
        assert BENCH.call(bus_tick)["rax"] == NEVER
        assert BENCH.call(bus_flush)["rax"] == NEVER
        assert BENCH.link.state == LinkState.DOWN

    def test_both_links_are_dialled(self):
        assert BENCH.call(bus_tick)["rax"] == ms(3_000)
        links = BENCH.lab.g(BUS).links
        assert [links[n].state for n in range(2)] == [LinkState.CONNECT] * 2
        assert [t.flags for t in BENCH.sent()] == [SYN, SYN]

    def test_the_nearer_deadline_counts(self):
        links = BENCH.lab.g(BUS).links
        links[0].next_try, links[1].next_try = ms(90), ms(80)
        assert BENCH.call(bus_tick)["rax"] == ms(80)
        links[0].next_try = ms(70)
        assert BENCH.call(bus_tick)["rax"] == ms(70)

    def test_a_link_without_a_workspace_is_left_out(self):
        BENCH.lab.g(BUS).links[1].context = 0
        BENCH.call(bus_tick)
        assert len(BENCH.sent()) == 1

    def test_what_fails_while_it_sends_is_looked_at_at_once(self):
        BENCH.up()
        BENCH.tcp.give_up_at = NOW
        assert BENCH.call(bus_flush)["rax"] == NOW
        tick()
        assert BENCH.link.state == LinkState.DOWN

    def test_what_is_written_leaves(self):
        BENCH.up()
        BENCH.queue(b"PING\r\n")
        assert BENCH.call(bus_flush)["rax"] == ms(1000)
        assert [payload for _, payload in left()] == [b"PING\r\n"]
        assert BENCH.tcp.local_port == OUR_PORT
