"""Scripted trouble acts when it should, once, and on the right connection."""

import re

import pytest

from pxe.gateway import Abort, Close, GatewayOptions, HangUp, Step, Wire, parse_script
from pxe.gateway.script import COMMANDS


class TestActing:
    def test_close_after_so_many_dispatches_of_one_shard(self, bench):
        step = Step(on="ready", shard=1, after_dispatches=2, do="kick", code=4000)
        b = bench(shards=2, max_concurrency=2, script=(step,))
        zero, one = b.ready(0), b.ready(1)
        for shard in (0, 1, 0, 1):
            assert (zero.end, one.end) == (None, None)
            b.gateway.dispatch(shard, "A", {})
            b.pump()
        assert zero.end is None
        assert one.end == Close(4000, "Unknown error")
        assert one.events() == [("READY", 1), ("A", 2), ("A", 3)]

    def test_op_7_in_place_of_hello(self, bench):
        b = bench(script=(Step(on="connect", do="reconnect", instead=True),))
        assert b.connect().ops() == [7]
        assert b.connect().ops() == [10]

    def test_steps_added_later_count_from_then_on(self, bench):
        b = bench(script=(Step(on="connect", do="nothing", instead=True, skip=1),))
        assert b.connect().ops() == [10]
        b.gateway.add_steps(Step(on="connect", do="reconnect", instead=True, skip=1))
        assert [b.connect().ops() for _ in range(3)] == [[], [7], [10]]

    def test_hello_withheld(self, bench):
        assert bench(script=(Step(on="connect", do="nothing", instead=True),)).connect().ops() == []

    def test_identify_unanswered(self, bench):
        client = bench(script=(Step(on="identify", do="nothing", instead=True),)).connect()
        client.identify()
        assert client.ops() == [10]

    def test_op_9_in_place_of_ready(self, bench):
        step = Step(on="identify", do="invalidate", resumable=True, instead=True)
        client = bench(script=(step,)).connect()
        client.identify()
        assert client.messages[-1]["d"] is True
        assert client.ops() == [10, 9]

    def test_resume_cut_off_by_reset(self, bench):
        b = bench(script=(Step(on="resume", do="abort", instead=True),))
        client = b.ready()
        client.connection.lost()
        again = b.connect()
        again.resume(client.ready()["session_id"], 1)
        assert again.end == Abort()
        third = b.connect()
        third.resume(client.ready()["session_id"], 1)
        assert third.events() == [("RESUMED", 1)]

    def test_heartbeat_without_ack(self, bench):
        b = bench(script=(Step(on="heartbeat", do="nothing", instead=True, times=2),))
        client = b.ready()
        for _ in range(3):
            client.send(1, 1)
        assert client.ops() == [10, 0, 11]
        assert (b.stats().heartbeats, b.stats().acks) == (3, 1)

    def test_after_some_time(self, bench):
        b = bench(script=(Step(on="ready", after_ms=5_000, do="reconnect"),))
        client = b.ready()
        b.advance(4_999)
        assert client.ops() == [10, 0]
        b.advance(1)
        assert client.ops() == [10, 0, 7]

    def test_time_and_dispatches_must_both_be_over(self, bench):
        step = Step(on="ready", after_ms=1_000, after_dispatches=1, do="reconnect")
        b = bench(script=(step,))
        client = b.ready()
        b.advance(2_000)
        assert 7 not in client.ops()
        b.gateway.dispatch(0, "A", {})
        b.pump()
        assert client.ops() == [10, 0, 0, 7]

    def test_stall_at_heartbeat(self, bench):
        client = bench(script=(Step(on="heartbeat", do="stall"),)).ready()
        client.send(1, 1)
        client.send(1, 1)
        assert client.ops() == [10, 0]

    def test_malformed_text_after_resumed(self, bench):
        b = bench(script=(Step(on="resumed", do="send_raw", text='{"op":10}'),))
        client = b.ready()
        client.connection.lost()
        again = b.connect()
        again.resume(client.ready()["session_id"], 1)
        assert again.messages[-1] == {"op": 10}

    def test_dispatch_and_heartbeat_request(self, bench):
        b = bench(
            script=(
                Step(on="ready", do="dispatch", event="X", data={"a": 1}),
                Step(on="ready", do="request_heartbeat"),
            )
        )
        client = b.ready()
        assert client.events() == [("READY", 1), ("X", 2)]
        assert client.ops() == [10, 0, 0, 1]

    def test_step_acts_as_often_as_it_says(self, bench):
        b = bench(script=(Step(on="connect", do="kick", code=1001, times=2),))
        assert [b.connect().code for _ in range(3)] == [1001, 1001, None]

    def test_skipped_triggers_do_not_count(self, bench):
        steps = (
            Step(on="connect", do="kick", code=4000),
            Step(on="connect", do="abort", skip=2),
        )
        b = bench(script=steps)
        ends = [b.connect().end for _ in range(4)]
        assert ends == [Close(4000, "Unknown error"), None, Abort(), None]

    def test_stall_and_release_after_some_time(self, bench):
        steps = (
            Step(on="heartbeat", do="stall"),
            Step(on="heartbeat", after_ms=3_000, do="release"),
        )
        b = bench(script=steps)
        client = b.ready()
        client.send(1, 1)
        client.send(1, 1)
        b.advance(2_999)
        assert client.ops() == [10, 0]
        b.advance(1)
        assert client.ops() == [10, 0, 11, 11]

    def test_step_armed_on_a_lost_connection_waits_for_the_next(self, bench):
        step = Step(on="ready", after_dispatches=1, do="kick", code=4001)
        b = bench(script=(step,), identify_interval_ms=0)
        b.ready().connection.lost(1000)
        client = b.ready()
        b.gateway.dispatch(0, "A", {})
        b.pump()
        assert client.code == 4001

    def test_bytes_past_the_websocket_layer_and_the_end_of_the_stream(self, bench):
        steps = (
            Step(on="ready", do="send_bytes", hex="8900", one_by_one=True),
            Step(on="ready", do="hang_up"),
            Step(on="ready", do="send_bytes", hex="8900"),
        )
        b = bench(script=steps)
        client = b.connect()
        client.identify()
        assert client.wire == [Wire(b"\x89\x00", one_by_one=True)]
        assert client.end == HangUp()
        assert b.stats().closes == {"hang_up": 1}

    def test_a_step_at_connect_acts_at_its_door_alone(self, bench):
        step = Step(on="connect", shard=1, do="kick", code=1000)
        b = bench(shards=2, script=(step,), doors=True)
        assert [b.connect(door=door).code for door in (None, 0, 1, 1)] == [None, None, 1000, None]
        assert b.stats(1).closes == {"1000": 1}

    @pytest.mark.parametrize("command", COMMANDS)
    def test_every_command_acts(self, bench, command):
        b = bench(script=(Step(on="ready", do=command, text="{}"),))
        b.connect().identify()
        assert [e.fields["do"] for e in b.events if e.name == "script"] == [command]


