"""Faults that other shard holders had before READY (vectors 1 to 14): bad starts, and the Identify gate."""

from __future__ import annotations

import itertools

import pytest

from emulator.simulation.rig import GATEWAY_ADDRESS
from firmware.layouts.discovery import DiscoveryMode
from firmware.layouts.profile import ProfileId
from firmware.layouts.shard import End, Hold, ShardState
from pxe.gateway.rest import Reply, rate_limit
from tests.support.cases import path_of

S = ShardState
KICKED = {"1000": 1000, "4000": 4000}


def gaps(times):
    """Return the seconds between every two."""
    return [b - a for a, b in itertools.pairwise(times)]


def test_v01_op_7_before_hello(case_of, profile):
    case = case_of(profile)
    case.script("connect", "reconnect", times=2)
    case.act(lambda core: core.abort(0))
    case.healed()
    # Never an Identify, never a close that ends the session.
    assert case.handshakes == [[2], [], [], [6]]
    assert [talk.closed for talk in case.talks[1:3]] == [4000, 4000]
    assert [record.next for record in case.records()] == ["resume"] * 3


def test_v02_op_9_before_hello(case_of):
    case = case_of()
    case.script("connect", "invalidate", resumable=True)
    case.act(lambda core: core.abort(0))
    case.until_records(2)
    case.failed("invalidSession", then="resume", below_ms=2_000)
    case.healed()
    assert case.handshakes == [[2], [], [6]]


@pytest.mark.parametrize("end", ["1000", "4000", "fin"])
def test_v03_closed_before_hello_thirty_times(case_of, profile, end):
    case = case_of(profile, heartbeat_interval_ms=600_000)
    do = {"code": KICKED[end], "do": "kick"} if end in KICKED else {"do": "nothing"}
    case.script("connect", times=30, **do)
    if end == "fin":
        # The upgrade is answered, and with the same breath the stream ends.
        shared = case.rig.gateway.shared
        seen = shared.on_open

        def finish(peer):
            seen(peer)
            if len(case.talks) <= 31:
                peer.tcp.close()

        shared.on_open = finish
    case.act(lambda core: core.abort(0))
    case.until_records(31, within_s=1_200)
    delays = [record.delay_ms for record in case.records()]
    # Full jitter below a ceiling that doubles to 30 s; the session is kept all the time.
    for step, delay in enumerate(delays):
        assert delay < min(30_000, 1_000 << min(step, 31))
    assert {record.next for record in case.records()} == {"resume"}
    assert sum(delays[15:]) > 5 * sum(delays[:5])
    assert case.rig.monitor.most_dials_in() <= 20
    case.until_ready(60)


def test_v04_only_ready_starts_the_step_again(case_of, profile):
    case = case_of(profile, shards=1, ready=False)
    case.script("connect", "kick", code=1000, times=12)
    case.until_records(12, within_s=600)
    # After the startup's three attempts the recovery policy's step grows; a socket resets nothing.
    assert case.view.recovery_step == 12 - 2
    assert case.row.identifies == 0
    case.healed()
    assert case.row.identifies == 1


def test_v05_silence_instead_of_an_upgrade(case_of, profile):
    case = case_of(profile)
    case.rig.gateway.server.policy.silent = True
    case.act(lambda core: core.abort(0))
    case.until_records(2)
    record = case.failed("timeout", then="resume", below_ms=2_000)
    assert record.stage == "ws"
    case.rig.gateway.server.policy.silent = False
    case.healed(40)
    first, second = case.records()
    attempt_ms = second.at_ms - first.at_ms - first.delay_ms
    assert attempt_ms == pytest.approx(30_000, abs=300)
    assert case.handshakes == [[2], [6]]


def test_v05_silence_instead_of_a_syn_ack(case_of, profile):
    case = case_of(profile, heartbeat_interval_ms=600_000)
    case.act(lambda core: core.abort(0))
    case.until_records(1)
    case.rig.internet.cut(GATEWAY_ADDRESS)
    case.until_records(2)
    record = case.failed("timeout", then="resume", below_ms=2_000)
    assert record.stage == "tcp"
    case.rig.internet.mend(GATEWAY_ADDRESS)
    case.healed()
    assert case.handshakes == [[2], [6]]


def test_v06_hello_never_comes_again_and_again(case_of, profile):
    case = case_of(profile, heartbeat_interval_ms=600_000, session_ttl_ms=600_000)
    case.script("connect", "nothing", times=5)
    case.act(lambda core: core.abort(0))
    case.until_records(6, within_s=300)
    assert [record.reason for record in case.records()[1:]] == ["timeout"] * 5
    # Each attempt ends after ten seconds, and what follows comes later and later.
    assert case.view.recovery_step == 6
    case.healed()
    assert [talk.closed for talk in case.talks[1:6]] == [4000] * 5
    assert case.handshakes[-1] == [6]


