"""The fluxer profile: what differs from discord, rule by rule."""

import json

import pytest

from pxe.gateway import GatewayOptions
from pxe.gateway.liveness import AskingPatience, DeadlinePatience, Verdict
from pxe.gateway.protocol import DISCORD, FLUXER, PROFILES, Opcode

URL = "/?v=1&encoding=json"


@pytest.fixture
def fluxer(bench):
    """Return a maker of benches whose gateway follows the profile."""

    def make(**options):
        made = bench(profile=FLUXER, **options)
        connect = made.connect
        made.connect = lambda target=URL, **how: connect(target, **how)
        return made

    return make


def raw_messages(gateway_bench, act):
    """Return the texts that an action makes a fresh client receive."""
    connection = gateway_bench.gateway.open(URL, user_agent="node/1", host="gw")
    act(connection)
    return [action.data for action in connection.drain() if hasattr(action, "data")]


def test_profiles_are_found_by_name():
    assert dict(PROFILES) == {"discord": DISCORD, "fluxer": FLUXER}


@pytest.mark.parametrize("version", ["10", "2", ""])
def test_another_version_is_closed_before_hello(fluxer, version):
    client = fluxer().connect(f"/?v={version}&encoding=json")
    assert (client.messages, client.code) == ([], 4012)


@pytest.mark.parametrize("compress", ["zstd-stream", "zlib-stream", "nothing"])
def test_any_compression_that_is_asked_for_stays_plain_text(fluxer, compress):
    client = fluxer().connect(f"{URL}&compress={compress}")
    assert client.ops() == [10]


def test_keys_of_dispatches_and_of_other_messages(fluxer):
    b = fluxer()
    texts = raw_messages(
        b,
        lambda connection: connection.feed(
            json.dumps(
                {
                    "op": 2,
                    "d": {
                        "token": "t",
                        "properties": dict.fromkeys(("os", "browser", "device"), "x"),
                    },
                }
            )
        ),
    )
    hello, ready = texts[0], texts[1]
    assert list(json.loads(hello)) == ["d", "op"]
    assert list(json.loads(ready)) == ["op", "t", "s", "d"]
    assert "shard" not in json.loads(ready)["d"]


def test_op_7_and_11_have_no_body(fluxer):
    b = fluxer()
    client = b.ready()
    client.send(1, 1)
    b.gateway.reconnect(0)
    b.pump()
    assert client.messages[-2:] == [{"op": 11}, {"op": 7}]
    assert client.code == 4000


def test_ready_names_no_url_and_the_shard_that_was_sent(fluxer):
    body = fluxer(shards=3, guilds_per_shard=2).ready(2).ready()
    assert body["version"] == 1
    assert body["shard"] == [2, 3]
    assert body["guilds"] == []
    assert not {"resume_gateway_url", "v"} & set(body)


def test_ready_is_sequence_one_and_guilds_follow_at_once(fluxer):
    client = fluxer(guilds_per_shard=2).ready()
    assert client.events() == [("READY", 1), ("GUILD_CREATE", 2), ("GUILD_CREATE", 3)]


def test_guilds_are_not_replayed_but_events_are(fluxer):
    b = fluxer(guilds_per_shard=2)
    first = b.ready()
    first.connection.lost(4000)
    b.gateway.dispatch(0, "MESSAGE_CREATE", {})
    b.gateway.dispatch(0, "GUILD_SYNC", {})
    second = b.connect()
    second.resume(first.ready()["session_id"], 1)
    assert second.events() == [("MESSAGE_CREATE", 4), ("RESUMED", 5)]
    assert second.messages[-1]["d"] == {}


def test_an_event_above_two_mebibytes_is_not_replayed(fluxer):
    b = fluxer()
    first = b.ready()
    first.connection.lost(4000)
    b.gateway.dispatch(0, "HUGE", "x" * (2 * 1024 * 1024))
    second = b.connect()
    second.resume(first.ready()["session_id"], 1)
    assert second.events() == [("RESUMED", 2)]


@pytest.mark.parametrize("op", [5, 31, 43, 99])
def test_opcodes_that_mean_nothing_here_close_4001(fluxer, op):
    client = fluxer().ready()
    client.send(op, {})
    assert client.code == 4001


