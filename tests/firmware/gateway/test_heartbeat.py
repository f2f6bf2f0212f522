"""Heartbeats, ACKs, the zombie verdict, and the deadlines of Hello and Resume."""

import pytest

from firmware.gateway.poll import gateway_poll
from firmware.gateway.timers import gateway_tick
from firmware.layouts import gateway as layout
from firmware.layouts.gateway import LATENCY_UNKNOWN, GatewayFlag, GatewayState
from firmware.layouts.log import LOG, LOG_RING
from firmware.layouts.log_line import Level
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.shard import End
from firmware.layouts.websocket import WsState
from tests.support.gateway_client import CYCLES_PER_MS, START, GatewayClient, ready_data
from tests.support.lab import Lab
from tests.support.stream import server_frame

LAB = Lab(gateway_poll, gateway_tick)
INTERVAL = 40_000
ACK = {"op": 11}


def beating(*, sequence=5):
    """Return a READY client whose first beat is due right now."""
    c = GatewayClient(LAB)
    c.hello(INTERVAL)
    c.dispatch("READY", sequence, ready_data())
    c.gateway.hb_next = c.now
    c.sent()
    return c


class TestSchedule:
    def test_idle_has_no_deadline_until_the_websocket_is_open(self):
        c = GatewayClient(LAB)
        c.shard.websocket.state = WsState.HANDSHAKE
        assert c.tick() == -1
        assert c.gateway.state == GatewayState.IDLE
        c.shard.websocket.state = WsState.OPEN
        assert c.tick() == 10_000
        assert c.gateway.state == GatewayState.WAIT_HELLO

    def test_first_beat_comes_at_the_random_point(self):
        c = GatewayClient(LAB)
        c.hello(INTERVAL)
        c.sent()
        due = (c.gateway.hb_next - c.now) / CYCLES_PER_MS
        c.tick()
        assert c.sent() == []
        c.wait(due + 1)
        c.tick()
        assert c.sent() == [{"op": 1, "d": None}], "no sequence yet"

    def test_beat_carries_the_sequence_and_the_schedule_is_fixed(self):
        c = beating()
        first = c.gateway.hb_next
        for n in range(1, 4):
            c.tick()
            assert c.sent() == [{"op": 1, "d": 5}]
            assert c.gateway.hb_next == first + n * INTERVAL * CYCLES_PER_MS
            c.receive(ACK)
            assert c.tick() == INTERVAL - (c.now - first) // CYCLES_PER_MS % INTERVAL
            c.wait(INTERVAL)
        assert c.gateway.beats == 3
        assert c.gateway.acks == 3

    def test_resuming_beats_carry_the_sequence_of_before(self):
        c = GatewayClient(LAB)
        c.resumable(41)
        c.hello(INTERVAL)
        c.sent()
        c.gateway.hb_next = c.now
        c.tick()
        assert c.sent() == [{"op": 1, "d": 41}]

    def test_after_a_stall_the_schedule_starts_again_from_now(self):
        c = beating()
        c.wait(5 * INTERVAL)
        c.tick()
        assert c.gateway.hb_next == c.now + INTERVAL * CYCLES_PER_MS

    def test_exactly_one_interval_late_starts_again_too(self):
        c = beating()
        c.wait(INTERVAL)
        c.tick()
        assert c.gateway.hb_next == c.now + INTERVAL * CYCLES_PER_MS

    def test_without_room_the_beat_stays_due(self):
        c = beating()
        c.stream.fill(left=3)
        assert c.tick() == INTERVAL
        assert c.gateway.hb_next == c.now
        assert c.gateway.beats == 0
        assert c.gateway.flags == GatewayFlag.BEAT_OWED
        c.stream.take_sent()
        c.tick()
        assert [m["op"] for m in c.sent()] == [1]

    @pytest.mark.parametrize(("late", "dead"), [(INTERVAL - 1, False), (INTERVAL, True)])
    def test_a_beat_without_room_for_one_interval_is_the_end(self, late, dead):
        c = beating()
        c.stream.fill(left=3)
        c.tick()
        c.receive(ACK)  # of nothing: it proves no room
        c.wait(late)
        c.tick()
        context = c.shard
        assert (context.failure == End.SEND_FAILED) == dead
        assert context.hb_misses == 0
        if dead:
            assert (context.failure_close, context.failure_flags) == (4000, 0)
            assert context.last_error == layout.BEAT_UNSENT.code

    def test_a_beat_that_got_its_room_keeps_the_schedule(self):
        c = beating()
        first = c.gateway.hb_next
        c.stream.fill(left=3)
        c.tick()
        c.wait(INTERVAL - 1)
        c.stream.take_sent()
        assert c.tick() == 1
        assert c.sent() == [{"op": 1, "d": 5}]
        assert c.gateway.hb_next == first + INTERVAL * CYCLES_PER_MS

    def test_a_failed_shard_has_no_timers(self):
        c = beating()
        c.shard.failure = End.CLOSED
        assert c.tick() == -1
        assert c.sent() == []

    def test_an_interval_alone_is_no_schedule(self):
        c = beating()
        c.gateway.hb_next = 0
        assert c.tick() == -1
        assert c.sent() == []

    def test_without_anything_set_there_is_no_deadline(self):
        c = GatewayClient(LAB)
        c.gateway.state = GatewayState.READY
        assert c.tick() == -1


