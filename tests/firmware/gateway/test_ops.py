"""Opcodes: Hello and what it sets going, those that end a connection, and those that nobody knows."""

import json

import pytest

from firmware.layouts import gateway as layout
from firmware.layouts.config import CONFIG, IDENTIFY_FIELDS_MAX
from firmware.layouts.gateway import GatewayState
from firmware.layouts.profile import ProfileId
from firmware.layouts.shard import End, FailureFlag, ShardFlag
from firmware.limits import OUTBOUND_PAYLOAD_MAX, TOKEN_MAX
from tests.support.gateway_client import TOKEN, ready_data
from tests.support.gateway_states import LAB, client, failed_with, identified, ready
from tests.support.token import set_token


class TestHello:
    def test_identify_says_token_intents_and_shard(self):
        c = client()
        c.hello()
        assert c.sent() == [
            {
                "op": 2,
                "d": {
                    "token": TOKEN.decode(),
                    "intents": 513,
                    "properties": {"os": "shardfw", "browser": "shardfw", "device": "shardfw"},
                    "shard": [3, 16],
                },
            }
        ]
        assert c.gateway.state == GatewayState.WAIT_READY

    def test_identify_without_shards_sends_no_pair_and_expects_none(self):
        c = client()
        LAB.g(CONFIG).identify_shards = 0
        c.hello()
        (sent,) = c.sent()
        assert "shard" not in sent["d"]
        c.dispatch("READY", 1, ready_data(shard=...))
        assert c.gateway.state == GatewayState.READY
        assert c.shard.failure == End.NONE

    @pytest.mark.parametrize("pair", [0, 1])
    def test_identify_carries_what_is_configured(self, pair):
        c = client()
        fields, config = b',"presence":{"status":"idle"},"large_threshold":50', LAB.g(CONFIG)
        config.identify_shards = pair
        config.identify_fields[: len(fields)] = fields
        config.identify_fields_len = len(fields)
        c.hello()
        (sent,) = c.sent()
        assert sent["d"]["presence"] == {"status": "idle"}
        assert sent["d"]["large_threshold"] == 50
        assert ("shard" in sent["d"]) == pair

    def test_the_longest_identify_fits(self):
        c = client(shard=(65_534, 65_535))
        config = LAB.g(CONFIG)
        set_token(LAB, b"t" * TOKEN_MAX)
        config.intents = 2**32 - 1
        fields = b',"x":"' + b"y" * (IDENTIFY_FIELDS_MAX - 7) + b'"'
        config.identify_fields[:] = fields
        config.identify_fields_len = len(fields)
        c.hello()
        (sent,) = c.sent()
        assert len(sent["d"]["x"]) == IDENTIFY_FIELDS_MAX - 7
        assert len(json.dumps(sent, separators=(",", ":"))) <= OUTBOUND_PAYLOAD_MAX

    def test_identify_on_fluxer_has_no_intents(self):
        c = client()
        c.shard.profile = ProfileId.FLUXER
        c.hello()
        (sent,) = c.sent()
        assert sorted(sent["d"]) == ["properties", "shard", "token"]
        assert sent["d"]["token"] == TOKEN.decode()

    def test_resume_says_token_session_and_sequence(self):
        c = client()
        c.resumable(41)
        c.hello()
        assert c.sent() == [
            {
                "op": 6,
                "d": {"token": TOKEN.decode(), "session_id": "0123456789abcdef", "seq": 41},
            }
        ]
        assert c.gateway.state == GatewayState.WAIT_RESUMED
        assert c.shard.phase_deadline == c.now + 20_000 * 1000

    @pytest.mark.parametrize("lacks", ["valid", "flags"])
    def test_half_a_session_is_identified(self, lacks):
        c = client()
        c.resumable()
        if lacks == "valid":
            c.shard.session.valid = 2
        else:
            c.shard.flags = ShardFlag.ESTABLISHED
        c.hello()
        assert c.sent()[0]["op"] == 2
        assert not c.shard.flags & ShardFlag.SEQ_VALID

    @pytest.mark.parametrize("interval", [1000, 41_250, 2_147_483_647])
    def test_interval_starts_the_schedule_inside_the_first_interval(self, interval):
        c = client()
        c.hello(interval)
        assert c.gateway.heartbeat_interval_ms == interval
        assert c.gateway.interval_cycles == interval * 1000
        assert c.now <= c.gateway.hb_next < c.now + interval * 1000

    def test_jitter_differs(self):
        times = set()
        c = client()
        for _ in range(4):
            c.gateway.state = GatewayState.WAIT_HELLO
            c.hello()
            times.add(c.gateway.hb_next)
        assert len(times) == 4

    @pytest.mark.parametrize("interval", [0, 999, 2**31, -1, 1.5, "41250", None, True, [41250]])
    def test_bad_interval_is_an_anomaly(self, interval):
        c = client()
        c.hello(interval)
        failed_with(c, layout.HELLO_INTERVAL)
        assert c.sent() == []

    def test_hello_without_data_is_an_anomaly(self):
        c = client()
        c.receive({"op": 10})
        failed_with(c, layout.HELLO_INTERVAL)

    def test_second_hello_is_an_anomaly(self):
        c = identified()
        c.hello()
        failed_with(c, layout.SECOND_HELLO)

    def test_without_room_the_tick_identifies(self):
        c = client()
        c.stream.fill(left=10)
        c.hello()
        assert c.gateway.state == GatewayState.ANSWER
        c.tick()
        assert c.gateway.state == GatewayState.ANSWER
        c.stream.take_sent()
        c.tick()
        assert [m["op"] for m in c.sent()] == [2]
        assert c.gateway.state == GatewayState.WAIT_READY

    def test_without_room_the_tick_resumes(self):
        c = client()
        c.resumable()
        c.stream.fill(left=10)
        c.hello()
        assert c.gateway.state == GatewayState.ANSWER
        c.stream.take_sent()
        c.tick()
        assert [m["op"] for m in c.sent()] == [6]


