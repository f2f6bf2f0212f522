"""Hello, Identify, READY, Resume, RESUMED: what is sent, what is believed, what is an anomaly."""

import json
import re

import pytest

from firmware.gateway.poll import gateway_poll
from firmware.gateway.timers import gateway_tick
from firmware.layouts import gateway as layout
from firmware.layouts.config import CONFIG, IDENTIFY_FIELDS_MAX
from firmware.layouts.gateway import GatewayState, UrlFault
from firmware.layouts.log import LOG, LOG_RING
from firmware.layouts.log_line import Level
from firmware.layouts.policy import OnMalformed
from firmware.layouts.profile import ProfileId
from firmware.layouts.shard import End, FailureFlag, ShardFlag
from firmware.limits import OUTBOUND_PAYLOAD_MAX, TOKEN_MAX
from tests.support.gateway_client import TOKEN, GatewayClient, ready_data
from tests.support.lab import Lab
from tests.support.token import set_token

LAB = Lab(gateway_poll, gateway_tick)


def client(**kwargs):
    return GatewayClient(LAB, **kwargs)


def identified():
    c = client()
    c.hello()
    c.sent()
    return c


def identified_at(host):
    """Of a gateway with this host."""
    c = identified()
    LAB.g(CONFIG).gateway_host[: len(host)] = host
    LAB.g(CONFIG).gateway_host_len = len(host)
    return c


def ready(sequence=1, **changes):
    c = identified()
    c.dispatch("READY", sequence, ready_data(**changes))
    return c


def resuming(sequence=41):
    c = client()
    c.resumable(sequence)
    c.hello()
    c.sent()
    return c


def failed_with(c, site, *, end=End.PROTOCOL, flags=FailureFlag.RESET_SESSION, close=4000):
    context = c.shard
    assert context.last_error & 0xFFFF_0000 == site.code
    assert (context.failure, context.failure_flags, context.failure_close) == (end, flags, close)


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


