"""The linked network code against independent peers on a virtual wire, in virtual time."""

from dataclasses import dataclass, field

import pytest

from emulator.simulation import dhcp_message as dm
from emulator.simulation.clock import NS_PER_S
from emulator.simulation.host import Host
from emulator.simulation.packet import ip
from emulator.simulation.peers.dhcp import DhcpPolicy, DhcpServer
from emulator.simulation.peers.dns import DnsServer
from emulator.simulation.wire import Segment
from emulator.simulation.world import World
from firmware.layouts.net import DhcpState
from tests.support.netnode import MAC, NetNode, wire_lab

LAB = wire_lab()
KINDS = {"legacy": {}, "modern": {"modern": True}}
BAD_WIRE = (
    "drop p=0.3; duplicate copies=1 p=0.1; corrupt p=0.1; truncate p=0.05 keep=60; "
    "delay by=1ms jitter=80ms"
)
POLICY = DhcpPolicy(
    pool=("10.0.0.50", "10.0.0.51"), routers=("10.0.0.1",), dns=("10.0.0.3", "10.0.0.1")
)


@dataclass
class Wire:
    """A node, a router that is DHCP and DNS server, and the world around them."""

    world: World
    segment: Segment
    router: Host
    server: DhcpServer
    dns: DnsServer
    node: NetNode
    others: list[Host] = field(default_factory=list)

    def until(self, goal, seconds=60):
        self.world.run_until(goal, within_ns=seconds * NS_PER_S)

    def run(self, seconds):
        self.world.run_for(int(seconds * NS_PER_S))

    def bound(self):
        return bool(self.node.address) and self.node.dhcp.state == DhcpState.BOUND

    def resolve(self, name):
        """Ask, send what that queued, and return the state."""
        state = self.node.resolve(name)
        for frame in self.node.flush():
            self.world.attachment("node").port.send(frame)
        self.world.attachment("node").wake()
        return state


def wire(policy=POLICY, *, seed=1, faults="", ack=b"", **card):
    world = World(seed)
    segment = Segment(world)
    router = Host(segment, "router", "10.0.0.1")
    server, dns = DhcpServer(router, policy), DnsServer(router)
    node = NetNode(LAB, ack=ack, seed=seed, **card)
    port = segment.port("node")
    port.link_changed.append(lambda up: node.card.set_link(up=up))
    attachment = world.attach(node, port, "node")
    node.card.on_interrupt = attachment.wake
    attachment.wake()
    if faults:
        segment.set_faults(faults)
    return Wire(world, segment, router, server, dns, node)


@pytest.mark.parametrize("kind", KINDS)
def test_wire_node_gets_an_address_and_answers_pings(kind):
    made = wire(**KINDS[kind])
    made.until(made.bound, 5)
    assert made.node.address == ip("10.0.0.50")
    for size in (0, 56, 1400):
        made.router.ping(made.node.address, bytes(size), sequence=size)
    made.run(1)
    assert [len(reply.payload) for reply in made.router.echo_replies] == [0, 56, 1400]
    assert made.router.bad_packets == []
    assert made.node.bus.strays == []


def test_wire_router_is_asked_for_as_soon_as_there_is_a_lease():
    made = wire()
    made.until(made.bound, 5)
    bound_at = made.world.now_ns
    made.until(lambda: ip("10.0.0.1") in made.node.neighbours(), 1)
    assert made.world.now_ns - bound_at < NS_PER_S // 1000


def test_wire_dead_port_for_35_seconds_is_waited_out():
    """A switch that blocks its port (spanning tree) swallows everything at first."""
    made = wire(DhcpPolicy(pool=("10.0.0.50",), deaf_until_ns=35 * NS_PER_S))
    made.until(made.bound, 120)
    assert made.world.now_ns > 35 * NS_PER_S


