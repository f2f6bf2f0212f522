"""CertificateVerify: signed by another library with each key and scheme, and everything else."""

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from firmware.errors import describe
from firmware.layouts.crypto import DRBG
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.tls import HandshakeType, Scheme, Suite, TlsState
from firmware.layouts.tls_arena import VERIFY_CONTEXT
from firmware.layouts.trust import TrustEntry, TrustStore, name_hash
from firmware.layouts.x509 import KeyKind
from firmware.tls.begin import tls_begin
from firmware.tls.certificate_verify import SIGNING, tls_on_verify
from firmware.tls.handshake import tls_tick
from tests.support.chains import root
from tests.support.keys import private, sign
from tests.support.tls import STORE, Peer, TlsBench
from tests.support.tls_peer import Server
from toolchain.trust import read_anchor

BENCH = TlsBench(tls_on_verify, semantics=False)
FREE = TlsBench(tls_on_verify, tls_begin, tls_tick, judged=False)
KEYS = {"p256": KeyKind.P256, "p384": KeyKind.P384, "rsa": KeyKind.RSA, "rsa-3": KeyKind.RSA}
SCHEMES = pytest.mark.parametrize("scheme", SIGNING, ids=lambda scheme: scheme.name)
DIGEST = bytes(range(1, 49))
ROOT = root()
SUBJECT = read_anchor(ROOT).subject


def size_of(suite):
    return 48 if suite == Suite.AES_256_GCM_SHA384 else 32


def shown(bench, name, suite=Suite.AES_128_GCM_SHA256):
    """Let a leaf have a key, and the transcript a digest."""
    bench.reset()
    bench.tls.suite = suite
    bench.arena.digest[:48] = DIGEST
    numbers = private(name).public_key().public_numbers()
    bench.trust(ROOT)
    bench.arena.chain.anchor = STORE + TrustStore.SIZE + TrustEntry.SIZE
    key = bench.arena.chain.certificates[0].key
    key.kind = KEYS[name]
    if isinstance(numbers, rsa.RSAPublicNumbers):
        value, key.exponent = numbers.n.to_bytes(256, "big"), numbers.e
    else:
        size = private(name).key_size // 8
        value = b"\4" + numbers.x.to_bytes(size, "big") + numbers.y.to_bytes(size, "big")
    bench.lab.machine.write(bench.arena.offset_of("leaf_key"), value)
    key.value.start, key.value.size = bench.arena.offset_of("leaf_key"), len(value)


def message(scheme, signature):
    return scheme.to_bytes(2, "big") + len(signature).to_bytes(2, "big") + signature


def signed(name, scheme, digest=DIGEST[:32], context=VERIFY_CONTEXT):
    return message(scheme, sign(name, SIGNING[scheme][1], context + digest))


def judged(bench, body):
    error = bench.call(tls_on_verify, **bench.message(body))["r9d"]
    return describe(error).removeprefix("tls.")


@SCHEMES
@pytest.mark.parametrize("name", ["p256", "p384", "rsa"])
def test_every_key_with_every_scheme(name, scheme):
    shown(FREE, name)
    if SIGNING[scheme][0] != KEYS[name]:
        assert judged(FREE, message(scheme, b"whatever")) == f"scheme({int(scheme)})"
        return
    assert judged(FREE, signed(name, scheme)) == "none"
    assert FREE.arena.scheme == scheme
    assert (FREE.tls.anchor, FREE.tls.key_kind) == (name_hash(SUBJECT), KEYS[name])
    FREE.tls.anchor = 0
    for wrong in (
        signed(name, scheme, DIGEST[1:33]),
        signed(name, scheme, context=VERIFY_CONTEXT.replace(b"server", b"client")),
        signed(name, scheme, context=b""),
        message(scheme, signed(name, scheme)[4:-1]),
        message(scheme, signed(name, scheme)[4:] + b"\0"),
        message(scheme, b""),
    ):
        assert judged(FREE, wrong) == "signature"
    assert FREE.tls.anchor == 0, "nobody has proved to be whom the chain names"


