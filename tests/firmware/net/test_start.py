"""How the network starts: the boot ROM's lease, an exchange of its own, or the configured address."""

import pytest

from emulator.simulation import dhcp_message as dm
from firmware.layouts.clock import NEVER
from firmware.layouts.config import CONFIG
from firmware.layouts.net import DhcpState
from firmware.net.dhcp import dhcp_link_up
from firmware.net.start import net_start
from tests.support.dhcp import DNS, LAB, SERVER, WHOLE, answer, messages, start, tick
from tests.support.net import IP, MAC, PEER, ROUTER, SECOND, START, NetBench, ip32


def test_net_start_ack_of_the_boot_rom_is_a_lease():
    bench = NetBench(LAB, configured=False)
    start(bench, answer(dm.ACK, WHOLE))
    network = bench.network
    assert (network.ip, network.netmask, network.router) == tuple(
        map(ip32, (IP, "255.255.255.0", ROUTER))
    )
    assert (network.dns1, network.dns2) == (ip32(DNS), ip32("10.0.0.4"))
    assert (network.configured, network.server_id) == (1, ip32(SERVER))
    assert network.lease_seconds == 3600
    assert bench.dhcp.state == DhcpState.BOUND
    assert bench.dhcp.t1_at == START + 1800 * SECOND
    assert bench.dhcp.t2_at == START + 3150 * SECOND
    assert tick(bench) == bench.dhcp.t1_at


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        answer(dm.ACK, WHOLE, mac=bytes(6)),
        answer(dm.ACK, WHOLE, mac=MAC[:5] + b"\x00"),
        answer(dm.ACK, WHOLE, mac=bytes(4) + MAC[4:]),
        answer(dm.OFFER, WHOLE),
        answer(dm.ACK, WHOLE, address=".".join("0000")),
        answer(dm.ACK, WHOLE, address="127.0.0.1"),
        answer(dm.ACK, WHOLE, address="224.0.0.1"),
        answer(dm.ACK, WHOLE)[:239],
        answer(dm.ACK, WHOLE, op=1),
        answer(dm.ACK, WHOLE).replace(dm.MAGIC, b"\x00" * 4),
    ],
)
def test_net_start_other_acks_lead_to_an_own_exchange(payload):
    bench = NetBench(LAB, configured=False)
    start(bench, payload)
    assert bench.dhcp.state == DhcpState.SELECTING
    assert bench.network.configured == 0
    tick(bench)
    (discover,) = messages(bench)
    assert discover.kind == dm.DISCOVER


def test_net_start_configured_address_needs_no_server():
    bench = NetBench(LAB, configured=False)
    config = LAB.g(CONFIG)
    config.dhcp, config.static_ip, config.static_dns2 = 0, ip32(PEER), ip32(DNS)
    bench.call(net_start, ack=LAB.machine.alloc(16), length=0)
    assert (bench.network.ip, bench.network.dns2) == (ip32(PEER), ip32(DNS))
    assert (bench.network.configured, bench.dhcp.state) == (1, DhcpState.OFF)
    assert tick(bench) == NEVER
    bench.call(dhcp_link_up)
    assert bench.dhcp.state == DhcpState.OFF