class TestFarTimes:
    """The counter stands where a signed number would turn."""

    @pytest.mark.parametrize("now", [2**63 - 1, 2**63, 2**63 + 1])
    @pytest.mark.parametrize("due", [-1, 0, 1])
    @pytest.mark.parametrize("pending", [False, True])
    def test_beats_and_deadlines_have_no_sign(self, now, due, pending):
        c = beating()
        LAB.g(CORE).now = now
        c.gateway.hb_next = now + due
        c.gateway.interval_cycles = 2
        c.gateway.hb_sent_at = now - 1
        c.gateway.flags = GatewayFlag.ACK_PENDING if pending else 0
        LAB.call(gateway_tick, shard=c.at)
        assert (c.sent() == []) == (due > 0 or pending)
        assert c.shard.failure == End.NONE

    @pytest.mark.parametrize("now", [2**63 - 1, 2**63, 2**63 + 1])
    @pytest.mark.parametrize("late", [-1, 0, 1])
    def test_hello_is_overdue_without_a_sign(self, now, late):
        c = GatewayClient(LAB)
        c.gateway.state = GatewayState.WAIT_HELLO
        LAB.g(CORE).now, c.shard.phase_deadline = now, now - late
        LAB.call(gateway_tick, shard=c.at)
        assert c.shard.failure == (End.TIMEOUT if late >= 0 else End.NONE)

    @pytest.mark.parametrize("beat", [2**63 - 2, 2**63, 2**63 + 2])
    def test_the_earlier_deadline_has_no_sign(self, beat):
        c = beating()
        LAB.g(CORE).now = 2**63 - 10
        c.gateway.interval_cycles, c.gateway.hb_sent_at = 9, 2**63 - 10
        c.gateway.flags, c.gateway.hb_next = GatewayFlag.ACK_PENDING, beat
        deadline = LAB.call(gateway_tick, shard=c.at).outputs["rax"]
        assert deadline == min(beat, 2**63 - 1)

    def test_a_beat_without_room_for_half_the_counter_is_the_end(self):
        c = beating()
        c.stream.fill(left=3)
        c.gateway.hb_next, LAB.g(CORE).now = 5, 2**63 + 5
        c.tick()
        assert c.shard.failure == End.SEND_FAILED

    def test_an_ack_that_is_owed_for_half_the_counter_is_missed(self):
        c = beating()
        c.gateway.hb_sent_at, c.gateway.flags = c.now - 2**63 & 2**64 - 1, GatewayFlag.ACK_PENDING
        c.tick()
        assert c.shard.failure == End.HEARTBEAT_TIMEOUT


