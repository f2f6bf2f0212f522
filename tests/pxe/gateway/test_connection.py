"""The upgrade, payloads, limits and heartbeats, without sockets and without real time."""

import json
import zlib

import pytest

from pxe.gateway import Close

NOT_JSON = ["", "{", "[1", '{"op":1,"d":NaN}', '{"op":1,"d":null}x', b"\xff\xfe", "1" + "[" * 3000]
WRONG_SHAPE = ["[]", "1", "null", '"op"']
UNKNOWN_OPS = [
    '{"op":0,"d":null}',
    '{"op":5,"d":null}',
    '{"op":7,"d":null}',
    '{"op":99,"d":null}',
    '{"op":true,"d":null}',
    '{"op":"1","d":null}',
    '{"d":null}',
]
NEEDS_SESSION = [3, 4, 8, 31, 43]


class TestUpgrade:
    def test_hello_comes_first_with_the_interval(self, bench):
        client = bench(heartbeat_interval_ms=1234).connect()
        assert client.messages[0]["op"] == 10
        assert client.messages[0]["d"]["heartbeat_interval"] == 1234
        assert client.messages[0]["s"] is None

    def test_missing_user_agent_closes_4002_without_hello(self, bench):
        client = bench().connect(user_agent=None)
        assert client.end == Close(4002, "User-Agent header is missing")
        assert client.messages == []

    def test_missing_user_agent_is_taken_when_it_is_not_required(self, bench):
        assert bench(require_user_agent=False).connect(user_agent=None).ops() == [10]

    @pytest.mark.parametrize(
        "target",
        ["/", "/?v=9&encoding=json", "/?encoding=json", "/?v=10", "/?v=10&encoding=etf"],
    )
    def test_other_version_or_encoding_closes_4012(self, bench, target):
        assert bench().connect(target).code == 4012

    def test_unknown_compression_closes_4012_and_names_the_known(self, bench):
        client = bench().connect("/?v=10&encoding=json&compress=zstd-stream")
        assert client.end == Close(4012, "Unknown compression: use zlib-stream or none")

    def test_zlib_stream_is_one_stream_of_flushed_messages(self, bench):
        b = bench()
        connection = b.gateway.open(
            "/?v=10&encoding=json&compress=zlib-stream", user_agent="x", host="h"
        )
        actions = connection.drain() + connection.receive('{"op":1,"d":null}')
        inflate = zlib.decompressobj()
        assert all(action.data.endswith(b"\x00\x00\xff\xff") for action in actions)
        texts = [inflate.decompress(action.data) for action in actions]
        assert [json.loads(text)["op"] for text in texts] == [10, 11]

    def test_zlib_stream_keeps_its_context_between_messages(self, bench):
        b = bench()
        target = "/?v=10&encoding=json&compress=zlib-stream"
        connection = b.gateway.open(target, user_agent="x", host="h")
        connection.drain()
        text = '{"op":1,"d":null}'
        first, second = (connection.receive(text)[0].data for _ in range(2))
        assert len(second) < len(first)


class TestEnvelope:
    @pytest.mark.parametrize(
        ("order", "keys"),
        [
            ("discord", ["t", "s", "op", "d"]),
            ("op_first", ["op", "t", "s", "d"]),
            ("body_first", ["d", "op", "s", "t"]),
        ],
    )
    def test_order_of_keys_is_as_asked(self, bench, order, keys):
        client = bench(envelope=order).ready()
        assert all(list(message) == keys for message in client.messages)


