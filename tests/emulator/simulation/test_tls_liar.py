"""A whole node against tlslite-ng as a server that lies: each lie is refused with the right alert."""

from __future__ import annotations

import pytest

from emulator.simulation.clock import NS_PER_S
from emulator.simulation.node_facts import NodeFacts
from firmware.errors import describe
from firmware.layouts.shard import ShardState
from firmware.layouts.tls import TlsState
from firmware.layouts.tls_pool import ARENAS_MAX, TLS_POOL
from firmware.layouts.tls_sites import REFUSALS
from tests.support.chains import store_of
from tests.support.tls_liar import Liar
from tests.support.tls_lies import LIES, OWN, UNUSUAL, shown

PORT = 443


@pytest.fixture
def told(rig_of):
    """Return what lets a node of one shard meet a liar: the rig, and the liars of its attempts."""

    def meet(acts, certificates, pins=()):
        liars = []

        def accept(tcp):
            liar = Liar(certificates, acts, tcp.send, tcp.close)
            tcp.on_data = liar.feed
            liars.append(liar)

        store = store_of(certificates.root, pins=pins)
        rig = rig_of(1, NodeFacts(shards=1, port=PORT, trust=store))
        server = rig.gateway.server
        server.stack.listen(PORT, accept, address=server.address)
        return rig, liars

    return meet


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_refused(told, name):
    lie = LIES[name]
    rig, liars = told(lie.acts, shown(lie.shown), lie.pins)
    shard = rig.node.shard(0)
    rig.world.run_until(lambda: shard.evidence.error != 0, within_ns=15 * NS_PER_S)
    assert describe(shard.evidence.error & 0xFFFF_0000) == describe(lie.site.code)
    assert (shard.state, shard.evidence.tls_state) == (ShardState.BACKOFF, TlsState.FAILED)
    pool = rig.node.g(TLS_POOL)
    assert [pool.slots[n].owner for n in range(ARENAS_MAX)] == [0] * ARENAS_MAX
    rig.run(0.5)
    assert liars[0].alerts == ([] if lie.alert is None else [lie.alert])


@pytest.mark.parametrize("name", UNUSUAL)
def test_the_unusual_is_not(told, name):
    rig, liars = told(UNUSUAL[name], shown("p256"))
    rig.world.run_until(lambda: bool(liars and liars[0].heard), within_ns=5 * NS_PER_S)
    rig.run(0.5)
    (liar,) = liars
    assert (liar.alerts, liar.failed) == ([], "")
    assert liar.heard.startswith(b"GET /?v=10")
    assert rig.node.shard(0).tls.state == TlsState.CONNECTED


def test_every_failure_that_a_server_can_cause_has_a_lie():
    assert {lie.site for lie in LIES.values()} | set(OWN) == set(REFUSALS)
    assert not {lie.site for lie in LIES.values()} & set(OWN)