class TestAck:
    @pytest.mark.parametrize("latency", [0, 1, 250, 10_000, 10_001, 39_999, 2**31])
    def test_ack_gives_the_latency(self, latency):
        c = beating()
        LAB.g(LOG).level = Level.WARN
        assert c.gateway.latency_ms == LATENCY_UNKNOWN
        c.tick()
        c.wait(latency)
        c.receive(ACK)
        assert c.gateway.latency_ms == latency
        assert c.gateway.last_ack_at == c.now
        assert c.gateway.last_frame_at == c.now
        assert said() == [f"gateway.heartbeatLate durationMs={latency}"] * (latency > 10_000)

    def test_an_ack_leaves_what_else_is_owed(self):
        c = beating()
        c.gateway.flags = GatewayFlag.ACK_PENDING | GatewayFlag.BEAT_OWED
        c.receive(ACK)
        assert c.gateway.flags == GatewayFlag.BEAT_OWED

    def test_unasked_ack_is_ignored(self):
        c = beating()
        c.receive(ACK)
        assert (c.gateway.acks, c.gateway.last_ack_at) == (0, 0)

    def test_without_a_clock_there_is_no_latency(self):
        c = beating()
        c.tick()
        LAB.g(CLOCK).tsc_cycles_per_ms = 0
        c.receive(ACK)
        assert c.gateway.acks == 1
        assert c.gateway.latency_ms == LATENCY_UNKNOWN


class TestZombie:
    def test_deadline_of_the_verdict_is_one_interval_after_the_beat(self):
        c = beating()
        assert c.tick() == INTERVAL

    @pytest.mark.parametrize(("waited", "dead"), [(INTERVAL - 1, False), (INTERVAL, True)])
    def test_missing_ack_after_one_interval_is_dead(self, waited, dead):
        c = beating()
        c.tick()
        c.wait(waited)
        c.tick()
        context = c.shard
        assert (context.failure == End.HEARTBEAT_TIMEOUT) == dead
        assert context.hb_misses == dead
        if dead:
            assert (context.failure_close, context.failure_flags) == (4000, 0)
            assert context.last_error == layout.ZOMBIE.code
            assert len(c.sent()) == 1, "no beat follows the verdict"

    def test_other_traffic_does_not_replace_the_ack(self):
        c = beating()
        c.tick()
        c.wait(INTERVAL)
        c.dispatch("MESSAGE_CREATE", 6)
        c.tick()
        assert c.shard.failure == End.HEARTBEAT_TIMEOUT

    def test_late_ack_before_the_verdict_is_accepted(self):
        c = beating()
        c.tick()
        c.wait(INTERVAL)
        c.receive(ACK)
        c.tick()
        assert c.shard.failure == End.NONE

    def test_misses_add_up(self):
        c = beating()
        c.shard.hb_misses = 4
        c.tick()
        c.wait(INTERVAL)
        c.tick()
        assert c.shard.hb_misses == 5


class TestServerAsks:
    def test_op_1_is_answered_at_once_and_the_schedule_stays(self):
        c = beating()
        c.gateway.hb_next = scheduled = c.now + 1000
        c.receive({"op": 1, "d": None})
        assert c.sent() == [{"op": 1, "d": 5}]
        assert c.gateway.hb_next == scheduled
        assert c.gateway.flags & GatewayFlag.ACK_PENDING

    def test_five_requests_give_five_beats(self):
        c = beating()
        c.receive(*[{"op": 1, "d": None}] * 5)
        assert c.sent() == [{"op": 1, "d": 5}] * 5

    def test_op_1_while_an_ack_is_pending_does_not_restart_the_wait(self):
        c = beating()
        c.tick()
        sent_at = c.gateway.hb_sent_at
        c.wait(1000)
        c.receive({"op": 1, "d": None})
        assert c.gateway.hb_sent_at == sent_at

    def test_forced_beat_does_not_shorten_the_wait_of_the_scheduled_one(self):
        c = beating()
        c.gateway.hb_next = c.now + 10_000 * CYCLES_PER_MS
        c.receive({"op": 1, "d": None})
        c.sent()
        c.wait(10_000)
        c.tick()
        assert c.sent() == [], "the pending beat stands for the scheduled one"
        assert c.shard.failure == End.NONE
        c.wait(INTERVAL - 10_000)
        c.tick()
        assert c.shard.failure == End.HEARTBEAT_TIMEOUT

    def test_op_1_without_room_is_owed_and_paid(self):
        c = beating()
        c.gateway.hb_next = c.now + 10**6
        c.stream.fill(left=2)
        c.receive({"op": 1, "d": None})
        assert c.gateway.flags == GatewayFlag.BEAT_OWED
        c.stream.take_sent()
        c.tick()
        assert c.sent() == [{"op": 1, "d": 5}]
        assert c.gateway.flags == GatewayFlag.ACK_PENDING

    def test_op_1_before_hello_is_ignored(self):
        c = GatewayClient(LAB)
        c.receive({"op": 1, "d": None})
        assert c.sent() == []
        assert c.gateway.unknown_ops == 1


