"""ClientHello against Python's own TLS and a parser that shares nothing with the writer."""

import ssl

import pytest

from firmware.layouts.config import HOST_MAX
from firmware.layouts.tls import COOKIE_MAX, Group
from firmware.layouts.tls_arena import TlsArena
from firmware.tls.hello import tls_write_hello
from tests.support.tls import TlsBench

BENCH = TlsBench(tls_write_hello)


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()


def written():
    BENCH.call(tls_write_hello)
    arena = BENCH.arena
    return arena.hello[: arena.hello_len]


def extensions(hello):
    """Return the extensions of a ClientHello in their order."""
    at = 4 + 2 + 32
    at += 1 + hello[at]
    at += 2 + int.from_bytes(hello[at : at + 2], "big")
    at += 1 + hello[at]
    assert int.from_bytes(hello[at : at + 2], "big") == len(hello) - at - 2
    at += 2
    found = []
    while at < len(hello):
        kind, size = (int.from_bytes(hello[at + n : at + n + 2], "big") for n in (0, 2))
        found.append((kind, hello[at + 4 : at + 4 + size]))
        at += 4 + size
    assert at == len(hello)
    return found


def test_hello_starts_as_the_rfc_says():
    hello = written()
    assert hello[:4] == b"\x01" + (len(hello) - 4).to_bytes(3, "big")
    assert hello[4:6] == b"\x03\x03"
    assert hello[6:38] == bytes(range(32))
    assert hello[38] == 32
    assert hello[39:71] == bytes(range(100, 132))
    assert hello[71:79] == bytes.fromhex("0006130113021303")
    assert hello[79:81] == b"\x01\x00"


def test_extensions_are_these_and_no_others():
    found = extensions(written())
    assert [kind for kind, _ in found] == [0, 10, 13, 16, 43, 51]
    values = dict(found)
    assert values[0] == b"\x00\x12\x00\x00\x0fgateway.example"
    assert values[10] == bytes.fromhex("0004001d0017")
    assert values[13] == bytes.fromhex("0010040308040503080508060401050106 01".replace(" ", ""))
    assert values[16] == b"\x00\x09\x08http/1.1"
    assert values[43] == bytes.fromhex("020304")
    assert values[51] == bytes.fromhex("0024001d0020") + bytes(range(200, 232))


def test_an_address_has_no_server_name():
    BENCH.arena.is_address = 1
    assert [kind for kind, _ in extensions(written())] == [10, 13, 16, 43, 51]


def test_the_second_hello_has_the_cookie_and_the_other_share():
    first = extensions(written())
    arena = BENCH.arena
    arena.share_group, arena.share_len = Group.SECP256R1, 65
    arena.share[:65] = b"\x04" + bytes(range(64))
    arena.cookie_len, arena.cookie[:5] = 5, b"again"
    second = extensions(written())
    assert second[:5] == first[:5]
    assert second[5] == (51, bytes.fromhex("004500170041") + b"\x04" + bytes(range(64)))
    assert second[6:] == [(44, b"\x00\x05again")]


def test_the_longest_hello_has_room():
    arena = BENCH.arena
    arena.host_len, arena.host[:] = HOST_MAX, b"a" * HOST_MAX
    arena.share_group, arena.share_len = Group.SECP256R1, 65
    arena.cookie_len, arena.cookie[:] = COOKIE_MAX, b"c" * COOKIE_MAX
    assert len(written()) <= TlsArena.hello.size
    assert dict(extensions(written()))[44] == b"\x04\x00" + b"c" * COOKIE_MAX


def test_a_server_of_the_standard_library_takes_it():
    """It answers ServerHello, or what it lacks: a certificate. Anything else is an alert."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    names = []
    context.sni_callback = lambda _tls, name, _context: names.append(name)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(incoming, outgoing, server_side=True)
    hello = written()
    incoming.write(b"\x16\x03\x01" + len(hello).to_bytes(2, "big") + hello)
    with pytest.raises(ssl.SSLError, match=r"NO_SUITABLE_SIGNATURE|NO_SHARED_CIPHER"):
        server.do_handshake()
    assert names == ["gateway.example"]