class TestPayloads:
    @pytest.mark.parametrize("payload", NOT_JSON)
    def test_not_json_closes_4002(self, bench, payload):
        client = bench().connect()
        client.send_raw(payload)
        assert client.code == 4002

    @pytest.mark.parametrize("payload", WRONG_SHAPE)
    def test_not_an_object_closes_4002(self, bench, payload):
        client = bench().connect()
        client.send_raw(payload)
        assert client.end == Close(4002, "A payload is a JSON object")

    @pytest.mark.parametrize("payload", UNKNOWN_OPS)
    def test_unknown_opcode_closes_4001(self, bench, payload):
        client = bench().connect()
        client.send_raw(payload)
        assert client.code == 4001

    @pytest.mark.parametrize("op", NEEDS_SESSION)
    def test_command_before_identify_closes_4003(self, bench, op):
        client = bench().connect()
        client.send(op, {})
        assert client.code == 4003

    @pytest.mark.parametrize("op", [3, 4, 31, 43])
    def test_command_after_identify_is_taken(self, bench, op):
        client = bench().ready()
        client.send(op, {})
        assert client.end is None

    @pytest.mark.parametrize("op", [3, 4, 8, 31, 43])
    def test_command_is_told_and_counted(self, bench, op):
        b = bench(shards=2)
        client = b.ready(1)
        client.send(op, {"guild_id": "7", "é": [1, None]})
        told = [event for event in b.events if event.name == "command"]
        assert [(event.shard, event.fields) for event in told] == [
            (1, {"op": op, "d": '{"guild_id":"7","é":[1,null]}'})
        ]
        assert (b.stats(0).commands, b.stats(1).commands) == (0, 1)

    def test_heartbeats_are_no_commands(self, bench):
        b = bench()
        b.ready().send(1, None)
        assert b.stats().commands == 0
        assert "command" not in [event.name for event in b.events]

    def test_member_request_is_answered_with_its_nonce(self, bench):
        client = bench().ready()
        client.send(8, {"guild_id": "7", "nonce": "n"})
        chunk = client.messages[-1]
        assert (chunk["t"], chunk["d"]["guild_id"], chunk["d"]["nonce"]) == (
            "GUILD_MEMBERS_CHUNK",
            "7",
            "n",
        )

    @pytest.mark.parametrize(("size", "code"), [(4096, None), (4097, 4002)])
    def test_payload_may_have_4096_bytes(self, bench, size, code):
        client = bench().connect()
        text = '{"op":1,"d":null,"pad":""}'
        client.send_raw(text.replace('""', '"' + "x" * (size - len(text)) + '"'))
        assert client.code == code

    def test_size_counts_bytes_not_characters(self, bench):
        client = bench().connect()
        client.send_raw('{"op":1,"d":null,"pad":"' + "é" * 2100 + '"}')
        assert client.end == Close(4002, "Payload exceeds 4096 bytes")

    def test_binary_json_is_taken(self, bench):
        client = bench().connect()
        client.send_raw(b'{"op":1,"d":null}')
        assert client.ops() == [10, 11]

    @pytest.mark.parametrize("payload", ['{"op":1}', '{"op":1,"d":"5"}', '{"op":1,"d":true}'])
    def test_wrong_heartbeat_body_closes_4002(self, bench, payload):
        client = bench().connect()
        client.send_raw(payload)
        assert client.end == Close(4002, "d of opcode 1 has the wrong type")

    def test_input_after_the_close_is_ignored(self, bench):
        client = bench().connect()
        client.send_raw("{")
        client.send(1, None)
        assert client.ops() == [10]


class TestRateLimit:
    def test_message_121_within_60_s_closes_4008(self, bench):
        b = bench()
        client = b.connect()
        for _ in range(120):
            client.send(1, None)
        assert client.end is None
        client.send(1, None)
        assert client.code == 4008

    def test_window_rolls(self, bench):
        b = bench()
        client = b.connect()
        for _ in range(120):
            client.send(1, None)
        b.clock.advance(60_000)
        client.send(1, None)
        assert client.end is None

    def test_one_ms_before_the_window_has_rolled_closes_4008(self, bench):
        b = bench()
        client = b.connect()
        for _ in range(120):
            client.send(1, None)
        b.clock.advance(59_999)
        client.send(1, None)
        assert client.code == 4008

    @pytest.mark.parametrize("payload", ["{", '{"op":99,"d":null}'])
    def test_session_survives_a_malformed_message(self, bench, payload):
        b = bench()
        client = b.ready()
        client.send_raw(payload)
        again = b.connect()
        again.resume(client.ready()["session_id"], 1)
        assert again.events() == [("RESUMED", 1)]

    def test_session_survives_4008(self, bench):
        b = bench()
        client = b.ready()
        for _ in range(120):
            client.send(1, 1)
        assert client.code == 4008
        again = b.connect()
        again.resume(client.ready()["session_id"], 1)
        assert again.events() == [("RESUMED", 1)]


class TestHeartbeat:
    def test_silence_after_hello_closes_4009_after_one_and_a_half_intervals(self, bench):
        b = bench(heartbeat_interval_ms=10_000)
        client = b.connect()
        b.advance(14_999)
        assert client.end is None
        b.advance(1)
        assert client.code == 4009

    def test_grace_can_be_set(self, bench):
        b = bench(heartbeat_interval_ms=10_000, heartbeat_grace_ms=1)
        b.connect()
        assert b.gateway.next_deadline() == b.clock.now_ms() + 10_001

    def test_each_heartbeat_is_acknowledged_and_restarts_the_timer(self, bench):
        b = bench(heartbeat_interval_ms=10_000)
        client = b.ready()
        for _ in range(5):
            b.advance(14_999)
            client.send(1, 1)
        assert client.ops() == [10, 0] + [11] * 5
        assert (b.stats().heartbeats, b.stats().acks, b.stats().last_beat) == (5, 5, 1)

    def test_session_is_gone_after_4009(self, bench):
        b = bench()
        client = b.ready()
        b.advance(100_000)
        assert client.code == 4009
        again = b.connect()
        again.resume(client.ready()["session_id"], 1)
        assert again.messages[-1] == {"t": None, "s": None, "op": 9, "d": False}

    def test_beat_ahead_of_what_was_sent_is_acknowledged_and_counted(self, bench):
        b = bench()
        client = b.ready()
        client.send(1, 2)
        assert client.messages[-1]["op"] == 11
        assert b.stats().beats_ahead == 1
