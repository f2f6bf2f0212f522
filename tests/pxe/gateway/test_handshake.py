"""Identify, its gate, and Resume, without sockets and without real time."""

import pytest

from pxe.gateway import Close


class TestIdentify:
    def test_ready_names_session_shard_and_resume_url(self, bench):
        client = bench(shards=4, guilds_per_shard=3, guild_create=False).ready(2)
        ready = client.ready()
        assert ready["v"] == 10
        assert ready["shard"] == [2, 4]
        assert ready["resume_gateway_url"] == "ws://gw:80"
        assert len(ready["session_id"]) == 32
        assert [g["unavailable"] for g in ready["guilds"]] == [True] * 3
        assert [(int(g["id"]) >> 22) % 4 for g in ready["guilds"]] == [2] * 3

    def test_each_stub_becomes_a_guild(self, bench):
        client = bench(guilds_per_shard=2).ready()
        assert client.events() == [("READY", 1), ("GUILD_CREATE", 2), ("GUILD_CREATE", 3)]
        ids = [m["d"]["id"] for m in client.messages if m["t"] == "GUILD_CREATE"]
        assert ids == [stub["id"] for stub in client.ready()["guilds"]]

    def test_public_url_wins_over_the_dialled_host(self, bench):
        client = bench(public_url="ws://elsewhere:9").ready()
        assert client.ready()["resume_gateway_url"] == "ws://elsewhere:9"

    @pytest.mark.parametrize(
        ("change", "code"),
        [
            ({"token": "wrong"}, 4004),
            ({"token": "Bot t"}, 4004),
            ({"token": None}, 4004),
            ({"token": ""}, 4004),
            ({"shard": [4, 4]}, 4010),
            ({"shard": [-1, 4]}, 4010),
            ({"shard": [0, 5]}, 4010),
            ({"shard": [0]}, 4010),
            ({"shard": ["0", 4]}, 4010),
            ({"shard": [True, 4]}, 4010),
            ({"shard": None}, 4010),
            ({"shard": [0, 2]}, 4011),
            ({"intents": None}, 4013),
            ({"intents": "1"}, 4013),
            ({"intents": -1}, 4013),
            ({"intents": 1 << 17}, 4013),
            ({"intents": 1 << 26}, 4013),
            ({"intents": 1 << 15}, 4014),
            ({"properties": None}, 4002),
            ({"properties": {"os": "x", "browser": "x"}}, 4002),
            ({"properties": {"os": 1, "browser": "x", "device": "x"}}, 4002),
        ],
    )
    def test_each_fault_has_its_code(self, bench, change, code):
        client = bench(shards=4, token="t", allowed_privileged=1 << 1).connect()  # noqa: S106
        client.identify(change=change)
        assert client.code == code
        assert client.ops() == [10]

    def test_missing_shard_means_the_only_one(self, bench):
        client = bench().connect()
        properties = {"os": "x", "browser": "x", "device": "x"}
        client.send(2, {"token": "t", "properties": properties, "intents": 0})
        assert client.ready()["shard"] == [0, 1]

    def test_second_identify_closes_4005_and_keeps_the_session(self, bench):
        b = bench()
        client = b.ready()
        client.identify()
        assert client.code == 4005
        again = b.connect()
        again.resume(client.ready()["session_id"], 1)
        assert again.events() == [("RESUMED", 1)]

    def test_resume_on_an_identified_connection_closes_4005(self, bench):
        client = bench().ready()
        client.resume(client.ready()["session_id"], 1)
        assert client.code == 4005