class TestOpcodes:
    @pytest.mark.parametrize("op", [2, 3, 4, 5, 6, 8, 12, 31, 99, 4294967295])
    def test_unknown_opcode_is_counted_and_ignored(self, op):
        c = ready()
        c.receive({"op": op, "d": {"x": 1}})
        assert c.gateway.unknown_ops == 1
        assert c.shard.failure == End.NONE

    @pytest.mark.parametrize("message", [b"{}", b'{"op":null}', b'{"op":"0"}', b'{"op":-1}'])
    def test_no_opcode_is_an_anomaly(self, message):
        c = ready()
        c.receive(message)
        failed_with(c, layout.OP_MISSING)

    @pytest.mark.parametrize("before", ["hello", "ready"])
    def test_op_7_keeps_the_session(self, before):
        c = client() if before == "hello" else ready()
        c.receive({"op": 7, "d": None})
        failed_with(c, layout.RECONNECT, end=End.RECONNECT_REQUESTED, flags=0)

    @pytest.mark.parametrize(
        ("data", "flags", "close"),
        [(True, 0, 4000), (False, 1, 1000), (None, 1, 1000), ("true", 1, 1000), (..., 1, 1000)],
    )
    def test_op_9_keeps_the_session_only_for_true(self, data, flags, close):
        c = ready()
        c.receive({"op": 9} if data is ... else {"op": 9, "d": data})
        failed_with(c, layout.SESSION_INVALID, end=End.INVALID_SESSION, flags=flags, close=close)
        assert c.shard.last_error & 1 == (data is True)

    @pytest.mark.parametrize(
        ("before", "profile", "kept"),
        [
            (0, ProfileId.DISCORD, 1),
            (1, ProfileId.DISCORD, 1),
            (2, ProfileId.DISCORD, 0),
            (255, ProfileId.DISCORD, 0),
            (0, ProfileId.FLUXER, 0),
        ],
    )
    def test_op_9_true_keeps_the_session_twice_in_a_row_on_discord(self, before, profile, kept):
        c = ready()
        c.shard.resumable_invalid, c.shard.profile = before, profile
        c.receive({"op": 9, "d": True})
        assert c.shard.resumable_invalid == before + kept
        assert c.shard.failure_flags == (0 if kept else FailureFlag.RESET_SESSION)

    def test_nothing_counts_after_the_first_failure(self):
        c = ready()
        c.receive({"op": 7}, {"op": 0, "s": 99, "t": "X"}, {"op": 9, "d": False})
        failed_with(c, layout.RECONNECT, end=End.RECONNECT_REQUESTED, flags=0)
        assert c.shard.sequence == 1