class TestReady:
    def test_session_is_stored(self):
        c = ready(sequence=7)
        session = c.shard.session
        assert c.gateway.state == GatewayState.READY
        assert c.shard.session_ptr == session.address_
        assert session.valid == 1
        assert bytes(session.session_id[: session.session_id_len]) == b"4e2e56c2d3b7"
        assert bytes(session.resume_host[: session.resume_host_len]) == b"10.0.2.2"
        assert session.resume_port == 8081
        assert (c.shard.sequence, c.gateway.seq_acked) == (7, 7)
        assert c.shard.flags == ShardFlag.SEQ_VALID
        assert c.shard.dispatches == 1
        assert c.shard.failure == End.NONE

    @pytest.mark.parametrize("size", [1, 256])
    def test_session_id_length_bounds(self, size):
        c = ready(session_id="x" * size)
        assert c.shard.session.session_id_len == size

    @pytest.mark.parametrize(
        "session_id", ["", "x" * 257, "a b", 'a"b', "a\\b", "é", "a\x7f", 5, None, ...]
    )
    def test_bad_session_id_is_an_anomaly(self, session_id):
        failed_with(ready(session_id=session_id), layout.READY_SESSION)

    @pytest.mark.parametrize(
        "shard",
        [[4, 16], [3, 15], [3], [3, 16, 0], [], "3/16", None, ..., [3.5, 16], [3, "16"], ["3", 16]],
    )
    def test_other_shard_is_an_anomaly(self, shard):
        failed_with(ready(shard=shard), layout.READY_SHARD)

    @pytest.mark.parametrize(
        ("own", "named"),
        [((3, 16), ["abc", 16]), ((3, 16), [3, "x" * 16]), ((0, 16), ["", 16]), ((3, 0), [3, ""])],
    )
    def test_what_is_no_number_is_neither_its_length_nor_zero(self, own, named):
        c = client(shard=own)
        c.hello()
        c.dispatch("READY", 1, ready_data(shard=named))
        failed_with(c, layout.READY_SHARD)

    def test_a_host_of_before_goes_with_a_url_that_is_ignored(self):
        c = identified()
        c.shard.session.resume_host_len = 9
        c.dispatch("READY", 1, ready_data(resume_gateway_url=5))
        assert c.shard.session.resume_host_len == 0

    def test_what_an_earlier_message_left_is_no_session_id(self):
        c = identified()
        c.receive({"op": 11, "d": {"session_id": "abcdefgh"}})
        c.dispatch("READY", 1, ready_data(session_id=5))
        failed_with(c, layout.READY_SESSION)

    @pytest.mark.parametrize("letter", [chr(n) for n in range(0x20, 0x7F)])
    def test_each_letter_of_a_session_id(self, letter):
        c = ready(session_id=f"a{letter}b")
        if letter in '" \\' or c.shard.failure:
            failed_with(c, layout.READY_SESSION)
        else:
            assert c.shard.session.session_id_len == 3

    @pytest.mark.parametrize("size", [159, 160, 161])
    def test_resume_url_length_bound(self, size):
        url = "ws://h/".ljust(size, "x")
        c = identified_at(b"h")
        c.dispatch("READY", 1, ready_data(resume_gateway_url=url))
        session = c.shard.session
        assert session.resume_host_len == (1 if size <= 160 else 0)

    @pytest.mark.parametrize(
        ("earlier", "url", "port"),
        [("ws://hhhhhhhh", "ws://h", 80), ("ws://h:123456", "ws://h:1", 1)],
    )
    def test_what_an_earlier_message_left_is_no_part_of_the_resume_url(self, earlier, url, port):
        c = identified_at(b"h")
        c.receive({"op": 11, "d": {"resume_gateway_url": earlier}})
        c.dispatch("READY", 1, ready_data(resume_gateway_url=url))
        session = c.shard.session
        assert (session.resume_host_len, session.resume_port) == (1, port)

    @pytest.mark.parametrize(
        ("url", "host", "port"),
        [
            ("ws://h", b"h", 80),
            ("ws://h:1", b"h", 1),
            ("ws://gateway.example:65535/", b"gateway.example", 65535),
            ("ws://10.0.2.2:9001?v=10", b"10.0.2.2", 9001),
            ("ws://a-b_c.D/path", b"a-b_c.D", 80),
            ("ws://a?x", b"a", 80),
            ("ws:\\/\\/a", b"a", 80),
            ("ws://" + "h" * 128, b"h" * 128, 80),
            ("ws://a:000080", b"a", 80),
        ],
    )
    def test_resume_url_is_taken(self, url, host, port):
        c = identified_at(host)
        text = '{"op":0,"s":1,"t":"READY","d":{"session_id":"x","shard":[3,16],"resume_gateway_url":"%s"}}'
        c.receive((text % url).encode())
        session = c.shard.session
        assert bytes(session.resume_host[: session.resume_host_len]) == host
        assert session.resume_port == port

    @pytest.mark.parametrize(
        ("url", "fault"),
        [
            (..., UrlFault.ABSENT),
            (None, UrlFault.ABSENT),
            ("ws://" + "h" * 156, UrlFault.TOO_LONG),
            ("wss://gateway.discord.gg", UrlFault.SECURITY),
            ("http://h", UrlFault.SCHEME),
            ("ws:/h/", UrlFault.SCHEME),
            ("", UrlFault.SCHEME),
            ("ws://", UrlFault.HOST),
            ("ws:///x", UrlFault.HOST),
            ("ws://" + "h" * 129, UrlFault.HOST),
            ("ws://:80", UrlFault.HOST),
            ("ws://h:", UrlFault.PORT),
            ("ws://h:/", UrlFault.PORT),
            ("ws://h:0", UrlFault.PORT),
            ("ws://h:8:", UrlFault.PORT),
            ("ws://h:1:2", UrlFault.PORT),
            ("ws://h:65536", UrlFault.PORT),
            ("ws://h:99999999999999999999", UrlFault.PORT),
            ("ws://h:8a", UrlFault.PORT),
            ("ws://user@h", UrlFault.PORT),
            ("ws://h h", UrlFault.PORT),
            ("ws://h#x", UrlFault.PORT),
            ("ws://é", UrlFault.HOST),
            ("ws://10.0.2.3", UrlFault.FOREIGN),
            ("ws://a.10.0.2.2:80/", UrlFault.FOREIGN),
            ("ws://evil.example:6666/", UrlFault.FOREIGN),
        ],
    )
    def test_resume_url_is_ignored_with_a_warning(self, url, fault):
        c = identified()
        LAB.g(LOG).level = Level.WARN
        before = LAB.g(LOG).head
        c.dispatch("READY", 1, ready_data(resume_gateway_url=url))
        assert c.gateway.state == GatewayState.READY, "the session itself is fine"
        assert c.shard.session.resume_host_len == 0
        start = LAB.image.address("log_ring")
        line = LAB.machine.read(start + before, LAB.g(LOG).head - before).decode()
        assert "code=gateway.resume_url_ignored" in line
        assert f"reason={fault.name.lower()}" in line

    @pytest.mark.parametrize(("url", "lines"), [(..., 0), (None, 0), ("http://h", 1)])
    def test_fluxer_names_no_resume_url_and_that_is_normal(self, url, lines):
        c = identified()
        c.shard.profile = ProfileId.FLUXER
        LAB.g(LOG).level = Level.WARN
        before = LAB.g(LOG).head
        c.dispatch("READY", 1, ready_data(resume_gateway_url=url))
        assert c.gateway.state == GatewayState.READY
        assert c.shard.session.resume_host_len == 0
        start = LAB.image.address("log_ring")
        text = LAB.machine.read(start + before, LAB.g(LOG).head - before).decode()
        assert text.count("code=gateway.resume_url_ignored") == lines

    def test_second_ready_is_an_anomaly(self):
        c = ready()
        c.dispatch("READY", 2, ready_data())
        failed_with(c, layout.READY_UNEXPECTED)

    def test_ready_while_resuming_is_an_anomaly(self):
        c = resuming()
        c.dispatch("READY", 42, ready_data())
        failed_with(c, layout.READY_UNEXPECTED)

    def test_dispatch_before_ready_is_an_anomaly(self):
        c = identified()
        c.dispatch("GUILD_CREATE", 1)
        failed_with(c, layout.DISPATCH_EARLY)

    def test_dispatch_before_hello_is_an_anomaly(self):
        c = client()
        c.dispatch("GUILD_CREATE", 1)
        failed_with(c, layout.DISPATCH_EARLY)

    def test_dispatch_before_identify_left_is_an_anomaly(self):
        c = client()
        c.stream.fill(left=1)
        c.hello()
        c.dispatch("GUILD_CREATE", 1)
        failed_with(c, layout.DISPATCH_EARLY)


