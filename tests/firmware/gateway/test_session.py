"""READY: the session, the resume URL and the bot that it names, and when it is an anomaly."""

import pytest

from firmware.layouts import gateway as layout
from firmware.layouts.gateway import GatewayState, UrlFault
from firmware.layouts.log import LOG
from firmware.layouts.log_line import Level
from firmware.layouts.profile import ProfileId
from firmware.layouts.shard import End, ShardFlag
from tests.support.gateway_client import ready_data
from tests.support.gateway_states import (
    LAB,
    client,
    failed_with,
    identified,
    identified_at,
    ready,
    resuming,
)


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
