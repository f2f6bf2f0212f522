"""Instructions of a handshake and of an opened record, by the emulator; the fast variants."""

from __future__ import annotations

import pytest

from firmware.crypto.mlkem import mlkem_decapsulate, mlkem_keygen
from firmware.layouts.crypto import DRBG
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.tls import Hybrid, Suite, TlsState
from firmware.layouts.tls_arena import TLS_HELLO_SUITES
from firmware.layouts.tls_pool import TLS_POOL
from firmware.layouts.variants import VARIANTS, Variant
from firmware.layouts.x509_chain import KNOWN_CHAINS
from firmware.tls.begin import tls_begin
from firmware.tls.handshake import tls_tick
from firmware.tls.transport import tls_consume, tls_readable
from tests.support.counting import Counter
from tests.support.tls import TlsBench
from tests.support.tls_peer import Server, identity

pytestmark = pytest.mark.bench
CHAIN = identity("p256", issuers=("p256", "p384"))


@pytest.fixture(scope="module")
def bench():
    return TlsBench(
        tls_begin,
        tls_tick,
        tls_readable,
        tls_consume,
        mlkem_keygen,
        mlkem_decapsulate,
        judged=False,
    )


@pytest.fixture(scope="module")
def counter(bench):
    """One from the first instruction on: what is translated already is not counted."""
    return Counter(bench.lab.machine)


def fast(bench):
    variants = bench.lab.g(VARIANTS)
    variants.usable = 1
    variants.aes_gcm = variants.x25519 = variants.p256 = variants.signatures = Variant.FAST


def handshake(bench, counter, suite, hybrid=Hybrid.OFF):
    """Return the instructions of one, from `tls_begin` to CONNECTED; the server takes X25519."""
    lab = bench.lab
    lab.g(CLOCK).tsc_cycles_per_ms, lab.g(CORE).now, lab.g(DRBG).seeded = 1000, 1 << 40, 1
    at = lab.image.address(TLS_HELLO_SUITES)
    lab.machine.write(at + 2, suite.to_bytes(2, "big") * 3)
    lab.g(TLS_POOL).hybrid = hybrid
    server = Server(shown=CHAIN)
    bench.trust(CHAIN.root)
    before = counter.instructions
    bench.call(tls_begin)
    answer = server.feed(bench.sent())
    bench.receive(answer)
    while True:
        bench.call(tls_tick)
        if bench.tls.state == TlsState.CONNECTED:
            return counter.instructions - before
        assert bench.tls.state == TlsState.WAIT_VERIFY


@pytest.mark.parametrize("hybrid", [Hybrid.OFF, Hybrid.SHARE])
@pytest.mark.parametrize("suite", [Suite.AES_128_GCM_SHA256, Suite.AES_256_GCM_SHA384])
def test_handshake_instructions(figure, bench, counter, suite, hybrid):
    bench.reset()
    fast(bench)
    whole = handshake(bench, counter, suite, hybrid)
    known_at = bench.lab.image.address(KNOWN_CHAINS)
    chains = bench.lab.machine.read(known_at, KNOWN_CHAINS.struct.SIZE)
    bench.reset()
    fast(bench)
    bench.lab.machine.write(known_at, chains)
    known = handshake(bench, counter, suite, hybrid)
    what = f"handshake, P-256 leaf and intermediate, P-384 anchor, {suite.name}"
    if hybrid == Hybrid.SHARE:
        what += ", a share of X25519MLKEM768 that the server does not take"
    figure(f"instructions of a {what}", f"{whole:,}; {known:,} with a chain that is known")


def test_mlkem_instructions(figure, bench, counter):
    bench.reset()
    arena, told = bench.arena, []
    key, out = arena.kem.address_, arena.offset_of("shared")
    for routine, inputs in (
        (mlkem_keygen, {"key": key, "seed": out}),
        (mlkem_decapsulate, {"key": key, "out": out, "ciphertext": arena.offset_of("peer_share")}),
    ):
        before = counter.instructions
        bench.call(routine, **inputs)
        told.append(f"{counter.instructions - before:,}")
    figure("instructions of ML-KEM-768: a key pair, a secret", ", ".join(told))


@pytest.mark.parametrize("suite", Suite)
def test_record_instructions(figure, bench, counter, suite):
    told = []
    for size in (1400, 16384):
        bench.reset()
        fast(bench)
        peer = bench.keyed(suite)[0]
        bench.tls.state = TlsState.CONNECTED
        bench.receive(peer.seal(bytes(size)), head=0)
        before = counter.instructions
        assert bench.call(tls_readable)["ecx"] == size
        bench.call(tls_consume, length=size)
        told.append(f"{(counter.instructions - before) / size:.2f} at {size:,} bytes")
    figure(f"instructions a byte of an opened record, {suite.name}", ", ".join(told))