@pytest.mark.parametrize("op", [3, 4, 8, 13, 14, 15, 16, 28])
def test_opcodes_of_the_service_are_taken(fluxer, op):
    client = fluxer().ready()
    client.send(op, {})
    assert client.end is None


@pytest.mark.parametrize(("text", "code"), [('{"op":1}', 4001), ('{"op":1,"d":"1"}', 4007)])
def test_a_wrong_heartbeat_has_codes_of_its_own(fluxer, text, code):
    client = fluxer().ready()
    client.send_raw(text)
    assert client.code == code


def test_identify_needs_no_intents(fluxer):
    client = fluxer().connect()
    client.identify(change={"intents": None})
    assert client.messages[1]["t"] == "READY"


@pytest.mark.parametrize("resumable", [True, False])
def test_op_9_says_false_and_leaves_the_socket_open(fluxer, resumable):
    b = fluxer()
    client = b.ready()
    b.gateway.invalidate(0, resumable=resumable)
    b.pump()
    assert client.messages[-1] == {"d": False, "op": 9}
    assert client.end is None
    # Unauthenticated, but alive: beats are answered, commands are not allowed.
    client.send(1, 1)
    assert client.messages[-1] == {"op": 11}
    client.send(3, {})
    assert client.code == 4003


def test_gateway_error_closes_nothing(fluxer):
    b = fluxer()
    client = b.ready()
    b.gateway.gateway_error(0, "VOICE", "no such channel")
    b.pump()
    assert client.messages[-1] == {"d": {"code": "VOICE", "message": "no such channel"}, "op": 12}
    assert client.end is None


class TestResume:
    @pytest.mark.parametrize(
        ("acknowledged", "seq", "code"),
        [(None, 4, 4007), (3, 2, 4007), (3, 3, None), (None, 0, None), (None, -1, 4000)],
    )
    def test_bounds_are_what_was_acknowledged_and_what_was_sent(
        self, fluxer, acknowledged, seq, code
    ):
        b = fluxer()
        first = b.ready()
        for _ in range(2):
            b.gateway.dispatch(0, "A", {})
        b.pump()
        first.send(1, acknowledged)
        first.connection.lost(4000)
        second = b.connect()
        second.resume(first.ready()["session_id"], seq)
        assert second.code == code
        # A refused sequence is no end of the session.
        third = b.connect()
        third.resume(first.ready()["session_id"], 3)
        assert third.events()[-1] == ("RESUMED", 3)

    def test_below_the_replay_floor_is_op_9(self, fluxer):
        b = fluxer(replay_events=1)
        first = b.ready()
        b.gateway.dispatch(0, "A", {})
        first.connection.lost(4000)
        second = b.connect()
        second.resume(first.ready()["session_id"], 0)
        assert second.messages[-1] == {"d": False, "op": 9}

    @pytest.mark.parametrize(("waited", "lives"), [(59_999, True), (60_000, False)])
    def test_a_session_waits_sixty_seconds(self, fluxer, waited, lives):
        b = fluxer()
        first = b.ready()
        first.connection.lost(4000)
        b.advance(waited)
        second = b.connect()
        second.resume(first.ready()["session_id"], 1)
        assert (second.events() == [("RESUMED", 1)]) == lives

    def test_a_wrong_token_keeps_the_session(self, fluxer):
        b = fluxer(token="t")  # noqa: S106 - of the local gateway
        first = b.ready()
        first.connection.lost(4000)
        second = b.connect()
        second.resume(first.ready()["session_id"], 1, token="u")  # noqa: S106 - the wrong one
        assert second.code == 4004
        third = b.connect()
        third.resume(first.ready()["session_id"], 1)
        assert third.events() == [("RESUMED", 1)]

    def test_the_displaced_socket_is_told(self, fluxer):
        b = fluxer()
        first = b.ready()
        second = b.connect()
        second.resume(first.ready()["session_id"], 1)
        assert first.messages[-1] == {"op": 7}
        assert first.code == 4000
        assert second.events() == [("RESUMED", 1)]

    def test_a_heartbeat_timeout_keeps_the_session(self, fluxer):
        b = fluxer()
        first = b.ready()
        b.advance(60_000)
        assert first.code == 4009
        second = b.connect()
        second.resume(first.ready()["session_id"], 1)
        assert second.events() == [("RESUMED", 1)]