class TestDeadlines:
    @pytest.mark.parametrize(("waited", "late"), [(9_999, False), (10_000, True)])
    def test_hello_is_awaited_for_ten_seconds(self, waited, late):
        c = GatewayClient(LAB)
        c.tick()
        c.wait(waited)
        c.tick()
        assert (c.shard.failure == End.TIMEOUT) == late
        if late:
            assert c.shard.last_error == layout.HELLO_TIMEOUT.code
            assert (c.shard.failure_close, c.shard.failure_flags) == (4000, 0)

    @pytest.mark.parametrize(("waited", "late"), [(19_999, False), (20_000, True)])
    def test_resumed_is_awaited_for_twenty_seconds(self, waited, late):
        c = GatewayClient(LAB)
        c.resumable()
        c.hello(INTERVAL)
        c.gateway.hb_next = START + 10**12
        assert c.tick() == 20_000
        c.wait(waited)
        c.tick()
        assert (c.shard.failure == End.TIMEOUT) == late
        if late:
            assert c.shard.last_error == layout.RESUME_TIMEOUT.code

    def test_ready_is_awaited_by_the_attempt_alone(self):
        c = GatewayClient(LAB)
        c.tick()
        c.hello(INTERVAL)
        assert c.shard.phase_deadline == 0


def said():
    ring = LAB.machine.read(LAB.image.address(LOG_RING), LAB.g(LOG).head).decode()
    return [line.split(" code=")[1] for line in ring.splitlines()]


class TestLines:
    def test_every_message_has_a_line_at_trace(self):
        c = beating(sequence=5)
        LAB.g(LOG).level = Level.TRACE
        c.tick()
        c.wait(12.5)
        c.receive(ACK)
        c.dispatch("TYPING_START", 6, {"content": "only-in-a-body"})
        assert said() == [
            "gateway.send opcode=1 bytes=14",
            "gateway.receive opcode=11 bytes=10",
            "gateway.heartbeatAck durationMs=12",
            "gateway.receive opcode=0 bytes=74",
            "gateway.dispatch dispatch=TYPING_START sequence=6 bytes=74",
        ]

    @pytest.mark.parametrize(
        ("level", "codes"),
        [(Level.DEBUG, ["gateway.dispatch", "gateway.unknownOpcode"]), (Level.INFO, [])],
    )
    def test_above_trace_only_what_the_level_says(self, level, codes):
        c = beating(sequence=5)
        LAB.g(LOG).level = level
        c.tick()
        c.receive(ACK)
        c.dispatch("TYPING_START", 6)
        c.receive({"op": 12})
        assert [line.split()[0] for line in said()] == codes

    def test_a_message_in_parts_has_all_its_bytes(self):
        c = beating(sequence=5)
        LAB.g(LOG).level = Level.DEBUG
        data = server_frame(1, b'{"t":"X","s":6,"op":0,"d":{}}')
        for n in range(0, len(data), 7):
            c.raw(data[n : n + 7])
        assert said() == ["gateway.dispatch dispatch=X sequence=6 bytes=29"]