class TestIdentifyGate:
    def test_same_key_within_5_s_gets_op_9_false(self, bench):
        b = bench(shards=2)
        b.ready(0)
        b.clock.advance(4_999)
        late = b.connect()
        late.identify(1)
        assert late.messages[-1] == {"t": None, "s": None, "op": 9, "d": False}
        assert late.end is None
        assert b.gateway.stats().identify_gate_refusals == 1

    def test_after_5_s_the_key_is_free(self, bench):
        b = bench(shards=2)
        b.ready(0)
        b.clock.advance(5_000)
        b.ready(1)

    def test_tolerance_forgives_jitter(self, bench):
        b = bench(shards=2, identify_tolerance_ms=100)
        b.ready(0)
        b.clock.advance(4_900)
        b.ready(1)

    def test_keys_are_shard_modulo_concurrency(self, bench):
        b = bench(shards=4, max_concurrency=2)
        b.ready(0)
        b.ready(1)
        refused = b.connect()
        refused.identify(3)
        assert refused.messages[-1]["op"] == 9

    def test_refused_identify_does_not_prolong_the_wait(self, bench):
        b = bench(shards=2)
        b.ready(0)
        b.clock.advance(4_000)
        b.connect().identify(1)
        b.clock.advance(1_000)
        b.ready(1)

    def test_after_op_9_the_same_connection_may_identify(self, bench):
        b = bench(shards=2)
        b.ready(0)
        refused = b.connect()
        refused.identify(1)
        b.clock.advance(5_000)
        refused.identify(1)
        assert refused.events() == [("READY", 1)]

    def test_resume_is_not_paced(self, bench):
        b = bench()
        client = b.ready()
        client.connection.lost()
        again = b.connect()
        again.resume(client.ready()["session_id"], 1)
        assert again.events() == [("RESUMED", 1)]

    def test_daily_total_ends_all_sessions_and_the_token(self, bench):
        b = bench(session_start_total=2, identify_interval_ms=0)
        first = b.ready()
        b.ready()
        third = b.connect()
        third.identify()
        assert (first.code, third.code) == (4004, 4004)
        later = b.connect()
        later.identify()
        assert later.code == 4004

    def test_daily_total_ends_sessions_without_a_connection_too(self, bench):
        b = bench(session_start_total=1)
        b.ready().connection.lost()
        b.connect().identify()
        with pytest.raises(LookupError, match="shard 0 has no session"):
            b.gateway.dispatch(0, "A", {})

    def test_starts_return_after_24_hours(self, bench):
        b = bench(session_start_total=1)
        b.ready()
        assert b.gateway.stats().session_starts_left == 0
        b.advance(24 * 3600 * 1000)
        assert b.gateway.stats().session_starts_left == 1
        b.ready()


