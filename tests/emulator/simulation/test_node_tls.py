"""Whole nodes over TLS: the release image's bytes against OpenSSL on the virtual wire."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from emulator.simulation.clock import NS_PER_S
from emulator.simulation.node_facts import NodeFacts
from emulator.simulation.rig import GATEWAY_ADDRESS
from firmware.layouts.discovery import DiscoveryMode
from firmware.layouts.sentences import TLS_BECAUSE
from firmware.layouts.shard import ShardState
from firmware.layouts.tls import Group, Hybrid, Suite, TlsState
from firmware.layouts.tls_pool import ARENAS_MAX, TLS_POOL
from firmware.layouts.tls_sites import (
    CERTIFICATE_NAME,
    CERTIFICATE_PIN,
    CERTIFICATE_UNKNOWN,
    HANDSHAKE_TIMEOUT,
    TRUNCATED,
)
from firmware.layouts.trust import name_hash
from firmware.layouts.x509 import KeyKind
from firmware.layouts.x509_chain import KNOWN_CHAINS
from firmware.limits import RECEIVE_MSS
from tests.support.chains import root as stranger
from tests.support.chains import store_of
from tests.support.tls_peer import identity, server_context
from toolchain.trust import read_anchor

HOST, PORT = "gateway.test", 443
SHOWN = identity("p256", host=HOST)


@pytest.fixture
def secure(rig_of):
    """Return what makes a node that trusts a root, and its gateway's chain."""

    def make(shards=16, *, shown=SHOWN, root=SHOWN.root, pins=(), **options):
        config, store = options.pop("config", {}), store_of(root, pins=pins)
        facts = NodeFacts(shards=shards, port=PORT, trust=store, **config)
        return rig_of(options.pop("seed", 1), facts, tls=server_context(shown), **options)

    return make


def arenas(rig):
    pool = rig.node.g(TLS_POOL)
    return [pool.slots[n].owner for n in range(ARENAS_MAX)], pool.waiting


def test_sixteen_shards_judge_the_chain_once_each_or_know_it(secure):
    rig = secure()
    rig.until_ready(5)
    tls = [rig.node.shard(n).tls for n in range(16)]
    # OpenSSL goes by its own order of suites.
    assert {(t.state, t.suite) for t in tls} == {(TlsState.CONNECTED, Suite.AES_256_GCM_SHA384)}
    # Whose anchor it is, whether the chain was judged or known.
    assert {t.anchor for t in tls} == {name_hash(read_anchor(SHOWN.root).subject)}
    assert {(t.group, t.key_kind) for t in tls} == {(Group.X25519, KeyKind.P256)}
    known = rig.node.g(KNOWN_CHAINS)
    assert known.hits + known.misses == 16
    assert 1 <= known.misses <= ARENAS_MAX
    assert arenas(rig) == ([0] * ARENAS_MAX, 0)
    assert [peer.tcp.tls.version() for peer in rig.gateway.server.peers] == ["TLSv1.3"] * 16
    assert [peer.tcp.tls.selected_alpn_protocol() for peer in rig.gateway.server.peers] == [
        "http/1.1"
    ] * 16


def test_a_hello_of_two_segments_with_both_shares_needs_no_retry(secure):
    """Such a name makes ClientHello longer than a segment; OpenSSL 3.0 knows no X25519MLKEM768."""
    host = "a-name-that-is-longer-than-most.of-a-gateway.test"
    # A record of 1,430 bytes has a name of 15 (`tests/firmware/tls/test_hybrid.py`).
    assert 1430 - 15 + len(host) > RECEIVE_MSS
    shown = identity("p256", host=host)
    config = {"host": host, "hybrid": Hybrid.SHARE}
    rig = secure(4, shown=shown, root=shown.root, config=config)
    rig.internet.dns.add(host, GATEWAY_ADDRESS, ttl_s=60)
    rig.until_ready(5)
    tls = [rig.node.shard(n).tls for n in range(4)]
    assert {(t.state, t.group) for t in tls} == {(TlsState.CONNECTED, Group.X25519)}
    assert rig.node.g(TLS_POOL).hybrid == Hybrid.SHARE
    assert arenas(rig) == ([0] * ARENAS_MAX, 0)


@pytest.mark.parametrize("kind", ["p384", "rsa2048"])
def test_other_keys(secure, kind):
    shown = identity(kind, host=HOST)
    rig = secure(2, shown=shown, root=shown.root)
    rig.until_ready(5)


def test_a_hundred_shards_queue_for_four_arenas(secure):
    rig = secure(100, config={"max_concurrency": 16})
    rig.until_ready(60)
    assert arenas(rig) == ([0] * ARENAS_MAX, 0)
    assert [row.reconnects for row in rig.invariants.rows] == [0] * 100


def test_a_lost_connection_is_resumed_over_tls(secure):
    rig = secure(4)
    rig.until_ready(5)
    rig.gateway.core.kick(2, 4000)
    rig.gateway.flush()
    rig.run(15)
    assert rig.all_ready()
    assert [s.resumes for s in rig.stats.shards] == [0, 0, 1, 0]
    assert rig.node.g(KNOWN_CHAINS).hits >= 1


def test_discovery_asks_over_https(secure):
    rig = secure(4, config={"discovery": DiscoveryMode.HTTP, "path": "/gateway/bot"})
    rig.until_ready(10)
    asked = [event for event in rig.gateway.events if event.name == "http"]
    assert [event.fields["path"] for event in asked] == ["/gateway/bot"]
    assert len(rig.monitor.dials(GATEWAY_ADDRESS, PORT)) == 5