def test_wire_refusal_of_another_server_is_ignored():
    made = wire()
    other = Host(made.segment, "other", "10.0.0.66")
    rival = DhcpServer(other, DhcpPolicy(pool=("10.0.0.99",), naks_others=True, delay_ns=10**6))
    made.until(made.bound, 10)
    made.run(2)
    assert made.node.address == ip("10.0.0.50")
    assert len(rival.messages(dm.REQUEST)) == 1
    assert made.node.dhcp.naks == 0


def test_wire_repeated_naks_do_not_become_a_storm():
    made = wire(DhcpPolicy(pool=("10.0.0.50",), naks=5))
    made.until(made.bound, 60)
    assert made.node.dhcp.naks == 5
    assert len(made.server.messages(dm.DISCOVER)) == 6
    assert made.world.now_ns >= 5 * NS_PER_S


def test_wire_renewal_with_a_bare_ack_keeps_router_and_mask():
    bare = frozenset((dm.OPT_MASK, dm.OPT_ROUTER, dm.OPT_DNS))
    made = wire(DhcpPolicy(pool=("10.0.0.50",), lease_s=120, routers=("10.0.0.1",),
                           dns=("10.0.0.3",), omit_on_renew=bare))  # fmt: skip
    made.until(made.bound, 5)
    before = made.node.network.netmask, made.node.network.router, made.node.network.dns1
    made.run(600)
    phases = {exchange.phase for exchange in made.server.messages(dm.REQUEST)}
    assert phases == {"SELECTING", "RENEWING"}
    assert made.node.dhcp.acks > 5
    network = made.node.network
    assert (network.netmask, network.router, network.dns1) == before
    assert network.configured == 1


def test_wire_server_that_ignores_renewals_is_rebound():
    made = wire(DhcpPolicy(pool=("10.0.0.50",), lease_s=600, ignores_renewals=True))
    made.until(made.bound, 5)
    made.run(560)
    assert "REBINDING" in {exchange.phase for exchange in made.server.messages(dm.REQUEST)}
    assert made.node.address == ip("10.0.0.50")
    assert made.bound()


def test_wire_silent_server_costs_the_address_at_the_end_of_the_lease_only():
    made = wire(DhcpPolicy(pool=("10.0.0.50",), lease_s=120))
    made.until(made.bound, 5)
    begun = made.world.now_ns
    made.server.policy.silent = True
    made.until(lambda: not made.node.address, 200)
    assert made.world.now_ns - begun >= 119 * NS_PER_S
    made.server.policy.silent = False
    made.until(made.bound, 120)


@pytest.mark.parametrize("overload", [1, 2, 3])
def test_wire_overloaded_options_are_read(overload):
    made = wire(DhcpPolicy(pool=("10.0.0.50",), routers=("10.0.0.1",), dns=("10.0.0.3",),
                           overload=overload))  # fmt: skip
    made.until(made.bound, 5)
    assert made.node.network.router == int.from_bytes(ip("10.0.0.1"), "little")
    assert made.node.network.dns1 == int.from_bytes(ip("10.0.0.3"), "little")


@pytest.mark.parametrize("seed", range(5))
def test_wire_bad_wire_only_delays(seed):
    made = wire(seed=seed, faults=BAD_WIRE)
    made.until(made.bound, 300)
    made.segment.set_faults(None)
    made.router.ping(made.node.address)
    made.run(3)
    assert made.router.echo_replies


def test_wire_boot_roms_ack_needs_no_exchange_and_is_renewed():
    offer = dm.DhcpMessage(2, 7, MAC, [(dm.OPT_TYPE, bytes([dm.ACK])), (dm.OPT_SERVER, ip("10.0.0.1")),
                                       (dm.OPT_MASK, ip("255.255.255.0")),
                                       (dm.OPT_LEASE, (240).to_bytes(4, "big"))])  # fmt: skip
    offer.yiaddr = ip("10.0.0.50")
    made = wire(ack=offer.encode())
    assert made.node.address == ip("10.0.0.50")
    made.run(60)
    assert made.server.messages(dm.DISCOVER) == []
    made.run(120)
    assert [e.phase for e in made.server.messages(dm.REQUEST)] == ["RENEWING"]