class TestResume:
    def test_missed_dispatches_are_replayed_then_resumed(self, bench):
        b = bench()
        client = b.ready()
        session_id = client.ready()["session_id"]
        b.gateway.dispatch(0, "A", {"n": 1})
        client.connection.lost()
        assert b.gateway.dispatch(0, "B", {"n": 2}) == 3
        assert b.gateway.dispatch(0, "C", {"n": 3}) == 4
        again = b.connect("/?v=10&encoding=json")
        again.resume(session_id, 1)
        assert again.events() == [("A", 2), ("B", 3), ("C", 4), ("RESUMED", 4)]
        b.gateway.dispatch(0, "D", {})
        b.pump()
        assert again.events()[-1] == ("D", 5)
        stats = b.stats()
        assert (stats.sequence, stats.resumes, stats.replayed, stats.connections) == (5, 1, 3, 2)

    def test_resumed_may_take_a_sequence_of_its_own(self, bench):
        b = bench(resumed_advances=True)
        client = b.ready()
        client.connection.lost()
        again = b.connect()
        again.resume(client.ready()["session_id"], 1)
        assert again.events() == [("RESUMED", 2)]
        assert b.gateway.dispatch(0, "A", {}) == 3

    def test_future_sequence_closes_4007_and_ends_the_session(self, bench):
        b = bench()
        client = b.ready()
        client.connection.lost()
        again = b.connect()
        again.resume(client.ready()["session_id"], 2)
        assert again.code == 4007
        third = b.connect()
        third.resume(client.ready()["session_id"], 1)
        assert third.messages[-1]["op"] == 9

    def test_negative_sequence_closes_4007(self, bench):
        b = bench()
        client = b.ready()
        client.connection.lost()
        again = b.connect()
        again.resume(client.ready()["session_id"], -1)
        assert again.code == 4007

    def test_unknown_session_gets_op_9_false_and_may_identify(self, bench):
        client = bench().connect()
        client.resume("0" * 32, 5)
        assert client.messages[-1] == {"t": None, "s": None, "op": 9, "d": False}
        client.identify()
        assert client.events() == [("READY", 1)]

    def test_wrong_token_closes_4004_and_keeps_the_session(self, bench):
        b = bench(token="t")  # noqa: S106
        client = b.ready()
        client.connection.lost()
        wrong = b.connect()
        wrong.resume(client.ready()["session_id"], 1, token="u")  # noqa: S106
        assert wrong.code == 4004
        right = b.connect()
        right.resume(client.ready()["session_id"], 1)
        assert right.events() == [("RESUMED", 1)]

    @pytest.mark.parametrize(
        "body",
        [
            {"session_id": "x", "seq": None},
            {"session_id": "x", "seq": "1"},
            {"session_id": "x", "seq": True},
            {"session_id": 1, "seq": 1},
            {"seq": 1},
        ],
    )
    def test_wrong_body_closes_4002(self, bench, body):
        client = bench().connect()
        client.send(6, {"token": "t"} | body)
        assert client.code == 4002

    def test_below_the_replay_floor_gets_op_9_false(self, bench):
        b = bench(replay_events=2)
        client = b.ready()
        client.connection.lost()
        for _ in range(3):
            b.gateway.dispatch(0, "A", {})
        again = b.connect()
        again.resume(client.ready()["session_id"], 1)
        assert again.messages[-1]["op"] == 9

    def test_at_the_replay_floor_nothing_is_missing(self, bench):
        b = bench(replay_events=3)
        client = b.ready()
        client.connection.lost()
        for _ in range(3):
            b.gateway.dispatch(0, "A", {})
        again = b.connect()
        again.resume(client.ready()["session_id"], 1)
        assert again.events() == [("A", 2), ("A", 3), ("A", 4), ("RESUMED", 4)]

    def test_replay_is_bounded_in_bytes_too(self, bench):
        b = bench(replay_bytes=5_000)
        client = b.ready()
        client.connection.lost()
        for _ in range(3):
            b.gateway.dispatch(0, "A", "x" * 2_000)
        again = b.connect()
        again.resume(client.ready()["session_id"], 1)
        assert again.messages[-1]["op"] == 9

    def test_newer_connection_takes_the_session_over(self, bench):
        b = bench()
        old = b.ready()
        new = b.connect()
        new.resume(old.ready()["session_id"], 1)
        assert old.end == Close(4000, "Session resumed on another connection")
        assert b.gateway.dispatch(0, "A", {}) == 2
        b.pump()
        assert new.events() == [("RESUMED", 1), ("A", 2)]
        assert b.stats().connected

    @pytest.mark.parametrize(("code", "resumable"), [(1000, False), (1001, False), (4000, True)])
    def test_client_close_code_decides_over_the_session(self, bench, code, resumable):
        b = bench()
        client = b.ready()
        client.connection.lost(code)
        again = b.connect()
        again.resume(client.ready()["session_id"], 1)
        assert again.ops()[-1] == (0 if resumable else 9)

    def test_session_without_connection_expires(self, bench):
        b = bench(session_ttl_ms=60_000)
        client = b.ready()
        client.connection.lost()
        b.advance(59_999)
        assert [e.name for e in b.events if e.name == "expire"] == []
        b.advance(1)
        assert [e.name for e in b.events if e.name == "expire"] == ["expire"]
        again = b.connect()
        again.resume(client.ready()["session_id"], 1)
        assert again.messages[-1]["op"] == 9

    def test_resumed_session_does_not_expire_while_connected(self, bench):
        b = bench(session_ttl_ms=10_000)
        client = b.ready()
        client.connection.lost()
        b.advance(5_000)
        again = b.connect()
        again.resume(client.ready()["session_id"], 1)
        b.advance(30_000)
        assert b.gateway.dispatch(0, "A", {}) == 2

    def test_future_sequence_does_not_end_a_session_in_use(self, bench):
        b = bench()
        client = b.ready()
        other = b.connect()
        other.resume(client.ready()["session_id"], 99)
        assert other.code == 4007
        b.gateway.dispatch(0, "A", {})
        b.pump()
        assert client.events()[-1] == ("A", 2)

    def test_counted_sequence_is_the_newest_sessions(self, bench):
        b = bench()
        older = b.ready()
        b.clock.advance(5_000)
        b.gateway.dispatch(0, "A", {})
        b.ready()
        older.send(8, {"guild_id": "1"})
        assert older.events()[-1] == ("GUILD_MEMBERS_CHUNK", 3)
        assert b.stats().sequence == 1

    def test_second_session_of_a_shard_is_counted(self, bench):
        b = bench()
        b.ready()
        b.clock.advance(5_000)
        b.ready()
        assert b.stats().duplicate_sessions == 1