class TestRefusals:
    @pytest.mark.parametrize(
        ("row", "message"),
        [
            ({"on": "redy", "do": "kick"}, "step 1: on is 'redy': give one of connect, identify"),
            ({"on": "ready", "do": "kik"}, "step 1: do is 'kik': give one of kick, reconnect"),
            ({"do": "kick"}, "step 1: 'on' is missing: every step has on and do"),
            (
                {"on": "ready", "do": "kick", "cod": 1},
                "step 1: unknown key 'cod': the keys are on, do",
            ),
            (
                {"on": "ready", "do": "kick", "code": "4000"},
                "step 1: code is '4000': give a value of type int",
            ),
            (
                {"on": "ready", "do": "kick", "shard": True},
                "step 1: shard is True: give a value of type int",
            ),
            (
                {"on": "ready", "do": "send_bytes", "hex": "8"},
                "step 1: hex is '8': give two hexadecimal digits for each byte",
            ),
            (
                {"on": "ready", "do": "kick", "instead": True},
                "instead cannot be used with on = 'ready': ready has already been sent",
            ),
            (
                {"on": "resume", "do": "kick", "instead": True, "after_ms": 1},
                "instead cannot be used with after_dispatches or after_ms: it acts at once",
            ),
        ],
    )
    def test_wrong_step_says_what_to_write(self, row, message):
        with pytest.raises(ValueError, match=re.escape(message)):
            parse_script([row])

    def test_a_shard_is_known_at_connect_only_at_its_door(self):
        step = Step(on="connect", do="kick", shard=1)
        with pytest.raises(ValueError, match="the shard is known from Identify on, or at its door"):
            GatewayOptions(shards=2, script=(step,))
        assert GatewayOptions(shards=2, script=(step,), doors=True).script == (step,)

    def test_number_of_the_wrong_step_is_named(self):
        good = {"on": "ready", "do": "abort"}
        with pytest.raises(ValueError, match=r"^step 3: on is 'x'"):
            parse_script([good, good, {"on": "x", "do": "abort"}])

    def test_good_rows_become_steps(self):
        row = {"on": "ready", "do": "kick", "code": 4009, "shard": 3, "after_dispatches": 10}
        assert parse_script([row]) == (
            Step(on="ready", do="kick", code=4009, shard=3, after_dispatches=10),
        )