class TestResumed:
    def test_replay_then_resumed(self):
        c = resuming(41)
        c.dispatch("MESSAGE_CREATE", 42)
        c.dispatch("MESSAGE_CREATE", 45)
        assert c.gateway.state == GatewayState.WAIT_RESUMED
        c.dispatch("RESUMED", 46)
        assert c.gateway.state == GatewayState.READY
        assert c.shard.sequence == 46
        assert c.shard.phase_deadline == 0
        assert c.shard.flags == ShardFlag.SEQ_VALID | ShardFlag.RESUMED
        assert c.shard.dispatches == 3

    @pytest.mark.parametrize("sequence", [0, 2, 45])
    def test_resumed_with_a_sequence_of_the_past_keeps_the_higher_one(self, sequence):
        c = resuming(41)
        c.dispatch("MESSAGE_CREATE", 45)
        c.dispatch("RESUMED", sequence)
        assert c.shard.sequence == 45
        assert c.gateway.state == GatewayState.READY

    @pytest.mark.parametrize("sequence", [2**31 - 1, 2**31, 2**32 - 1])
    def test_resumed_with_a_large_sequence_counts_without_a_sign(self, sequence):
        c = resuming(2**31 - 1)
        c.dispatch("RESUMED", sequence)
        assert c.shard.sequence == sequence

    def test_resumed_sets_no_other_flag(self):
        c = resuming()
        c.shard.flags = 0
        c.dispatch("RESUMED", 46)
        assert c.shard.flags == ShardFlag.RESUMED

    def test_lower_sequence_in_the_replay_is_a_warning(self):
        c = resuming(41)
        c.dispatch("MESSAGE_CREATE", 40)
        assert (c.shard.sequence, c.gateway.seq_lower, c.shard.failure) == (41, 1, End.NONE)

    def test_the_last_sequence_again_in_the_replay_is_neither_lower_nor_a_hole(self):
        c = resuming(41)
        c.dispatch("MESSAGE_CREATE", 41)
        assert (c.shard.sequence, c.shard.dispatches, c.gateway.seq_lower) == (41, 1, 0)
        assert (c.shard.hole_first, c.shard.hole_last) == (0, 0)

    def test_resumed_while_identifying_is_an_anomaly(self):
        c = identified()
        c.dispatch("RESUMED", 1)
        failed_with(c, layout.RESUMED_UNEXPECTED)

    def test_ready_after_resumed_flag_is_gone(self):
        c = identified()
        c.shard.flags = ShardFlag.RESUMED | ShardFlag.ESTABLISHED
        c.dispatch("READY", 1, ready_data())
        assert c.shard.flags == ShardFlag.SEQ_VALID | ShardFlag.ESTABLISHED