@pytest.mark.parametrize("suite", Suite)
def test_the_digest_is_that_of_the_suite_in_lockstep(suite):
    shown(BENCH, "rsa-3", suite)
    size = size_of(suite)
    assert judged(BENCH, signed("rsa-3", Scheme.RSA_PSS_RSAE_SHA256, DIGEST[:size])) == "none"
    assert bytes(BENCH.arena.signed)[: 98 + size] == VERIFY_CONTEXT + DIGEST[:size]
    shown(BENCH, "rsa-3", suite)
    other = DIGEST[: 80 - size]
    assert judged(BENCH, signed("rsa-3", Scheme.RSA_PSS_RSAE_SHA256, other)) == "signature"


@SCHEMES
def test_each_scheme_in_lockstep(scheme):
    name = {KeyKind.P256: "p256", KeyKind.P384: "p384", KeyKind.RSA: "rsa-3"}[SIGNING[scheme][0]]
    shown(BENCH, name)
    zeros = bytes.fromhex("3006020100020100")
    if name == "rsa-3":
        assert judged(BENCH, signed(name, scheme)) == "none"
        shown(BENCH, name)
        zeros = bytes(256)
    assert judged(BENCH, message(scheme, zeros)) == "signature"


@pytest.mark.parametrize(
    "scheme", [0x0401, 0x0501, 0x0601, 0x0201, 0x0203, 0x0603, 0x0807, 0x0808, 0x0809, 0, 0xFFFF]
)
def test_a_scheme_that_signs_no_handshake(scheme):
    shown(BENCH, "p256")
    wanted = "scheme" + (f"({scheme})" if scheme else "")
    assert judged(BENCH, message(scheme, b"signature")) == wanted


@SCHEMES
def test_a_leaf_whose_key_is_of_no_use(scheme):
    shown(BENCH, "p256")
    BENCH.arena.chain.certificates[0].key.kind = KeyKind.UNSUPPORTED
    assert judged(BENCH, message(scheme, b"signature")) == f"scheme({int(scheme)})"


@pytest.mark.parametrize(
    "body", [b"", b"\4\3", b"\4\3\0", b"\4\3\0\x08signature", b"\4\3\0\x0asignature"]
)
def test_a_message_that_does_not_add_up(body):
    shown(BENCH, "p256")
    assert judged(BENCH, body) == "message_form(15)"


def up_to_verify(messages):
    """Return the server's messages up to CertificateVerify."""
    at = kind = 0
    while kind != HandshakeType.CERTIFICATE_VERIFY:
        kind = messages[at]
        at += 4 + int.from_bytes(messages[at + 1 : at + 4], "big")
    return messages[:at]


@pytest.mark.parametrize("kind", ["p256", "p384", "rsa2048"])
def test_a_server_that_cannot_sign_is_told(kind):
    FREE.reset()
    FREE.lab.g(CLOCK).tsc_cycles_per_ms = 1000
    FREE.lab.g(CORE).now = 1 << 40
    FREE.lab.g(DRBG).seeded = 1
    server = Server(kind)
    FREE.trust(server.identity.root)
    FREE.call(tls_begin)
    flight = server.feed(FREE.sent())
    first = flight.index(b"\x17\x03\x03")
    FREE.receive(flight[:first])
    FREE.call(tls_tick)
    suite = Suite(FREE.tls.suite)
    secret = bytes(FREE.arena.server_secret[: size_of(suite)])
    opened = Peer(suite, secret).open(flight[first:])
    changed = bytearray(up_to_verify(b"".join(content for _, content in opened)))
    changed[-3] ^= 1
    FREE.receive(Peer(suite, secret).seal(bytes(changed), kind=22))
    while FREE.tls.state != TlsState.FAILED:
        FREE.call(tls_tick)
    assert FREE.failure() == ("tls.signature", TlsState.FAILED)
    server.feed(FREE.sent())
    assert server.reason == "TLSV1_ALERT_DECRYPT_ERROR"