def test_wire_routers_new_mac_is_found_without_an_announcement():
    made = wire()
    made.until(made.bound, 5)
    made.run(2)
    assert made.node.neighbours()[ip("10.0.0.1")] == made.router.mac
    made.router.mac = b"\x02\x00\x00\x00\x00\xee"
    made.run(60)
    assert made.node.neighbours()[ip("10.0.0.1")] == made.router.mac


def test_wire_arp_flood_evicts_nobody():
    made = wire()
    made.until(made.bound, 5)
    made.run(2)
    before = made.node.neighbours()
    noisy = Host(made.segment, "noisy", "10.0.0.200")
    noisy.arp.flood(2000, NS_PER_S // 1000, target=ip("10.0.0.77"))
    made.run(3)
    assert made.node.neighbours() == before
    assert made.node.counters.arp_others == 2000


def test_wire_pulled_cable_comes_back_with_the_lease_confirmed():
    made = wire()
    made.until(made.bound, 5)
    port = made.world.port("node")
    port.set_link(up=False)
    made.run(60)
    assert made.node.network.link_up == 0
    port.set_link(up=True)
    made.run(5)
    assert made.bound()
    assert made.server.messages(dm.REQUEST)[-1].phase == "RENEWING"
    made.router.ping(made.node.address)
    made.run(1)
    assert made.router.echo_replies


@pytest.mark.parametrize("kind", KINDS)
def test_wire_name_is_resolved_although_the_first_server_is_dead(kind):
    made = wire(**KINDS[kind])
    made.dns.add("gateway.example.test", "203.0.113.5")
    made.until(made.bound, 5)
    made.run(2)
    begun = made.world.now_ns
    assert made.resolve("gateway.example.test")[0] == 1
    made.until(lambda: made.node.resolve("gateway.example.test")[0] == 0, 10)
    assert made.world.now_ns - begun < 3 * NS_PER_S
    assert made.node.resolve("gateway.example.test")[1] == ip("203.0.113.5")


def test_wire_name_that_does_not_exist_fails():
    made = wire()
    made.until(made.bound, 5)
    made.resolve("nowhere.example.test")
    made.until(lambda: made.node.resolve("nowhere.example.test")[0] == 2, 20)


def malformed(rng, good):
    """Return a frame of the corpus with a few bytes changed, cut or grown."""
    frame = bytearray(rng.choice(good))
    for _ in range(rng.randint(0, 4)):
        frame[rng.randrange(6, len(frame))] = rng.choice(
            (0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256))
        )
    if rng.random() < 0.3:
        del frame[rng.randint(14, len(frame)) :]
    elif rng.random() < 0.1:
        frame += rng.randbytes(rng.randint(0, 1400 - min(len(frame), 1400)))
    return bytes(frame).ljust(60, b"\x00")[:1514]


@pytest.mark.parametrize("seed", range(3))
def test_wire_storm_of_malformed_frames_costs_nothing_but_counters(seed):
    """Frames that the peers really sent, damaged at every layer; the node still answers pings."""
    made = wire(seed=seed)
    made.dns.add("gateway.example.test", "203.0.113.5")
    good: list[bytes] = []
    made.segment.taps.append(lambda _now, source, frame: good.append(frame))
    made.until(made.bound, 5)
    made.run(2)
    made.resolve("gateway.example.test")
    made.router.ping(made.node.address, b"x" * 32)
    made.run(3)
    made.segment.taps.clear()
    to_node = [bytes(MAC) + frame[6:] for frame in good]
    before = made.node.nic.rx_frames
    for _ in range(1500):
        made.node.deliver(malformed(made.world.random, to_node))
        made.node.step(made.world.now_ns)
    assert made.node.nic.rx_frames == before + 1500
    assert made.node.nic.bad_ids == made.node.nic.bad_lengths == 0
    assert made.node.network.configured == 1
    seen = len(made.router.echo_replies)
    made.run(61)  # what the storm taught the neighbour table has run out by now
    made.router.ping(made.node.address)
    made.run(2)
    assert len(made.router.echo_replies) == seen + 1