def test_v08_a_reset_between_syn_ack_and_101(case_of, profile):
    case = case_of(profile)
    policy = case.rig.gateway.server.policy
    policy.silent = True
    case.act(lambda core: core.abort(0))
    stack = case.rig.gateway.server.stack
    case.until(lambda: case.row.state == S.STARTING and case.row.phase == 4)
    for connection in list(stack.connections.values()):
        if connection.remote[1] == case.row.tcp_local_port:
            connection.abort()
    case.until_records(2)
    policy.silent = False
    record = case.failed("network", then="resume", below_ms=2_000)
    assert record.stage == "ws"
    case.healed()
    assert case.handshakes == [[2], [6]]


HELLOS = {
    "without d": '{"op":10}',
    "without interval": '{"op":10,"d":{}}',
    "text": '{"op":10,"d":{"heartbeat_interval":"41250"}}',
    "zero": '{"op":10,"d":{"heartbeat_interval":0}}',
    "negative": '{"op":10,"d":{"heartbeat_interval":-1}}',
    "one": '{"op":10,"d":{"heartbeat_interval":1}}',
    "below a second": '{"op":10,"d":{"heartbeat_interval":999}}',
    "2**31": '{"op":10,"d":{"heartbeat_interval":2147483648}}',
    "2**32": '{"op":10,"d":{"heartbeat_interval":4294967296}}',
    "1e308": '{"op":10,"d":{"heartbeat_interval":1e308}}',
}


@pytest.mark.parametrize("name", sorted(HELLOS))
def test_v10_an_invalid_hello(case_of, name):
    case = case_of()
    case.script("connect", "send_raw", text=HELLOS[name])
    case.act(lambda core: core.abort(0))
    case.until_records(2)
    case.failed("protocol", then="identify", below_ms=2_000)
    case.healed()
    # No stale session is offered, and nothing was sent on the connection.
    assert case.handshakes == [[2], [], [2]]
    assert (case.talks[1].closed, case.talks[1].frames) == (4000, [])


def test_v10_invalid_hellos_end_at_the_third(case_of, profile):
    case = case_of(profile)
    case.script("connect", "send_raw", text=HELLOS["zero"], times=9)
    case.act(lambda core: core.abort(0))
    case.until_records(4)
    case.ended("protocol", "protocol_limit")
    assert case.handshakes == [[2], [], [], []]


def test_v11_an_interval_of_nothing_sends_no_flood(case_of, profile):
    case = case_of(profile, heartbeat_interval_ms=1_000)
    beats = len(case.talk.beats)
    case.run(30)
    assert 28 <= len(case.talk.beats) - beats <= 31
    assert min(gaps([at for at, _ in case.talk.beats])) > 0.9


def test_v12_one_wait_for_all_and_a_kept_answer(case_of):
    config = {"discovery": DiscoveryMode.HTTP, "path": "/gateway/bot"}
    case = case_of(shards=4, ready=False, noticed=True, config=config)
    case.core.answer_http(rate_limit(30), Reply(503))
    case.until_ready(90)

    def asked():
        return [e.at_ms for e in case.rig.gateway.events if e.name == "http"]

    assert len(asked()) == 3
    assert gaps(asked())[0] >= 30_000
    case.act(lambda core: core.restart())
    case.run(1)
    case.until_ready(60)
    assert len(asked()) == 3


def test_v13_eight_shards_identify_one_by_one(case_of):
    case = case_of(shards=8, config={"max_concurrency": 1}, ready=False)
    case.until_ready(60)
    assert 35 <= case.now < 40
    assert [s.identifies for s in case.rig.stats.shards] == [1] * 8
    assert case.rig.stats.identify_gate_refusals == 0


def test_v14_op_9_to_every_identify(case_of, profile):
    case = case_of(profile, shards=1, ready=False, config={"identify_allowance": 12})
    case.script("identify", "invalidate", times=100)
    case.until(lambda: case.row.hold == Hold.NO_IDENT_BUDGET, within_s=600)
    times = [talk.at(2) for talk in case.talks]
    assert len(times) == 12
    assert min(gaps(times)) >= 5
    assert [End(case.row.evidence_end), case.view.protocol_failures] == [End.INVALID_SESSION, 0]
    # Nothing more until the window of 24 hours is over.
    case.run(600)
    assert len(case.talks) == 12
    (said,) = [line for line in case.rig.node.log if line["code"] == "identify.spent"]
    assert (said["used"], said["allowance"]) == ("12", "12")


def test_the_paths_of_the_services():
    assert [path_of(each) for each in ProfileId] == ["/?v=10&encoding=json", "/?v=1&encoding=json"]
