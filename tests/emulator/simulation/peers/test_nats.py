"""The simulated NATS on the wire: over TCP, over TLS after INFO, and with TLS first."""

from __future__ import annotations

import random
import ssl

import pytest

from emulator.simulation.clock import NS_PER_S
from emulator.simulation.nats.faults import ClusterFaults
from emulator.simulation.nats.stream import StreamConfig
from emulator.simulation.packet import ip
from emulator.simulation.peers.nats import NATS_PORT, NatsPeer
from pxe.gateway.certificates import make_chain
from tests.support.nats_script import CONNECT, cas

ADDRESSES = ("198.51.100.1", "198.51.100.2", "198.51.100.3")
LEASE = "$KV.shardfw.b1.ctl.lease.0"


class Client:
    """Dials a server from `node`; with TLS it wraps itself when told to."""

    def __init__(self, pair, address: str, tls: ssl.SSLContext | None = None) -> None:
        self.pair, self.heard = pair, b""
        self.tcp = pair.node.tcp.connect(pair.node.address, ip(address), NATS_PORT)
        self.tcp.on_data = self._take
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = (tls or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)).wrap_bio(
            self._in, self._out, server_hostname=ADDRESSES[0]
        )
        self.sealed = False

    def shake(self) -> None:
        self.sealed = True
        self._step()

    def say(self, data: bytes) -> None:
        if self.sealed:
            self.tls.write(data)
            self.tcp.send(self._out.read())
        else:
            self.tcp.send(data)
        self.run()

    def run(self, seconds: float = 1) -> None:
        self.pair.world.run_for(round(seconds * NS_PER_S))

    def _take(self, data: bytes) -> None:
        if not self.sealed:
            self.heard += data
            return
        self._in.write(data)
        self._step()

    def _step(self) -> None:
        try:
            if self.tls.version() is None or not self.heard.startswith(b"<shaken>"):
                self.tls.do_handshake()
                self.heard = b"<shaken>" + self.heard
            while data := self.tls.read(65_536):
                self.heard += data
        except ssl.SSLWantReadError:
            pass
        if self._out.pending:
            self.tcp.send(self._out.read())


@pytest.fixture(scope="module")
def chain():
    return make_chain(ADDRESSES)


@pytest.fixture
def contexts(chain, tmp_path):
    chain.write(tmp_path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "chain.pem", tmp_path / "key.pem")
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    return server, client


def peer_on(pair, **settings) -> NatsPeer:
    peer = NatsPeer(pair.peer, ADDRESSES, random.Random(1), **settings)
    peer.cluster.add_stream(
        StreamConfig("KV_shardfw", ("$KV.shardfw.>",), per_subject=1, allow_direct=True)
    )
    return peer


def claims(client) -> None:
    client.say(CONNECT + b"SUB _I.n7.* 1\r\nPING\r\n")
    assert b"PONG\r\nINFO" in client.heard
    client.say(cas(LEASE, 0, b"1 held", "_I.n7.1"))
    assert b'MSG _I.n7.1 1 31\r\n{"stream":"KV_shardfw","seq":1}\r\n' in client.heard


def test_a_claim_over_tcp(pair):
    peer_on(pair)
    client = Client(pair, ADDRESSES[1])
    client.run()
    assert client.heard.startswith(b'INFO {"server_id":"N')
    assert b'"server_name":"n2"' in client.heard
    claims(client)


def test_tls_after_info(pair, contexts):
    server, trusting = contexts
    peer_on(pair, tls=server)
    client = Client(pair, ADDRESSES[0], trusting)
    client.run()
    assert b'"tls_required":true' in client.heard
    client.heard = b""
    client.shake()
    client.run()
    assert client.heard.startswith(b"<shaken>")
    claims(client)


def test_tls_first(pair, contexts):
    server, trusting = contexts
    peer_on(pair, tls=server, handshake_first=True)
    client = Client(pair, ADDRESSES[0], trusting)
    client.run()
    assert client.heard == b""
    client.shake()
    client.run()
    assert client.heard.startswith(b"<shaken>INFO")
    claims(client)


def test_clear_words_where_tls_is_wanted_end_the_connection(pair, contexts):
    peer_on(pair, tls=contexts[0])
    client = Client(pair, ADDRESSES[0])
    client.run()
    client.say(CONNECT)
    assert client.tcp.state != "ESTABLISHED"


def test_a_server_that_is_gone_refuses_and_comes_back(pair):
    faults = ClusterFaults(peer_on(pair).cluster)
    client = Client(pair, ADDRESSES[2])
    client.run()
    faults.kill(2)
    client.run()
    assert client.tcp.close_reason == "reset"
    again = Client(pair, ADDRESSES[2])
    again.run()
    assert again.tcp.close_reason == "refused"
    faults.start(2)
    back = Client(pair, ADDRESSES[2])
    back.run()
    assert back.heard.startswith(b"INFO")


def test_a_server_that_stands_still_says_info_when_it_goes_on(pair):
    faults = ClusterFaults(peer_on(pair).cluster)
    faults.pause(0)
    client = Client(pair, ADDRESSES[0])
    client.run()
    assert (client.tcp.state, client.heard) == ("ESTABLISHED", b"")
    faults.resume(0)
    client.run()
    assert client.heard.startswith(b"INFO")


def test_a_client_that_hangs_up_is_forgotten(pair):
    peer = peer_on(pair)
    client = Client(pair, ADDRESSES[0])
    client.run()
    assert len(peer.cluster.servers[0].sessions) == 1
    client.tcp.close()
    client.run()
    assert not peer.cluster.servers[0].sessions


def test_a_client_may_reach_one_server_alone(pair):
    peer = peer_on(pair)
    client = Client(pair, ADDRESSES[0])
    client.run()
    peer.restrict(pair.node.address, 1)
    client.heard = b""
    client.say(CONNECT + b"PING\r\n")
    other, there = Client(pair, ADDRESSES[2]), Client(pair, ADDRESSES[1])
    there.run()
    assert client.heard == other.heard == b""
    assert there.heard.startswith(b"INFO")
    peer.release()
    client.run(5)
    assert b"PONG" in client.heard
