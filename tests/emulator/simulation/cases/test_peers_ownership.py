"""Faults that other shard holders had with isolation, ownership and limits (vectors 59 to 67)."""

from __future__ import annotations

import pytest

from emulator.simulation.node import ImageNode
from emulator.simulation.node_facts import NodeFacts
from emulator.simulation.peers.websocket import TEXT, frame
from firmware.layouts.closes import RULES
from firmware.layouts.profile import PROFILES
from firmware.layouts.shard import Hold, ShardState
from tests.emulator.simulation.test_node_send import DONE, R, Sender
from tests.support.cases import path_of

S = ShardState
LEASE_S = 20
FATAL = (4004, *range(4010, 4015))


def ask(operation: int) -> bytes:
    """Return the frame of a message that has an opcode and nothing else."""
    return frame(TEXT, b'{"op":%d,"d":null}' % operation)


@pytest.mark.parametrize("first", ["fin", "send"])
def test_v59_a_send_into_a_socket_that_is_half_closed(rig_of, facts, profile, first):
    sender = Sender(rig_of, facts, PROFILES[profile])
    peer = sender.rig.gateway.peer_of(0)
    if first == "fin":
        peer.tcp.close()
    got = sender.send(3)
    assert got in (DONE, (R.SEND_NOT_READY, 0))
    if first == "send":
        peer.tcp.close()
    sender.again_ready()
    assert sender.stats.resumes == 1
    assert sender.send(3) == DONE


def test_v60_op_1_and_the_end_in_one_segment(case_of, profile):
    case = case_of(profile)
    peer = case.talk.peer
    with peer.tcp.corked():
        peer.raw(ask(1))
        peer.tcp.close()
    case.until_records(1)
    case.failed("network", then="resume", below_ms=1_000)
    case.healed()
    assert case.handshakes == [[2], [6]]


def test_v61_op_7_the_end_and_a_queued_send_together(rig_of, facts, profile):
    sender = Sender(rig_of, facts, PROFILES[profile])
    peer = sender.rig.gateway.peer_of(0)
    with peer.tcp.corked():
        peer.raw(ask(7))
        peer.tcp.close()
    assert sender.send(3) in (DONE, (R.SEND_NOT_READY, 0))
    sender.again_ready()
    assert (sender.stats.resumes, sender.stats.identifies) == (1, 1)
    assert sender.send(3) == DONE


def test_v62_a_resume_while_the_lease_holds_and_nothing_after(case_of, profile):
    case = case_of(profile, noticed=True, config={"lease_ms": LEASE_S * 1_000})
    case.run(5)
    case.act(lambda core: core.abort(0))
    case.until_records(1)
    case.healed()
    assert case.handshakes == [[2], [6]]
    case.run(LEASE_S - case.now - 0.01)
    case.act(lambda core: core.abort(0))
    case.run(120)
    assert case.row.hold == Hold.LEASE_EXPIRED
    assert case.rig.monitor.sent_since(LEASE_S * 10**9 - 1) == []
    assert len(case.talks) == 2


def test_v64_two_nodes_with_the_same_shards(case_of, profile):
    case = case_of(profile, noticed=True, config={"lease_ms": LEASE_S * 1_000})
    rig = case.rig
    rig.gateway.shared.on_open = lambda _peer: None
    rig.gateway.shared.on_message = lambda _peer, _data: None
    case.run(LEASE_S - case.now)
    mac = bytes.fromhex("525400abcdef")
    node = NodeFacts(shards=2, profile=profile, path=path_of(profile), mac=mac)
    other = ImageNode(node, seed=9, now_ns=rig.world.now_ns)
    attachment = rig.world.attach(other, rig.segment.port("other"))
    other.plug(attachment)
    taken_ns = rig.world.now_ns
    identified = [s.identifies for s in rig.stats.shards]
    case.until(lambda: [s.identifies for s in rig.stats.shards] == [n + 1 for n in identified])
    case.run(60)
    # Since the other node has the shards, the first one has not sent a frame of theirs.
    assert rig.monitor.sent_since(taken_ns) == []
    assert {row.hold for row in rig.invariants.rows} == {Hold.LEASE_EXPIRED}
    assert all(s.connected for s in rig.stats.shards)


@pytest.mark.parametrize("code", FATAL)
def test_v67_fatal_codes_cost_one_identify(case_of, profile, code):
    case = case_of(profile, shards=3, ready=False, noticed=True)
    case.script("identify", "kick", code=code, shard=0, times=9)
    case.until_records(1)
    case.ended("closed", RULES[profile][code].stop.name.lower(), close=code)
    assert case.handshakes == [[2]]
    case.unnoticed()
