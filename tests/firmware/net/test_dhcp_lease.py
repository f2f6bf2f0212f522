"""What is taken from an ACK: addresses, and the times of the lease."""

import pytest

from emulator.simulation import dhcp_message as dm
from firmware.layouts.clock import NEVER
from firmware.layouts.net import DhcpState
from firmware.net.dhcp import dhcp_link_up
from tests.support.dhcp import DNS, OTHER, WHOLE, answer, client, raw, take, tick
from tests.support.net import ROUTER, SECOND, START, ip32


def test_dhcp_adopt_bare_ack_keeps_mask_router_and_dns():
    bench = client(DhcpState.RENEWING, configured=True)
    bench.network.dns1, bench.network.dns2 = ip32(DNS), ip32("10.0.0.4")
    take(bench, answer(dm.ACK, [(dm.OPT_LEASE, (7200).to_bytes(4, "big"))]))
    network = bench.network
    assert (network.netmask, network.router) == (ip32("255.255.255.0"), ip32(ROUTER))
    assert (network.dns1, network.dns2) == (ip32(DNS), ip32("10.0.0.4"))
    assert network.lease_seconds == 7200


def test_dhcp_adopt_without_any_server_takes_siaddr():
    bench = client(DhcpState.REQUESTING)
    bench.dhcp.server = 0
    take(bench, answer(dm.ACK, WHOLE, server="", siaddr=raw(OTHER)))
    assert bench.dhcp.server == ip32(OTHER)


def seconds(value):
    return value.to_bytes(4, "big")


@pytest.mark.parametrize(
    ("lease", "t1", "t2", "expected"),
    [
        (3600, None, None, (1800, 3150, 3600)),
        (60, 100, 30, (15, 30, 60)),
        (60, 20, 50, (20, 50, 60)),
        (60, 50, 50, (30, 50, 60)),
        (60, 0, 0, (30, 53, 60)),
        (60, 70, 80, (30, 53, 60)),
        (0, None, None, (15, 27, 30)),
        (1, None, None, (15, 27, 30)),
        (None, None, None, (1800, 3150, 3600)),
        (0xFFFF_FFFE, None, None, (1 << 27, (1 << 28) - (1 << 25), 1 << 28)),
        (60, 1, 2, (1, 2, 60)),
        (60, None, 1, (0, 1, 60)),
    ],
)
def test_dhcp_adopt_lease_times(lease, t1, t2, expected):
    bench = client(DhcpState.REQUESTING)
    pairs = ((dm.OPT_LEASE, lease), (dm.OPT_T1, t1), (dm.OPT_T2, t2))
    take(bench, answer(dm.ACK, [(code, seconds(v)) for code, v in pairs if v is not None]))
    dhcp = bench.dhcp
    got = tuple((at - START) // SECOND for at in (dhcp.t1_at, dhcp.t2_at, dhcp.expires_at))
    assert got == expected


def test_dhcp_adopt_lease_for_ever_is_never_renewed():
    bench = client(DhcpState.REQUESTING)
    take(bench, answer(dm.ACK, [(dm.OPT_LEASE, b"\xff" * 4)]))
    assert tick(bench) == NEVER
    bench.call(dhcp_link_up)
    assert bench.dhcp.state == DhcpState.BOUND
