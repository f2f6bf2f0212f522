"""The TLS echo role in lockstep: bytes turned, back-pressure, the ends of a connection."""

import pytest

from firmware.layouts.tcp import TcpState
from firmware.layouts.tls import RecordType, Suite, TlsState
from firmware.layouts.tls_echo import (
    ECHO_RECORD_MAX,
    SHORT_RUN,
    STORE_MAX,
    TLS_ECHO,
    TLS_ECHO_MAGIC,
    TlsEchoControl,
)
from firmware.layouts.tls_pool import TLS_POOL
from firmware.layouts.trust import TRUST_MAGIC, TrustStore
from firmware.layouts.x509_chain import KNOWN_CHAINS, KnownChains
from firmware.limits import RING_BYTES, TX_BYTES
from firmware.test_roles.tls_echo import tls_echo_poll, tls_echo_say, tls_echo_trust
from tests.support.chains import store_of
from tests.support.tls import STORE, TlsBench
from tests.support.tls_peer import identity
from toolchain.layout.pack import pack

BENCH = TlsBench(tls_echo_poll, tls_echo_say, tls_echo_trust)
DATA, ALERT = RecordType.APPLICATION_DATA, RecordType.ALERT
CLOSE_NOTIFY = b"\x01\x00"


def turned(data):
    return bytes(byte ^ 0xFF for byte in data)


class Client:
    """The role with a server's peers: what seals to it, what opens its records."""

    def __init__(self):
        BENCH.reset()
        self.server, self.opener = BENCH.keyed(Suite.AES_128_GCM_SHA256)
        BENCH.tls.state = TlsState.CONNECTED
        BENCH.context.tcp.state = TcpState.ESTABLISHED

    def poll(self):
        """Return whether it goes on."""
        return bool(BENCH.call(tls_echo_poll)["cf"])

    def sent(self):
        return self.opener.open(BENCH.sent())

    @property
    def echo(self):
        return BENCH.lab.g(TLS_ECHO)


@pytest.fixture
def client():
    return Client()


@pytest.mark.parametrize("size", [1, SHORT_RUN, ECHO_RECORD_MAX])
def test_tls_echo_poll_turns_every_byte(client, size):
    data = bytes(n * 7 & 0xFF for n in range(size))
    BENCH.receive(client.server.seal(data), head=RING_BYTES - 20)
    assert client.poll()
    assert client.sent() == [(DATA, turned(data))]
    assert client.echo.received == size


def test_tls_echo_poll_joins_tiny_records(client):
    BENCH.receive(b"".join(client.server.seal(bytes([n])) for n in range(7)))
    assert client.poll()
    assert client.sent() == [(DATA, turned(bytes(pair))) for pair in ((0, 1), (2, 3), (4, 5), (6,))]


def test_tls_echo_poll_sends_a_longest_record_in_parts(client):
    data = bytes(n & 0xFF for n in range(1 << 14))
    BENCH.receive(client.server.seal(data))
    got = b""
    while len(got) < len(data):
        assert client.poll()
        got += b"".join(content for _, content in client.sent())
    assert got == turned(data)
    assert BENCH.context.tcp.ring_ready == 0


def test_tls_echo_poll_without_room_reads_nothing(client):
    BENCH.receive(client.server.seal(b"x" * 100))
    BENCH.context.tcp.tx_start, BENCH.context.tcp.tx_end = 0, TX_BYTES
    assert client.poll()
    assert (BENCH.tls.plain_left, client.echo.received) == (100, 0)


def test_tls_echo_poll_quiet_counts(client):
    client.echo.quiet = 1
    BENCH.receive(client.server.seal(b"x" * 5000) + client.server.seal(b"y"))
    assert client.poll()
    assert (client.sent(), client.echo.received) == ([], 5001)


@pytest.mark.parametrize(("heard", "goes_on"), [(9, True), (10, False), (11, False)])
def test_tls_echo_poll_has_heard_enough(client, heard, goes_on):
    client.echo.limit = 10
    BENCH.receive(client.server.seal(b"x" * heard))
    assert client.poll() == goes_on