class TestAddressLimit:
    def test_the_handshake_over_three_hundred_gets_no_answer(self, fluxer):
        b = fluxer()
        session = ""
        for _ in range(300):
            client = b.ready()
            session = client.ready()["session_id"]
            client.connection.lost(4000)
        for handshake in (lambda c: c.identify(), lambda c: c.resume(session, 1)):
            late = b.connect()
            handshake(late)
            assert (late.ops(), late.end) == ([10], None)
        assert b.gateway.address_gate.drops == 2
        b.advance(60_000)
        assert b.ready().end is None

    def test_addresses_do_not_share(self, fluxer):
        b = fluxer()
        gate = b.gateway.address_gate
        assert all(gate.passes("10.0.0.1", 0) for _ in range(300))
        assert not gate.passes("10.0.0.1", 59_999)
        assert gate.passes("10.0.0.2", 0)
        assert gate.passes("10.0.0.1", 60_000)

    def test_no_daily_total_and_no_key(self, fluxer):
        b = fluxer(session_start_total=1, shards=2)
        for shard in (0, 1, 0, 1):
            assert b.ready(shard).end is None


class TestPace:
    def test_six_hundred_messages_in_a_minute(self, fluxer):
        client = fluxer().ready()
        for _ in range(599):
            client.send(1, 1)
        assert client.end is None
        client.send(1, 1)
        assert client.code == 4008


class TestServerTimer:
    def test_it_asks_at_the_third_tick_and_closes_at_the_fourth(self, fluxer):
        b = fluxer()
        client = b.ready()
        b.advance(41_249)
        assert client.ops() == [10, 0]
        b.advance(1)
        assert client.messages[-1] == {"d": None, "op": 1}
        b.advance(13_749)
        assert client.end is None
        b.advance(1)
        assert client.code == 4009

    def test_a_beat_that_was_asked_for_is_enough(self, fluxer):
        b = fluxer()
        client = b.ready()
        b.advance(41_250)
        client.send(1, 1)
        b.advance(41_250 - 13_750)
        assert client.messages[-1] == {"op": 11}
        b.advance(13_750)
        assert client.messages[-1] == {"d": None, "op": 1}

    def test_a_late_look_at_an_asked_client_waits_below_its_bound(self):
        patience = AskingPatience(41_250)
        patience.restart(0)
        assert patience.judge(37_124) is Verdict.WAIT
        assert patience.judge(37_125) is Verdict.ASK
        assert patience.judge(45_000) is Verdict.WAIT
        assert patience.judge(45_001) is Verdict.CLOSE

    def test_a_timer_that_never_began_judges_nothing(self):
        patience = DeadlinePatience(10)
        assert patience.judge(1_000) is Verdict.WAIT
        patience.restart(1_000)
        assert [patience.judge(now) for now in (1_009, 1_010)] == [Verdict.WAIT, Verdict.CLOSE]


def test_the_profile_decides_unless_an_option_does():
    assert GatewayOptions(profile=FLUXER).session_life_ms == 60_000
    assert GatewayOptions(profile=FLUXER, session_ttl_ms=5).session_life_ms == 5
    assert GatewayOptions().session_life_ms == 180_000
    assert GatewayOptions(profile=FLUXER, envelope="body_first").key_order == "body_first"


def test_a_session_time_of_zero_is_refused():
    with pytest.raises(ValueError, match="session_ttl_ms is 0: give 1 or more"):
        GatewayOptions(session_ttl_ms=0)


def test_discord_has_none_of_it(bench):
    b = bench()
    client = b.ready()
    b.gateway.reconnect(0)
    b.pump()
    assert client.end is None
    assert {"t", "s", "op", "d"} == set(client.messages[-1])
    assert b.gateway.address_gate is None
    assert Opcode.LAZY_REQUEST not in DISCORD.client_ops
