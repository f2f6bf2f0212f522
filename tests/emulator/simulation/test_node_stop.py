"""The clean stop of the whole image: politely, within its bounds, and for good."""

from __future__ import annotations

from dataclasses import replace

import pytest

from emulator.simulation.node_facts import CONTROL_KEY
from emulator.simulation.packet import ip
from emulator.simulation.rig import GATEWAY_ADDRESS, OPERATOR_PORT
from firmware.layouts.control import ControlResult, ControlVerb
from firmware.layouts.discovery import DiscoveryMode
from firmware.layouts.policy import Policy
from firmware.layouts.power import POWER
from firmware.layouts.shard import Hold, ShardFlag, ShardState
from firmware.layouts.stop import STOP, StopPhase, StopReason, StopReport
from firmware.layouts.tcp import TCP_PORTS, TcpState
from tests.support.control import answer, command
from toolchain.layout.pack import unpack

S, P = ShardState, StopPhase
SHARDS = 3


class Operator:
    """Whoever holds the key."""

    def __init__(self, rig):
        self.rig, self.counter, self.boot = rig, 0, 0
        rig.status(0)  # from here on the operator knows the node's hardware address
        self.boot = self._say()["boot"]

    def _say(self):
        self.counter += 1
        datagram = command(
            ControlVerb.STOP, key=CONTROL_KEY, counter=self.counter, boot=self.boot, size=128
        )
        self.rig._replies.clear()
        address, port = ip(self.rig.node.address()), self.rig.facts.diagnostics_port
        self.rig.operator.send_udp(address, port, OPERATOR_PORT, datagram)
        self.rig.run(0.002)
        (got,) = self.rig._replies
        return answer(got, CONTROL_KEY)

    def stop(self):
        """Tell the node to stop, or ask how far it is."""
        got = self._say()
        assert got["result"] == ControlResult.DONE
        return unpack(StopReport, got["payload"])


def until_stopped(rig, within_s=10):
    started = rig.now_s()
    stop = rig.node.g(STOP)
    while stop.phase == P.DRAINING:
        rig.run(0.05)
        assert rig.now_s() - started < within_s
    return stop


def log_of(rig, code):
    return [line for line in rig.node.log if line["code"] == code]


def at_rest(rig):
    """Every shard is stopped, and nothing of a connection is left."""
    for n, row in enumerate(rig.invariants.rows):
        assert (row.state, row.hold, row.close_deadline) == (S.ASSIGNED, Hold.STOPPED, 0)
        assert rig.node.shard(n).tcp.state == TcpState.CLOSED


def closes(rig):
    return [dict(shard.closes) for shard in rig.stats.shards]


def test_stop_closes_every_shard_with_4000_and_reports(rig_of, facts):
    rig = rig_of(1, facts(shards=SHARDS))
    rig.until_ready(10)
    operator = Operator(rig)
    first = operator.stop()
    assert (first["phase"], first["reason"]) == (P.DRAINING, StopReason.COMMAND)
    until_stopped(rig, 1)
    at_rest(rig)
    assert closes(rig) == [{"4000": 1}] * SHARDS
    last = operator.stop()
    assert (last["phase"], last["open"], last["left"]) == (P.STOPPED, 0, 0)
    assert (last["closed"], last["reset"]) == (SHARDS, 0)
    assert last["took"] < 200
    (said,) = log_of(rig, "node.stopped")
    assert (said["closed"], said["reset"], said["left"]) == (str(SHARDS), "0", "0")
    assert len(log_of(rig, "node.stopping")) == 1
    rig.run(2)
    assert rig.node.g(STOP).phase == P.OFF


def test_what_a_resume_needs_is_still_in_memory(rig_of, facts, load):
    rig = rig_of(1, facts(shards=SHARDS), load=load(rate=50))
    rig.until_ready(10)
    rig.run(3)
    Operator(rig).stop()
    until_stopped(rig)
    at_rest(rig)
    for n, told in enumerate(rig.stats.shards):
        shard = rig.node.shard(n)
        assert shard.session.valid == 1
        assert shard.flags & ShardFlag.SEQ_VALID
        size = shard.session.session_id_len
        assert bytes(shard.session.session_id)[:size].decode() == told.session_id
        assert 0 < shard.sequence <= told.sequence


@pytest.mark.parametrize("rate", [200, 2000])
def test_stop_under_load_is_still_polite(rig_of, facts, load, rate):
    rig = rig_of(1, facts(shards=SHARDS), load=load(rate=rate))
    rig.until_ready(10)
    rig.run(1)
    Operator(rig).stop()
    stop = until_stopped(rig)
    assert (stop.closed, stop.reset) == (SHARDS, 0)
    at_rest(rig)


def test_a_gateway_that_never_answers_the_close_is_reset_after_five_seconds(rig_of, facts):
    rig = rig_of(1, facts(shards=SHARDS))
    rig.until_ready(10)
    rig.gateway.peer_of(1).policy = replace(rig.gateway.peer_of(1).policy, answers_close=False)
    operator = Operator(rig)
    operator.stop()
    rig.run(4.9)
    middle = operator.stop()
    assert (middle["phase"], middle["open"], middle["closed"]) == (P.DRAINING, 1, SHARDS - 1)
    stop = until_stopped(rig, 1)
    assert (stop.closed, stop.reset, stop.left) == (SHARDS - 1, 1, 0)
    assert 5000 <= int(log_of(rig, "node.stopped")[0]["took"]) < 5200
    at_rest(rig)