def test_tls_echo_poll_the_server_ends_the_stream(client):
    BENCH.receive(client.server.seal(b"x" * SHORT_RUN) + client.server.seal(CLOSE_NOTIFY, ALERT))
    assert not client.poll()
    assert BENCH.tls.state == TlsState.ENDED
    assert client.sent() == [(DATA, turned(b"x" * SHORT_RUN))]


def test_tls_echo_poll_nothing_goes_out_behind_the_end(client):
    BENCH.receive(client.server.seal(b"late") + client.server.seal(CLOSE_NOTIFY, ALERT))
    assert not client.poll()
    assert (client.sent(), BENCH.tls.plain_left) == ([], 4)


def test_tls_echo_poll_a_fin_alone_is_a_failure(client):
    BENCH.context.tcp.state = TcpState.CLOSE_WAIT
    assert client.poll()
    assert BENCH.failure() == ("tls.truncated", TlsState.FAILED)


def test_tls_echo_say_once(client):
    text = b"GET / HTTP/1.0\r\n\r\n"
    client.echo.say[: len(text)], client.echo.say_len = text, len(text)
    assert BENCH.call(tls_echo_say)["cf"] == 0
    assert client.sent() == [(DATA, text)]
    assert BENCH.call(tls_echo_say)["cf"] == 0
    assert client.sent() == []


def test_tls_echo_say_waits_for_room(client):
    client.echo.say_len = 5
    BENCH.context.tcp.tx_start, BENCH.context.tcp.tx_end = 0, TX_BYTES
    assert BENCH.call(tls_echo_say)["cf"] == 1
    assert client.echo.say_len == 5


def shown_to(datagram, *, claims=None):
    """Show the role a datagram, in front of bytes that do not belong to it; return its answer."""
    lab = BENCH.lab
    known = lab.g(KNOWN_CHAINS)
    known.turn, known.hits, known.chains[0].used, known.chains[7].anchor = 9, 3, 9, STORE
    where = lab.machine.alloc(len(datagram) + 64)
    lab.machine.write(where, datagram + b"\xa5" * 64)
    length = len(datagram) if claims is None else claims
    return lab.call(tls_echo_trust, store=where, length=length).outputs["cf"]


@pytest.mark.usefixtures("client")
class TestTrust:
    def test_tls_echo_trust_believes_the_anchors_of_the_datagram(self):
        store = store_of(identity().root, identity("rsa4096").root)
        assert shown_to(store) == 0
        echo, pool, known = (BENCH.lab.g(one) for one in (TLS_ECHO, TLS_POOL, KNOWN_CHAINS))
        assert pool.trust == echo.offset_of("store")
        assert bytes(echo.store[: len(store)]) == store
        # Nothing that led to other anchors is known any more.
        assert BENCH.lab.machine.read(known.address_, KnownChains.SIZE) == bytes(KnownChains.SIZE)

    @pytest.mark.parametrize("size", [TrustStore.SIZE, STORE_MAX])
    def test_tls_echo_trust_takes_any_store_that_fits(self, size):
        head = pack(TrustStore, {"magic": TRUST_MAGIC, "size": size})
        assert shown_to(head.ljust(size, b"\x11")) == 0

    @pytest.mark.parametrize(
        ("magic", "size", "claims"),
        [
            (TRUST_MAGIC, TrustStore.SIZE - 1, TrustStore.SIZE - 1),
            (TRUST_MAGIC, STORE_MAX + 1, STORE_MAX + 1),
            (TRUST_MAGIC, 0x200, 0x201),
            (TRUST_MAGIC, 0x201, 0x200),
            (TLS_ECHO_MAGIC, TlsEchoControl.SIZE, TlsEchoControl.SIZE),
            (TRUST_MAGIC, 0, 0),
        ],
    )
    def test_tls_echo_trust_leaves_everything_with_another_datagram(self, magic, size, claims):
        head = pack(TrustStore, {"magic": magic, "size": size})
        assert shown_to(head.ljust(STORE_MAX + 64, b"\x11"), claims=claims) == 1
        assert BENCH.lab.g(TLS_POOL).trust == STORE
        assert BENCH.lab.g(KNOWN_CHAINS).turn == 9