class TestDispatch:
    def test_sequence_goes_up_and_may_jump_or_stay(self):
        c = ready(sequence=1)
        for sequence in (2, 2, 9, 4294967295):
            c.dispatch("MESSAGE_CREATE", sequence)
            assert (c.shard.sequence, c.gateway.seq_acked) == (sequence, sequence)
        assert c.shard.dispatches == 5
        assert c.shard.failure == End.NONE

    def test_sequence_back_is_an_anomaly(self):
        c = ready(sequence=9)
        c.dispatch("MESSAGE_CREATE", 8)
        failed_with(c, layout.SEQUENCE_BACK)
        assert c.shard.sequence == 9

    @pytest.mark.parametrize("sequence", [None, -1, 1.0, "2", 4294967296, 2**64, [], True])
    def test_sequence_must_be_an_unsigned_integer(self, sequence):
        c = ready()
        c.dispatch("MESSAGE_CREATE", sequence)
        failed_with(c, layout.SEQUENCE_FORM)

    @pytest.mark.parametrize("message", [{"op": 0, "s": 2, "t": None}, {"op": 0, "s": 2}])
    def test_event_name_must_be_a_string(self, message):
        c = ready()
        c.receive(message)
        failed_with(c, layout.EVENT_NAME)

    @pytest.mark.parametrize(
        "event", ["", "X" * 64, "X" * 65, "READX", "XEADY", "RESUMEX", "XESUMED"]
    )
    def test_any_event_name_counts(self, event):
        c = ready(sequence=1)
        c.dispatch(event, 2)
        assert c.shard.sequence == 2


class TestUserId:
    @pytest.mark.parametrize(
        ("user", "known"),
        [
            ({"id": "81384788765712384"}, 81384788765712384),
            ({"id": "1"}, 1),
            ({"id": str(2**64 - 1)}, 2**64 - 1),
            ({"id": str(2**64)}, 0),
            ({"id": str(2**64 + 1)}, 0),
            ({"id": "0123"}, 123),
            ({"id": "0" * 20 + "1"}, 0),
            ({"id": "9" * 20}, 0),
            ({"id": "1" * 21}, 0),
            ({"id": "0" * 20}, 0),
            ({"id": ""}, 0),
            ({"id": "12a"}, 0),
            ({"id": "/1"}, 0),
            ({"id": ":1"}, 0),
            ({"id": 5}, 0),
            ({"id": None}, 0),
            ({}, 0),
            (None, 0),
            (..., 0),
        ],
    )
    def test_ready_names_the_bot_by_a_snowflake_or_not_at_all(self, user, known):
        c = identified()
        c.shard.user_id = 7
        parser = c.gateway.parser
        LAB.machine.write(
            parser.offset_of("user_id") + parser.user_id.size, b"7"
        )  # behind its room
        c.dispatch("READY", 1, ready_data(user=user))
        assert c.gateway.state == GatewayState.READY
        assert c.shard.user_id == known

    def test_no_other_dispatch_names_the_bot(self):
        c = ready()
        c.receive({"d": {"user": {"id": "5"}}, "op": 0, "s": 2, "t": "GUILD_MEMBER_UPDATE"})
        assert c.shard.user_id == 1


BODIES: list[object] = [..., None, True, 5, 1.5, "text", [], [{}]]
"""What `d` may be without being an object."""
LIMIT = {"opcode": 8, "retry_after": 5}


def rejected(c):
    ring = LAB.machine.read(LAB.image.address(LOG_RING), LAB.g(LOG).head)
    return [line for line in ring.decode().splitlines() if "gateway.dispatchRejected" in line]


def say(c, event, sequence, data):
    message = {"op": 0, "s": sequence, "t": event}
    c.receive(message if data is ... else message | {"d": data})


