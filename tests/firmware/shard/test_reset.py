"""The reset covers exactly seed A's nine items and touches no other shard."""

import pytest

from firmware.layouts.gateway import GatewayContext
from firmware.layouts.shard import SEQUENCE_NONE, End, FailureFlag, ShardContext, ShardFlag
from firmware.limits import TX_BYTES
from firmware.shard.reset import LAYERS_START, reset_shard, wipe_transport
from tests.support.lab import Lab

LAB = Lab(wipe_transport, reset_shard, slots=3)
JUNK = 0x77
GATEWAY = ShardContext.gateway.offset


@pytest.fixture
def wiped():
    """A shard whose every byte was junk, after the wipe; the others' bytes before and after."""
    LAB.reset()
    shard = LAB.shard(1, wipe=False)
    LAB.machine.write(shard, bytes([JUNK]) * ShardContext.SIZE)
    shard = LAB.shard(1, wipe=False)
    context = LAB.view(ShardContext, shard)
    LAB.machine.write(context.tx_base, bytes([JUNK]) * TX_BYTES)
    others = {r.name: bytes(r.buffer) for r in LAB.machine.regions if r.name[-1] in "02"}
    LAB.call(wipe_transport, shard=shard)
    after = {r.name: bytes(r.buffer) for r in LAB.machine.regions if r.name[-1] in "02"}
    assert others == after
    return context


def layer(context, name):
    view = getattr(context, name)
    size = ShardContext.__dict__[name].size
    return LAB.machine.read(view.address_, size)


def test_wipe_clears_the_tcp_page(wiped):
    assert not any(layer(wiped, "tcp"))


def test_wipe_clears_the_reliable_queue_contents(wiped):
    assert not any(LAB.machine.read(wiped.tx_base, TX_BYTES))


def test_wipe_clears_the_tls_workspace(wiped):
    assert not any(layer(wiped, "tls"))


def test_wipe_clears_the_websocket_workspace(wiped):
    assert not any(layer(wiped, "websocket"))


def test_wipe_clears_the_discord_workspace(wiped):
    at = GatewayContext.latency_ms.offset
    workspace = bytearray(layer(wiped, "gateway"))
    assert workspace[at : at + 4] == b"\xff" * 4, "no latency is known"
    workspace[at : at + 4] = bytes(4)
    assert not any(workspace)


def test_wipe_clears_receive_and_transmit_lengths(wiped):
    # They live in the TCP page: nothing readable, nothing queued.
    run = LAB.machine.read(wiped.address_ + LAYERS_START, GATEWAY - LAYERS_START)
    assert not any(run)


def test_wipe_clears_the_heartbeat_state(wiped):
    assert wiped.gateway.heartbeat_interval_ms == 0
    assert wiped.hb_misses == int.from_bytes(bytes([JUNK]) * 4, "little")  # cumulative


def test_wipe_clears_the_error_state(wiped):
    assert (wiped.last_error, wiped.failure, wiped.failure_flags) == (0, End.NONE, FailureFlag(0))
    assert (wiped.failure_close, wiped.peer_close) == (0, 0)


def test_wipe_clears_the_reconnect_deadline(wiped):
    assert wiped.reconnect_deadline == 0


def test_wipe_keeps_counters_evidence_and_session(wiped):
    junk = int.from_bytes(bytes([JUNK]) * 8, "little")
    assert wiped.reconnects == junk
    assert wiped.evidence.failed_at == junk
    assert wiped.session.valid == junk & 0xFFFF_FFFF
    assert wiped.session_ptr == junk


def test_wipe_invalidates_the_sequence(wiped):
    assert wiped.sequence == SEQUENCE_NONE
    assert not wiped.flags & ShardFlag.SEQ_VALID
