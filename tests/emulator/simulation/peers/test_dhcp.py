"""The DHCP server against a client of a few lines; scapy reads what goes over the wire."""

from __future__ import annotations

import pytest

from emulator.simulation import dhcp_message as d
from emulator.simulation.clock import NS_PER_MS, NS_PER_S
from emulator.simulation.dhcp_message import DhcpMessage
from emulator.simulation.host import Host
from emulator.simulation.packet import BROADCAST_IP, ZERO_IP, Ipv4, Udp, ip
from emulator.simulation.peers.dhcp import DhcpPolicy, DhcpServer

POOL = ("10.0.0.50", "10.0.0.51")


class Client:
    """Sends requests from the node's port and keeps every answer."""

    def __init__(self, pair) -> None:
        self.pair = pair
        self.answers: list[DhcpMessage] = []
        self.arrivals: list[tuple[int, bytes]] = []
        self.host = pair.node
        self.host.bind_udp(68, self._take)
        # Before it has an address, a client takes what comes to its MAC.
        self.host.on_link.update(map(ip, (*POOL, "10.0.0.60")))

    def _take(self, datagram):
        self.answers.append(DhcpMessage.decode(datagram.payload))
        self.arrivals.append((self.pair.world.now_ns, datagram.dst))

    def send(self, kind: int, *options, ciaddr: bytes = ZERO_IP, to: bytes = BROADCAST_IP, flags=0):
        message = DhcpMessage(
            1,
            99,
            self.host.mac,
            [(d.OPT_TYPE, bytes([kind])), *options],
            ciaddr=ciaddr,
            flags=flags,
        )
        raw = Udp(68, 67, message.encode()).encode(ciaddr, to)
        self.host.send_ip(Ipv4(ciaddr, to, 17, raw))
        self.pair.world.run_for(NS_PER_S)
        return self.answers[-1] if self.answers else None

    def bind(self):
        offer = self.send(d.DISCOVER)
        ack = self.send(
            d.REQUEST,
            (d.OPT_SERVER, offer.option(d.OPT_SERVER)),
            (d.OPT_REQUESTED_IP, offer.yiaddr),
        )
        assert ack.kind == d.ACK
        return ack

    def kinds(self):
        return [answer.kind for answer in self.answers]


@pytest.fixture
def client(pair) -> Client:
    return Client(pair)


def serve(pair, **policy) -> DhcpServer:
    return DhcpServer(pair.peer, DhcpPolicy(**{"pool": POOL, **policy}))


def test_the_four_messages_give_a_lease(pair, client):
    server = serve(
        pair, lease_s=60, t1_s=30, t2_s=52, routers=("10.0.0.1",), dns=("10.0.0.1", "10.0.0.3"),
        bootfile="nbp.bin", mtu=1400,
    )  # fmt: skip
    ack = client.bind()
    assert client.kinds() == [d.OFFER, d.ACK]
    assert (ack.xid, ack.yiaddr, ack.siaddr) == (99, ip("10.0.0.50"), ip("10.0.0.1"))
    assert ack.file.rstrip(b"\x00") == b"nbp.bin"
    assert ack.option(d.OPT_MASK) == ip("255.255.255.0")
    assert ack.option(d.OPT_ROUTER) == ip("10.0.0.1")
    assert ack.option(d.OPT_DNS) == ip("10.0.0.1") + ip("10.0.0.3")
    assert ack.option(d.OPT_MTU) == (1400).to_bytes(2, "big")
    seconds = [int.from_bytes(ack.option(code), "big") for code in (51, 58, 59)]
    assert seconds == [60, 30, 52]
    assert server.leases[client.host.mac].address == ip("10.0.0.50")
    assert [item.phase for item in server.messages(d.REQUEST)] == ["SELECTING"]
    assert server.seen == {d.DISCOVER: 1, d.REQUEST: 1}


def test_a_lease_runs_out_and_renewing_extends_it(pair, client):
    server = serve(pair, lease_s=60)
    address = client.bind().yiaddr
    pair.world.run_for(50 * NS_PER_S)
    ack = client.send(d.REQUEST, ciaddr=address, to=pair.peer.address)
    assert (ack.kind, ack.yiaddr) == (d.ACK, address)
    assert server.exchanges[-1].phase == "RENEWING"
    pair.world.run_for(50 * NS_PER_S)
    assert server.lease_of(client.host.mac) is not None
    client.send(d.REQUEST, ciaddr=address)
    assert server.exchanges[-1].phase == "REBINDING"
    pair.world.run_for(61 * NS_PER_S)
    assert server.lease_of(client.host.mac) is None


