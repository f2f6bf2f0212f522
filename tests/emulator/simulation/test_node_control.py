"""Commands over the wire to the whole image: forged, replayed, recorded before a restart."""

from __future__ import annotations

import pytest

from emulator.simulation.node import shard_address
from emulator.simulation.node_facts import CONTROL_KEY
from emulator.simulation.packet import ip
from emulator.simulation.peers.websocket import TEXT, frame
from emulator.simulation.rig import OPERATOR_PORT
from firmware.layouts.control import CONTROL, ControlResult, ControlVerb
from firmware.layouts.node import LEASE
from firmware.layouts.owner import OwnerServices
from firmware.layouts.shard import End, ShardState
from firmware.layouts.stop import StopPhase
from pxe.gateway.bodies import BOT_ID
from tests.support.control import answer, command
from toolchain.layout.pack import unpack

S, V, R = ShardState, ControlVerb, ControlResult


def ready_rig(rig_of, facts, **more):
    rig = rig_of(1, facts(shards=3, **more))
    rig.until_ready(10)
    rig.status(0)  # from here on the operator knows the node's hardware address
    return rig


def say(rig, datagram):
    """Send one datagram to the node; return the answers that come within a moment."""
    rig._replies.clear()
    rig.operator.send_udp(
        ip(rig.node.address()), rig.facts.diagnostics_port, OPERATOR_PORT, datagram
    )
    rig.run(0.05)
    return list(rig._replies)


def order(rig, verb, *, counter, boot, **fields):
    (got,) = say(rig, command(verb, key=CONTROL_KEY, counter=counter, boot=boot, **fields))
    return answer(got, CONTROL_KEY)


def nonce_of(rig):
    got = order(rig, V.PING, counter=1, boot=0)
    assert got["result"] == R.BOOT
    return got["boot"]


def test_commands_arm_renew_and_expire_the_lease(rig_of, facts):
    rig = ready_rig(rig_of, facts)
    boot = nonce_of(rig)
    assert order(rig, V.LEASE_ARM, counter=10, boot=boot, argument=30_000)["value"] == 1
    assert order(rig, V.LEASE_RENEW, counter=11, boot=boot, argument=60_000)["result"] == R.DONE
    rig.run(40)
    assert rig.all_ready()
    order(rig, V.LEASE_EXPIRE, counter=12, boot=boot)
    assert set(rig.states) == {S.ASSIGNED}
    assert order(rig, V.LEASE_RENEW, counter=13, boot=boot, argument=1)["result"] == R.LEASE_OVER
    order(rig, V.LEASE_ARM, counter=14, boot=boot, argument=60_000)
    rig.until_ready(10)


def test_an_owner_is_told_to_who_has_the_key_and_only_of_its_own_shards(rig_of, facts):
    rig = ready_rig(rig_of, facts)
    boot = nonce_of(rig)
    context = shard_address(1)
    found = [
        order(rig, V.OWNER, counter=10 + n, boot=boot, argument=argument, size=512)
        for n, argument in enumerate((1, context, context + 8, 3, 2**64 - 1))
    ]
    assert [got["value"] for got in found] == [context, context, 0, 0, 0]
    assert [bool(got["payload"]) for got in found] == [True, True, False, False, False]
    said = unpack(OwnerServices, found[0]["payload"])
    assert (said["slot"], said["shard_id"], said["user_id"]) == (1, 1, int(BOT_ID))
    assert (said["drain"], said["failure"]) == (StopPhase.RUNNING, End.NONE)


def test_the_bots_id_is_known_from_ready_to_the_end_of_the_session(rig_of, facts):
    rig = rig_of(1, facts(shards=1))
    shard = rig.node.shard(0)
    rig.world.run_until(lambda: rig.states[0] == S.STARTING)
    assert shard.user_id == 0
    rig.until_ready(10)
    assert shard.user_id == int(BOT_ID)
    rig.gateway.peer_of(0).raw(frame(TEXT, b'{"op":7}'))
    rig.run(0.2)
    assert rig.states[0] != S.READY
    assert shard.user_id == int(BOT_ID), "the session stays"
    rig.until_ready(60)
    rig.gateway.peer_of(0).raw(frame(TEXT, b'{"op":9,"d":false}'))
    rig.run(0.2)
    assert rig.states[0] != S.READY
    assert shard.user_id == 0


def test_a_recorded_command_does_nothing_a_second_time(rig_of, facts):
    rig = ready_rig(rig_of, facts)
    boot = nonce_of(rig)
    recorded = command(V.LEASE_EXPIRE, key=CONTROL_KEY, counter=20, boot=boot)
    first = say(rig, recorded)
    assert answer(first[0], CONTROL_KEY)["result"] == R.DONE
    order(rig, V.LEASE_ARM, counter=21, boot=boot, argument=600_000)
    rig.until_ready(10)
    (got,) = say(rig, recorded)
    assert answer(got, CONTROL_KEY)["result"] == R.REPLAYED
    rig.run(1)
    assert rig.all_ready()


def test_a_recorded_command_does_nothing_after_a_restart(rig_of, facts):
    rig = ready_rig(rig_of, facts)
    recorded = command(V.LEASE_EXPIRE, key=CONTROL_KEY, counter=20, boot=nonce_of(rig))
    rig.power_off()
    rig.run(1)
    rig.power_on()
    rig.until_ready(10)
    (got,) = say(rig, recorded)
    assert answer(got, CONTROL_KEY)["result"] == R.BOOT
    assert rig.node.g(LEASE).expired == 0
    assert rig.all_ready()


@pytest.mark.parametrize("key", [b"", CONTROL_KEY[:-1] + b"\0", b"k" * 64])
def test_a_storm_of_forged_commands_costs_nothing_but_its_count(rig_of, facts, key):
    rig = ready_rig(rig_of, facts)
    boot = nonce_of(rig)
    address, port = ip(rig.node.address()), rig.facts.diagnostics_port
    for n in range(60):
        forged = command(V.LEASE_EXPIRE, key=key, counter=100 + n, boot=boot, size=1400)
        rig.operator.send_udp(address, port, OPERATOR_PORT, forged)
    rig._replies.clear()
    rig.run(1)
    assert rig._replies == []
    state = rig.node.g(CONTROL)
    assert state.bad + state.held == 60
    assert rig.all_ready()
    assert rig.status(0)["commands_bad"] >= 1


def test_without_a_key_nothing_is_answered(rig_of, facts):
    rig = ready_rig(rig_of, facts, control_key=b"")
    assert say(rig, command(key=b"", boot=0)) == []
    assert rig.status(0)["commands_bad"] == 1