@pytest.mark.parametrize(
    "faults",
    [
        "drop p=0.05",
        "reorder p=0.2 by=20ms; duplicate p=0.1",
        "corrupt p=0.05 match=tcp",
        "delay by=120ms jitter=40ms",
    ],
)
def test_a_bad_network_changes_nothing(secure, faults):
    rig = secure(8, faults=faults, seed=3)
    rig.until_ready(120)
    assert {rig.node.shard(n).tls.state for n in range(8)} == {TlsState.CONNECTED}


def refused(rig, site, within_s=5):
    """Run until every shard has failed once; return what the gateway's TLS says."""
    shards = range(rig.facts.shards)
    rig.world.run_until(
        lambda: all(rig.node.shard(n).evidence.error for n in shards),
        within_ns=within_s * NS_PER_S,
    )
    errors = {rig.node.shard(n).evidence.error & 0xFFFF_0000 for n in shards}
    assert errors == {site.code}
    assert set(rig.states) == {ShardState.BACKOFF}
    assert arenas(rig) == ([0] * ARENAS_MAX, 0)
    why = f"The gateway connection failed in TLS while TLS was set up{TLS_BECAUSE[site.number]}. "
    said = [line["text"] for line in rig.node.log if line["code"] == "lifecycle.retry"]
    assert len(said) == rig.facts.shards
    assert all(why in text for text in said)
    rig.run(1)
    return {peer.tcp.error for peer in rig.gateway.server.peers}


def test_a_root_that_is_not_trusted_ends_every_attempt_and_waits(secure):
    rig = secure(3, root=stranger("nobody"))
    assert refused(rig, CERTIFICATE_UNKNOWN) == {"TLSV1_ALERT_UNKNOWN_CA"}
    assert {rig.node.shard(n).evidence.delay_ms // 1000 for n in range(3)} == {120}
    dials = len(rig.monitor.dials(GATEWAY_ADDRESS, PORT))
    rig.run(110)
    assert len(rig.monitor.dials(GATEWAY_ADDRESS, PORT)) == dials


def test_a_question_that_fails_in_tls_tells_all_why(secure):
    config = {"discovery": DiscoveryMode.HTTP, "path": "/gateway/bot"}
    rig = secure(3, root=stranger("nobody"), config=config)
    shards = [rig.node.shard(n) for n in range(3)]
    rig.world.run_until(
        lambda: all(shard.evidence.error for shard in shards), within_ns=5 * NS_PER_S
    )
    assert {shard.evidence.error & 0xFFFF_0000 for shard in shards} == {CERTIFICATE_UNKNOWN.code}
    assert {shard.evidence.delay_ms // 1000 for shard in shards} <= {119, 120}
    assert len(rig.monitor.dials(GATEWAY_ADDRESS, PORT)) == 1


def test_a_certificate_for_another_host(secure):
    rig = secure(2, shown=identity("p256"), root=identity("p256").root)
    assert refused(rig, CERTIFICATE_NAME) == {"SSLV3_ALERT_CERTIFICATE_UNKNOWN"}


def key_of_leaf(shown):
    """Return the pin of a server's own key, as another library encodes it."""
    leaf = x509.load_pem_x509_certificate(Path(shown.chain).read_bytes())
    spki = leaf.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(spki).digest()


def test_a_pinned_key_and_another_one(secure):
    rig = secure(2, pins=(bytes(32), key_of_leaf(SHOWN)))
    rig.until_ready(5)
    rig = secure(2, pins=(key_of_leaf(identity("p256")),))
    assert refused(rig, CERTIFICATE_PIN) == {"SSLV3_ALERT_BAD_CERTIFICATE"}
    assert {rig.node.shard(n).evidence.delay_ms // 1000 for n in range(2)} == {120}


def test_a_fin_without_close_notify_is_a_truncation_and_is_resumed(secure):
    rig = secure(2)
    rig.until_ready(5)
    rig.gateway.peer_of(1).tcp._tcp.close()
    rig.run(15)
    assert rig.all_ready()
    assert rig.node.shard(1).evidence.error == TRUNCATED.code
    assert rig.stats.shards[1].resumes == 1


def test_a_server_that_never_answers_a_hello(secure):
    rig = secure(6, config={"attempt_timeout_ms": 30_000})
    server = rig.gateway.server
    server.close()
    server.stack.listen(PORT, lambda _tcp: None, address=server.address)
    rig.world.run_until(
        lambda: rig.node.shard(0).evidence.error == HANDSHAKE_TIMEOUT.code,
        within_ns=15 * NS_PER_S,
    )
    assert 10 <= rig.now_s() <= 11
    # The four arenas are free again, so the two that queued have them now.
    rig.run(0.2)
    assert sum(map(bool, arenas(rig)[0])) == 2


@pytest.mark.parametrize("mode", [DiscoveryMode.STATIC, DiscoveryMode.HTTP])
def test_a_server_that_never_answers_a_syn_keeps_no_arena(secure, mode):
    config = {"attempt_timeout_ms": 30_000, "discovery": mode}
    rig = secure(6, config=config, faults="drop p=1 match=tcp")
    rig.world.run_until(
        lambda: rig.node.shard(0).evidence.error == HANDSHAKE_TIMEOUT.code,
        within_ns=15 * NS_PER_S,
    )
    assert 10 <= rig.now_s() <= 11
    rig.run(0.2)
    # The two that queued have theirs; who shares the end of a question waits before the next one.
    assert sum(map(bool, arenas(rig)[0])) == (2 if mode == DiscoveryMode.STATIC else 0)