def test_a_renewal_may_come_without_router_and_mask(pair, client):
    serve(pair, routers=("10.0.0.1",), omit_on_renew=frozenset({d.OPT_MASK, d.OPT_ROUTER}))
    first = client.bind()
    assert first.option(d.OPT_ROUTER) is not None
    again = client.send(d.REQUEST, ciaddr=first.yiaddr, to=pair.peer.address)
    assert (again.option(d.OPT_MASK), again.option(d.OPT_ROUTER)) == (None, None)
    assert again.option(d.OPT_LEASE) is not None


@pytest.mark.parametrize("overload", [1, 2, 3])
def test_overload_moves_options(pair, client, overload):
    serve(pair, routers=("10.0.0.1",), dns=("10.0.0.3",), overload=overload)
    offer = client.send(d.DISCOVER)
    assert offer.option(d.OPT_OVERLOAD) == bytes([overload])
    assert {code for code, _ in offer.options}.isdisjoint({d.OPT_ROUTER, d.OPT_DNS})
    assert offer.option(d.OPT_ROUTER) == ip("10.0.0.1")
    assert offer.option(d.OPT_DNS) == ip("10.0.0.3")


def test_naks_and_a_foreign_address_send_the_client_back(pair, client):
    server = serve(pair, naks=1)
    offer = client.send(d.DISCOVER)
    chosen = (d.OPT_SERVER, pair.peer.address), (d.OPT_REQUESTED_IP, offer.yiaddr)
    assert client.send(d.REQUEST, *chosen).kind == d.NAK
    assert client.answers[-1].yiaddr == ZERO_IP
    assert client.send(d.REQUEST, *chosen).kind == d.ACK
    assert client.send(d.REQUEST, (d.OPT_REQUESTED_IP, ip("10.9.9.9"))).kind == d.NAK
    assert server.exchanges[-1].phase == "REBOOTING"


def test_two_servers_and_one_that_naks_the_others_choice(pair, client):
    serve(pair)
    rude = Host(pair.segment, "rude", "10.0.0.3")
    DhcpServer(rude, DhcpPolicy(pool=("10.0.0.60",), naks_others=True, delay_ns=NS_PER_MS))
    client.send(d.DISCOVER)
    assert [answer.yiaddr for answer in client.answers] == [ip("10.0.0.50"), ip("10.0.0.60")]
    client.send(d.REQUEST, (d.OPT_SERVER, pair.peer.address), (d.OPT_REQUESTED_IP, ip("10.0.0.50")))
    assert client.kinds()[2:] == [d.ACK, d.NAK]
    assert client.answers[-1].option(d.OPT_SERVER) == rude.address


def test_answers_are_unicast_unless_the_client_asks_for_broadcast(pair, client):
    serve(pair)
    client.send(d.DISCOVER)
    client.send(d.DISCOVER, flags=d.FLAG_BROADCAST)
    assert [dst for _, dst in client.arrivals] == [ip("10.0.0.50"), BROADCAST_IP]


def test_a_deaf_and_slow_server_answers_late(pair, client):
    server = serve(pair, deaf_until_ns=35 * NS_PER_S, delay_ns=300 * NS_PER_MS)
    for _ in range(40):
        client.send(d.DISCOVER)
    assert client.arrivals[0][0] >= 35 * NS_PER_S + 300 * NS_PER_MS
    assert server.seen[d.DISCOVER] == 40
    assert len(client.answers) == 5


def test_a_server_may_ignore_renewals_only(pair, client):
    serve(pair, ignores_renewals=True)
    address = client.bind().yiaddr
    client.send(d.REQUEST, ciaddr=address, to=pair.peer.address)
    assert len(client.answers) == 2
    client.send(d.REQUEST, ciaddr=address)
    assert client.kinds() == [d.OFFER, d.ACK, d.ACK]


def test_a_script_replaces_the_answer(pair, client):
    server = serve(pair)

    def twice_with_wrong_xid(exchange):
        wrong = server.reply_to(exchange.request, d.OFFER, ip("10.0.0.66"))
        wrong.xid ^= 1
        return [wrong, exchange.reply]

    server.script = twice_with_wrong_xid
    client.send(d.DISCOVER)
    assert [(a.xid, a.yiaddr) for a in client.answers] == [
        (98, ip("10.0.0.66")),
        (99, ip("10.0.0.50")),
    ]
    server.script = lambda _exchange: []
    client.send(d.DISCOVER)
    assert len(client.answers) == 2


def test_an_exhausted_pool_and_rubbish_are_met_with_silence(pair, client):
    server = serve(pair, pool=())
    client.send(d.DISCOVER)
    pair.node.send_udp(BROADCAST_IP, 67, 68, b"rubbish")
    pair.world.run_for(NS_PER_S)
    assert client.answers == []
    assert server.malformed == 1


def test_release_frees_the_address(pair, client):
    server = serve(pair, pool=("10.0.0.50",))
    address = client.bind().yiaddr
    client.send(d.RELEASE, ciaddr=address, to=pair.peer.address)
    assert server.lease_of(client.host.mac) is None