def test_a_gateway_that_vanished_costs_no_more_than_its_five_seconds(rig_of, facts):
    rig = rig_of(1, facts(shards=SHARDS))
    rig.until_ready(10)
    operator = Operator(rig)
    rig.internet.cut(GATEWAY_ADDRESS)
    operator.stop()
    stop = until_stopped(rig, 6)
    assert (stop.closed, stop.reset, stop.left) == (0, SHARDS, 0)
    at_rest(rig)


@pytest.mark.parametrize(
    "more",
    [{}, {"discovery": DiscoveryMode.HTTP, "path": "/gateway/bot"}],
    ids=["static", "discovery"],
)
def test_a_stop_in_the_middle_of_every_phase_ends_as_well(rig_of, facts, more):
    """One node for each millisecond of the start-up; handshakes get no close frame."""
    for milliseconds in range(1, 40, 2):
        rig = rig_of(1, facts(shards=SHARDS, **more))
        rig.run(milliseconds / 1000)
        started = {row.state for row in rig.invariants.rows}
        rig.node.g(STOP).phase = P.DRAINING  # as if told; an operator needs the network first
        rig.node.g(STOP).deadline = rig.world.now_ns + 11 * 10**9
        rig.node.machine.call("slots_wake")
        rig.attachment.wake()
        stop = until_stopped(rig, 6)
        assert stop.left == 0
        at_rest(rig)
        rig.run(40)
        at_rest(rig)
        assert S.FATAL not in started


def test_nothing_begins_again_after_a_stop(rig_of, facts):
    rig = rig_of(1, facts(shards=SHARDS))
    rig.until_ready(10)
    Operator(rig).stop()
    until_stopped(rig)
    dials = len(rig.monitor.dials(GATEWAY_ADDRESS, 80))
    rig.node.console("lease arm 600000")
    rig.run(120)
    at_rest(rig)
    assert len(rig.monitor.dials(GATEWAY_ADDRESS, 80)) == dials


def test_a_stop_during_a_backoff_ends_it(rig_of, facts):
    rig = rig_of(1, facts(shards=SHARDS, policy=Policy.FIXED))
    rig.until_ready(10)
    rig.gateway.peer_of(0).abort()
    rig.gateway.flush()
    rig.world.run_until(lambda: rig.states[0] == S.BACKOFF)
    Operator(rig).stop()
    stop = until_stopped(rig, 2)
    assert (stop.closed, stop.reset) == (SHARDS - 1, 0)
    rig.run(30)
    at_rest(rig)


def test_a_lease_that_runs_out_while_the_node_stops_silences_it_at_once(rig_of, facts):
    rig = rig_of(1, facts(shards=SHARDS))
    rig.until_ready(10)
    for n in range(SHARDS):
        peer = rig.gateway.peer_of(n)
        peer.policy = replace(peer.policy, answers_close=False)
    Operator(rig).stop()
    rig.run(1)
    assert rig.node.g(STOP).phase == P.DRAINING
    ends = rig.world.now_ns
    rig.node.console("lease expire")
    rig.run(10)
    assert rig.monitor.sent_since(ends) == []
    stop = rig.node.g(STOP)
    assert (stop.closed, stop.reset, stop.left) == (0, SHARDS, 0)
    assert {row.hold for row in rig.invariants.rows} == {Hold.LEASE_EXPIRED}


def test_ports_are_free_after_a_stop(rig_of, facts):
    rig = rig_of(1, facts(shards=SHARDS))
    rig.until_ready(10)
    Operator(rig).stop()
    until_stopped(rig)
    assert [rig.node.shard(n).tcp.local_port for n in range(SHARDS)] == [0] * SHARDS
    assert rig.node.g(TCP_PORTS).refused == 0
    assert rig.stats.open_connections == 0


class PowerButton:
    """The PM1 event block of a machine, as a device of the node's bus."""

    PORT, BIT = 0x600, 0x100

    def __init__(self):
        self.status = 0

    def port_in(self, port, _size):
        return self.status if port == self.PORT else None

    def port_out(self, port, _size, value):
        if port != self.PORT:
            return False
        self.status &= ~value
        return True

    def mmio_read(self, _physical, _size):
        return None

    def mmio_write(self, _physical, _size, _value):
        return False


def test_the_power_button_stops_the_node_as_well(rig_of, facts):
    rig = rig_of(1, facts(shards=SHARDS))
    button = PowerButton()
    rig.node.bus.devices.append(button)
    rig.node.g(POWER).status = button.PORT
    rig.until_ready(10)
    button.status = button.BIT
    rig.attachment.wake()
    rig.run(0.001)
    assert (rig.node.g(STOP).reason, button.status) == (StopReason.POWER_BUTTON, 0)
    stop = until_stopped(rig, 1)
    assert (stop.closed, stop.reset) == (SHARDS, 0)
    at_rest(rig)
    assert closes(rig) == [{"4000": 1}] * SHARDS
