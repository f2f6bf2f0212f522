from __future__ import annotations

import pytest

from emulator.simulation.clock import NS_PER_S
from emulator.simulation.host import Host
from emulator.simulation.internet import Internet
from emulator.simulation.packet import ip
from emulator.simulation.world import World
from pxe.gateway import GatewayOptions


class Net:
    """An internet and one host on its segment."""

    def __init__(self) -> None:
        self.world = World(1)
        self.internet = Internet(self.world)
        self.node = Host(self.internet.segment, "node", "10.0.0.50", gateway="10.0.0.1")

    def dial(self, address: str, port: int = 80):
        connection = self.node.tcp.connect(self.node.address, ip(address), port)
        self.world.run_for(NS_PER_S)
        return connection


@pytest.fixture
def net() -> Net:
    return Net()


def test_a_gateway_is_found_by_name_and_reached_through_the_router(net):
    net.internet.gateway()
    assert net.internet.dns.zone["gateway.test"].addresses == ["203.0.113.5"]
    assert net.dial("203.0.113.5").state == "ESTABLISHED"
    assert net.dial("203.0.113.5", 81).close_reason == "refused"


def test_an_address_that_nobody_has_stays_silent(net):
    assert net.dial("203.0.113.99").state == "SYN-SENT"


def test_a_resume_host_shares_the_sessions_of_the_main_host(net):
    main = net.internet.gateway(options=GatewayOptions(shards=2))
    resume = net.internet.gateway("resume.test", "203.0.113.6", sessions_of="gateway.test")
    assert resume.core is main.core
    assert net.dial("203.0.113.6").state == "ESTABLISHED"
    assert (len(main.server.peers), len(resume.server.peers)) == (0, 1)


def test_a_cut_is_silent_in_both_directions_and_mended(net):
    gateway = net.internet.gateway()
    connection = net.dial("203.0.113.5")
    net.internet.cut("203.0.113.5")
    connection.send(b"GET")
    gateway.server.peers[0].raw(b"data")
    got = bytearray()
    connection.on_data = got.extend
    net.world.run_for(2 * NS_PER_S)
    assert got == b""
    assert connection.stats.retransmitted > 0
    net.internet.mend("203.0.113.5")
    net.world.run_for(10 * NS_PER_S)
    assert got == b"data"
    assert connection.sender.flight == 0


def test_a_service_that_moves_goes_dark_at_its_old_address(net):
    net.internet.gateway()
    net.internet.move("gateway.test", "203.0.113.9")
    assert net.internet.dns.zone["gateway.test"].addresses == ["203.0.113.9"]
    assert net.dial("203.0.113.5").state == "SYN-SENT"
    assert net.dial("203.0.113.9").state == "ESTABLISHED"
