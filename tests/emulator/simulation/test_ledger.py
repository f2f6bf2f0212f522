"""Gateway and node are compared, and a difference on either side is found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from emulator.simulation.ledger import Ledger, LedgerError
from emulator.simulation.packet import ip
from emulator.simulation.pools import free_transmit_buffers, leaks
from emulator.simulation.rig import GATEWAY_ADDRESS
from firmware.layouts.policy import OnLimit, Policy
from firmware.layouts.shard import End, ShardFlag, ShardState, Stop

S = ShardState


@pytest.fixture
def pair(rig_of, facts):
    """A rig of two shards with its ledger, both READY."""
    rig = rig_of(1, facts(shards=2), heartbeat_interval_ms=5_000)
    ledger = Ledger(rig, ip(GATEWAY_ADDRESS))
    rig.until_ready(10)
    return rig, ledger


def record_of(rig, ledger, shard):
    """Return the ledger's record of a shard's connection."""
    return ledger.records[ledger._key(rig.gateway.peer_of(shard))]


def kick(rig, shard, code):
    rig.gateway.core.kick(shard, code)
    rig.gateway.flush()


def test_right_sides_agree_through_every_kind_of_end(pair, load):
    rig, ledger = pair
    rig.load(load(rate=20))
    for code in (4000, 4009, 1001):
        kick(rig, 1, code)
        rig.run(12)
    rig.gateway.core.abort(0)
    rig.gateway.core.reconnect(1)
    rig.gateway.flush()
    rig.run(12)
    rig.load(None)
    rig.run(6)
    assert rig.all_ready()
    assert ledger.handed_on == sum(row.dispatches for row in rig.invariants.rows) > 900
    assert ledger.known == [stats.sequence for stats in rig.stats.shards]
    assert ledger.fatal == set()


def test_a_power_cycle_begins_a_new_ledger(pair):
    rig, ledger = pair
    rig.power_off()
    rig.run(1)
    rig.power_on()
    assert rig.invariants.rows[0].state == S.ASSIGNED
    rig.run(1)
    rig.until_ready(30)
    rig.run(11)
    assert ledger.known == [stats.sequence for stats in rig.stats.shards]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda sent: sent.append((99, "LOST")), "EXTRA with s=.* was handed on; next is LOST with s=99"),
        (lambda sent: None, None),
    ],
)  # fmt: skip
def test_a_dispatch_that_was_left_out_is_found(pair, change, message):
    rig, ledger = pair
    change(record_of(rig, ledger, 1).sent)
    rig.gateway.core.dispatch(1, "EXTRA", {})
    rig.gateway.flush()
    if message is None:
        rig.run(1)
        return
    with pytest.raises(LedgerError, match=f"slot 1, rule 'order of dispatches': {message}"):
        rig.run(1)


def test_a_dispatch_that_came_twice_is_found(pair):
    rig, ledger = pair
    ledger._core.on_send = lambda _peer, _text: None
    rig.gateway.core.dispatch(1, "AGAIN", {})
    rig.gateway.flush()
    with pytest.raises(LedgerError, match=r"AGAIN with s=.*, but the gateway sent nothing more"):
        rig.run(1)


def test_a_heartbeat_with_another_sequence_is_found(pair):
    rig, ledger = pair
    ledger.known[0] = 1
    ledger._before[0] = 1
    with pytest.raises(
        LedgerError,
        match=r"rule 'heartbeats': one says [0-9]+, but the node had handed on 1 before",
    ):
        rig.run(6)  # fmt: skip


def test_a_heartbeat_that_the_node_did_not_write_is_found(pair):
    rig, ledger = pair
    ledger._take_beats = lambda *_: None
    with pytest.raises(
        LedgerError, match=r"rule 'heartbeats': [0-9]+ came, and the node wrote none"
    ):
        rig.run(6)


def test_an_interval_that_hello_did_not_say_is_found(pair):
    rig, _ = pair
    rig.node.shard(0).gateway.heartbeat_interval_ms = 5_001
    with pytest.raises(LedgerError, match="one in 5001 ms, but Hello said 5000"):
        rig.run(6)


def test_a_resume_from_elsewhere_is_found(pair):
    rig, ledger = pair
    known = ledger.known[1]
    ledger.known[1] = known + 1
    ledger._take_beats = lambda *_: None
    ledger._heard_beat = lambda *_: None
    kick(rig, 1, 4000)
    message = f"slot 1, rule 'resume': from {known}, but {known + 1} was handed on last"
    with pytest.raises(LedgerError, match=message):
        rig.run(10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda ledger: ledger._session.__setitem__(1, "other"), "but 'other' was the last"),
        (lambda ledger: ledger.known.__setitem__(1, 0), "is kept, but 0 was handed on last"),
    ],
)
def test_a_session_that_a_reset_made_up_is_found(pair, change, message):
    rig, ledger = pair
    change(ledger)
    rig.warm_reset()
    with pytest.raises(LedgerError, match=f"slot 1, rule 'sessions over a reset': .*{message}"):
        rig.run(1)


def test_a_resume_of_nobodys_session_is_found(pair):
    rig, ledger = pair
    ledger._session[1] = "other"
    kick(rig, 1, 4000)
    with pytest.raises(LedgerError, match="rule 'resume': nobody has the session"):
        rig.run(10)


def test_an_identify_at_another_host_is_found(rig_of, facts):
    rig = rig_of(1, facts(shards=1))
    Ledger(rig, ip("203.0.113.77"))
    with pytest.raises(LedgerError, match="a resume host heard an Identify"):
        rig.until_ready(10)


def test_a_protocol_failure_of_a_right_peer_is_found(pair):
    rig, _ = pair
    rig.gateway.peer_of(0).frame(3, b"x")
    with pytest.raises(
        LedgerError, match=r"slot 0, .*protocol failure 0x[0-9a-f]+ of a right peer"
    ):
        rig.run(1)


def test_a_close_code_that_nobody_sent_is_found(pair):
    rig, ledger = pair
    ledger._core.on_close = lambda _peer, _code: None
    kick(rig, 0, 4000)
    with pytest.raises(LedgerError, match=r"slot 0, .*close code 4000, but the gateway sent 1005"):
        rig.run(1)


@pytest.mark.parametrize(
    ("documented", "code", "message"),
    [
        ({"fatal": ()}, 4004, "close code 4004 led to FATAL with stop AUTH"),
        ({"fatal": (4000,)}, 4000, "4000 led to BACKOFF"),
        ({"fresh": (4000,)}, 4000, "4000 ends the session, but it is kept"),
        ({"fresh": ()}, 4009, "4009 keeps the session, but it is dropped"),
        ({"fresh_in_replay": (4009,)}, 4009, "4009 keeps the session, but it is dropped"),
    ],
)
def test_a_close_code_that_does_what_another_should_is_found(pair, documented, code, message):
    rig, ledger = pair
    ledger._codes = replace(
        ledger._codes, **{name: frozenset(codes) for name, codes in documented.items()}
    )
    kick(rig, 0, code)
    with pytest.raises(LedgerError, match=f"slot 0, rule 'end of a connection': {message}"):
        rig.run(1)


@pytest.mark.parametrize(
    ("stop", "config", "established"),
    [
        (Stop.STARTUP_ATTEMPTS, {"on_limit": OnLimit.FATAL}, False),
        (Stop.STARTUP_DEADLINE, {"on_limit": OnLimit.FATAL}, False),
        (Stop.STARTUP_DEADLINE, {"on_limit": OnLimit.FATAL}, True),
        (Stop.STARTUP_DEADLINE, {}, False),
        (Stop.SCHEDULE_ENDED, {"policy": Policy.SCHEDULE, "schedule_ms": (1, 2)}, True),
        (Stop.SCHEDULE_ENDED, {"policy": Policy.SCHEDULE, "schedule_ms": (1,) * 9}, True),
        (Stop.SCHEDULE_ENDED, {}, True),
        (Stop.PROTOCOL_LIMIT, {}, True),
        (Stop.DEFECT, {}, True),
    ],
)
def test_a_shard_gives_up_only_where_the_configuration_says_so(
    pair, facts, stop, config, established
):
    rig, ledger = pair
    rig.node.facts = facts(shards=2, **config)
    ready = rig.invariants.rows[0]
    old = replace(ready, flags=ShardFlag.ESTABLISHED if established else 0)
    new = replace(
        ready, state=S.FATAL, evidence_stop=stop, evidence_end=End.TCP_FAILED, reconnects=2
    )
    good = (stop, config, established) in (
        (Stop.STARTUP_ATTEMPTS, {"on_limit": OnLimit.FATAL}, False),
        (Stop.STARTUP_DEADLINE, {"on_limit": OnLimit.FATAL}, False),
        (Stop.SCHEDULE_ENDED, {"policy": Policy.SCHEDULE, "schedule_ms": (1, 2)}, True),
    )
    if good:
        ledger._judge_end(0, old, new)
        assert ledger.fatal == {0}
    else:
        with pytest.raises(LedgerError, match=f"led to FATAL with stop {stop.name}"):
            ledger._judge_end(0, old, new)


def test_a_fatal_close_is_remembered(pair):
    rig, ledger = pair
    kick(rig, 0, 4004)
    rig.run(10)
    assert rig.states == [S.FATAL, S.READY]
    assert ledger.fatal == {0}


@pytest.mark.parametrize("name", ["ring_ready", "spans_used"])
def test_what_a_shard_still_holds_is_found(pair, name):
    rig, _ = pair
    rig.run(1)
    assert leaks(rig.node, rig.transmit_buffers) == []
    setattr(rig.node.shard(1).tcp, name, 1)
    assert leaks(rig.node, rig.transmit_buffers) == [f"slot 1: {name} is 1"]


def test_a_lost_transmit_buffer_is_found(pair):
    rig, _ = pair
    rig.run(1)
    free = free_transmit_buffers(rig.node)
    assert leaks(rig.node, free + 1) == [f"{free} of {free + 1} transmit buffers are free"]
