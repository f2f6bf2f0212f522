"""The network's timers: link, neighbours, DHCP, and the next time they want to run."""

from firmware.layouts.clock import NEVER
from firmware.layouts.net import CHECK_MS, ArpState, DhcpState
from firmware.layouts.node import CLOCK
from firmware.net.tick import net_keep, net_tick
from tests.support.net import FAR, MS, NEEDED, PEER, ROUTER, SECOND, START, NetBench, ip32
from tests.support.nic import windows_lab

LAB = windows_lab(*NEEDED, net_tick)


def tick(bench):
    return bench.call(net_tick).outputs["rax"]


def asked(bench):
    return [frame[38:42] for frame in bench.sent() if frame[12:14] == b"\x08\x06"]


def test_net_tick_without_a_clock_does_nothing():
    bench = NetBench(LAB)
    LAB.g(CLOCK).tsc_cycles_per_ms = 0
    assert tick(bench) == NEVER
    assert bench.sent() == []


def test_net_tick_asks_for_router_and_dns_on_the_link_once():
    bench = NetBench(LAB)
    bench.network.dns1, bench.network.dns2 = ip32(FAR), ip32(PEER)
    assert tick(bench) == START + CHECK_MS * MS
    assert asked(bench) == [bytes([10, 0, 0, 1]), bytes([10, 0, 0, 9])]
    bench.advance(CHECK_MS * MS - 1)
    tick(bench)
    assert asked(bench) == []
    bench.advance(SECOND)
    tick(bench)
    assert len(asked(bench)) == 2


def test_net_tick_link_that_comes_back_doubts_neighbours_and_confirms_the_lease():
    bench = NetBench(LAB)
    entry = bench.learn(ROUTER)
    bench.dhcp.state, bench.dhcp.t1_at = DhcpState.BOUND, START + 1000 * SECOND
    bench.dhcp.t2_at = bench.dhcp.expires_at = START + 2000 * SECOND
    bench.dhcp.server = ip32(ROUTER)
    tick(bench)
    bench.card.set_link(up=False)
    bench.advance(SECOND)
    tick(bench)
    assert bench.network.link_up == 0
    assert (entry.state, bench.dhcp.state) == (ArpState.KNOWN, DhcpState.BOUND)
    bench.card.set_link(up=True)
    bench.advance(SECOND)
    tick(bench)
    assert bench.network.link_up == 1
    assert entry.state == ArpState.ASKING
    assert bench.dhcp.state == DhcpState.RENEWING


def test_net_tick_wants_to_run_when_dhcp_does():
    bench = NetBench(LAB, configured=False)
    bench.dhcp.state, bench.dhcp.next_at = DhcpState.SELECTING, START + 7 * MS
    assert tick(bench) == START + 7 * MS


def test_net_keep_nobody_and_everybody_are_left_alone():
    bench = NetBench(LAB)
    bench.call(net_keep, host=0)
    bench.call(net_keep, host=ip32("10.0.0.255"))
    assert bench.sent() == []
    bench.call(net_keep, host=ip32(FAR))
    assert asked(bench) == [bytes([10, 0, 0, 1])]