class TestMalformed:
    @pytest.mark.parametrize("policy", list(OnMalformed))
    @pytest.mark.parametrize("data", BODIES)
    def test_what_the_node_does_not_read_may_be_anything(self, data, policy):
        c = ready()
        LAB.g(CONFIG).on_malformed = policy
        say(c, "PRESENCES_REPLACE", 2, data)
        assert (c.shard.malformed, c.shard.failure) == (0, End.NONE)
        assert (c.shard.sequence, c.gateway.seq_acked, c.shard.dispatches) == (2, 2, 2)

    @pytest.mark.parametrize("profile", list(ProfileId))
    @pytest.mark.parametrize("data", BODIES)
    def test_a_rate_limit_that_is_no_object_is_skipped_counted_and_said(self, data, profile):
        c = ready()
        LAB.g(LOG).level, c.shard.profile = Level.WARN, profile
        say(c, "RATE_LIMITED", 2, data)
        assert (c.shard.malformed, c.shard.failure) == (1, End.NONE)
        assert (c.shard.sequence, c.gateway.seq_acked, c.shard.dispatches) == (2, 2, 2)
        (line,) = rejected(c)
        assert "dispatch=RATE_LIMITED sequence=2 " in line
        assert line.endswith(" policy=skip rejected=1")

    @pytest.mark.parametrize("profile", list(ProfileId))
    @pytest.mark.parametrize("data", BODIES)
    def test_a_policy_that_terminates_keeps_the_session_and_ends_for_good(self, data, profile):
        c = ready()
        LAB.g(LOG).level, c.shard.profile = Level.WARN, profile
        LAB.g(CONFIG).on_malformed = OnMalformed.TERMINATE
        say(c, "RATE_LIMITED", 2, data)
        failed_with(c, layout.DISPATCH_MALFORMED, flags=FailureFlag.FATAL)
        assert c.shard.session.valid == 1
        # A later Resume asks for it again.
        assert (c.shard.sequence, c.gateway.seq_acked) == (1, 1)
        assert rejected(c)[0].endswith(" policy=terminate rejected=1")

    @pytest.mark.parametrize("policy", list(OnMalformed))
    @pytest.mark.parametrize(
        ("data", "waits"),
        [
            ({}, False),
            ({"retry_after": 5}, False),
            ({"opcode": 8}, True),
            (LIMIT | {"opcode": "8"}, False),
            (LIMIT | {"opcode": 8.5}, False),
            (LIMIT | {"opcode": -1}, False),
            (LIMIT | {"retry_after": "5"}, True),
            (LIMIT | {"retry_after": None}, True),
            (LIMIT | {"retry_after": []}, True),
            (None, False),
        ],
    )
    def test_a_rate_limit_without_its_numbers_is_malformed(self, data, waits, policy):
        c = ready()
        LAB.g(CONFIG).on_malformed = policy
        before = bytes(c.shard.pacer.not_before[:])
        say(c, "RATE_LIMITED", 2, data)
        assert c.shard.malformed == 1
        # What can be read of it is obeyed.
        assert (bytes(c.shard.pacer.not_before[:]) != before) is waits
        assert c.shard.failure == (End.PROTOCOL if policy else End.NONE)

    @pytest.mark.parametrize("after", [0, 5, 1.5, 1e30, -1])
    def test_a_rate_limit_with_its_numbers_is_fine(self, after):
        c = ready()
        LAB.g(CONFIG).on_malformed = OnMalformed.TERMINATE
        say(c, "RATE_LIMITED", 2, LIMIT | {"retry_after": after})
        assert (c.shard.malformed, c.shard.failure, c.shard.sequence) == (0, End.NONE, 2)

    @pytest.mark.parametrize("profile", list(ProfileId))
    @pytest.mark.parametrize("data", [*BODIES, {}])
    def test_resumed_needs_no_body(self, data, profile):
        c = resuming(41)
        LAB.g(CONFIG).on_malformed, c.shard.profile = OnMalformed.TERMINATE, profile
        say(c, "RESUMED", 42, data)
        assert (c.shard.malformed, c.shard.failure) == (0, End.NONE)
        assert c.gateway.state == GatewayState.READY

    @pytest.mark.parametrize("policy", list(OnMalformed))
    def test_ready_without_a_body_stays_a_protocol_failure(self, policy):
        c = identified()
        LAB.g(CONFIG).on_malformed = policy
        say(c, "READY", 1, None)
        failed_with(c, layout.READY_SHARD)
        assert c.shard.malformed == 0

    @pytest.mark.parametrize("policy", list(OnMalformed))
    def test_bad_sequences_stay_protocol_failures(self, policy):
        c = ready(sequence=5)
        LAB.g(CONFIG).on_malformed = policy
        say(c, "X", 4, None)
        failed_with(c, layout.SEQUENCE_BACK)

    def test_a_replayed_one_is_judged_as_any_other(self):
        c = resuming(41)
        say(c, "RATE_LIMITED", 42, None)
        say(c, "RATE_LIMITED", 40, None)
        assert (c.shard.malformed, c.gateway.seq_lower, c.shard.sequence) == (1, 1, 42)

    @pytest.mark.parametrize("message", [b'{"op":12,"d":"SECRET"}', b'{"op":4294967295}'])
    def test_an_unknown_opcode_is_said(self, message):
        c = ready()
        LAB.g(LOG).level = Level.DEBUG
        c.receive(message)
        ring = LAB.machine.read(LAB.image.address(LOG_RING), LAB.g(LOG).head).decode()
        assert re.search(r"code=gateway\.unknownOpcode opcode=(12|4294967295)\n", ring)
        assert "SECRET" not in ring


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
