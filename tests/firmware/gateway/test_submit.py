"""The send path: every verdict, the envelope on the wire, the room that control frames keep."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.gateway.poll import gateway_poll
from firmware.gateway.submit import gateway_check_body, gateway_submit
from firmware.gateway.timers import gateway_tick
from firmware.layouts.gateway import GatewayState
from firmware.layouts.node import CORE
from firmware.layouts.profile import DISCORD, FLUXER, PROFILES, ProfileId
from firmware.layouts.send import CONTROL_ROOM_BYTES, ROOM_WAIT_MS, SendResult
from firmware.layouts.shard import End, ShardState
from firmware.layouts.tcp import TcpState
from firmware.layouts.websocket import WsState
from firmware.limits import OUTBOUND_PAYLOAD_MAX, TX_BYTES
from tests.support.gateway_client import GatewayClient, ready_data
from tests.support.lab import Lab
from tests.support.stream import client_frames

LAB = Lab(gateway_poll, gateway_tick, gateway_submit, gateway_check_body)
R = SendResult


class Sender(GatewayClient):
    """A shard that is READY."""

    def __init__(self, profile=ProfileId.DISCORD, interval=41_250):
        super().__init__(LAB)
        self.shard.profile = profile
        self.hello(interval)
        self.dispatch("READY", 1, ready_data())
        self.shard.state = ShardState.READY
        self.sent()

    def submit(self, op, body):
        """Send a body; return verdict and wait."""
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        got = LAB.call(
            gateway_submit, shard=self.at, opcode=op, body=LAB.put(text), size=len(text)
        ).outputs
        return SendResult(got["eax"]), got["edx"]


def body_of(size):
    """Return a JSON object of some bytes."""
    return b'{"x":"' + b"y" * (size - 8) + b'"}'


PRESENCE: dict[str, object] = {"since": None, "activities": [], "status": "online", "afk": False}


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: p.id.name.lower())
def test_every_opcode_of_the_profile_is_sent_in_its_envelope(profile):
    sender = Sender(profile.id)
    for op in profile.send_ops:
        assert sender.submit(op, {"é": [op, None]}) == (R.OK, 0)
    assert sender.sent() == [{"op": op, "d": {"é": [op, None]}} for op in profile.send_ops]
    pacer = sender.shard.pacer
    count = len(profile.send_ops)
    assert (pacer.running, pacer.total, pacer.sent, pacer.refused) == (count, count, count, 0)


def test_the_tables_hold_the_opcodes_of_each_service():
    assert DISCORD.send_ops == (3, 4, 8, 31, 43)
    assert FLUXER.send_ops == (3, 4, 8, 14, 15, 16)
    assert [(p.version, p.send_limit, p.send_ceiling) for p in PROFILES] == [
        (10, 110, 120),
        (1, 500, 600),
    ]
    assert [p.id for p in PROFILES] == list(ProfileId)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: p.id.name.lower())
def test_any_other_opcode_is_refused(profile):
    sender = Sender(profile.id)
    for op in {*range(70), 2**31, 2**32 - 1} - set(profile.send_ops):
        assert sender.submit(op, {}) == (R.BAD_OP, 0), op
    assert sender.sent() == []


def test_the_body_leaves_as_it_is():
    sender = Sender()
    body = b' { "a" : 1.50, "b":"\\u00e9\xc3\xa9" }\n'
    assert sender.submit(3, body) == (R.OK, 0)
    frames = client_frames(sender.stream.take_sent())
    assert frames == [(0x81, b'{"op":3,"d":' + body + b"}")]


@pytest.mark.parametrize(
    ("op", "size", "result"),
    [
        (8, 4083, R.OK),
        (8, 4084, R.TOO_LARGE),
        (31, 4082, R.OK),
        (31, 4083, R.TOO_LARGE),
        (8, 4096, R.TOO_LARGE),
        (8, 4097, R.TOO_LARGE),
    ],
)
def test_a_payload_has_4096_bytes_at_most(op, size, result):
    sender = Sender()
    assert sender.submit(op, body_of(size)) == (result, 0)
    assert [len(json.dumps(m, separators=(",", ":"))) for m in sender.sent()] == (
        [OUTBOUND_PAYLOAD_MAX] if result is R.OK else []
    )


def test_a_length_that_would_wrap_is_too_large():
    sender = Sender()
    got = LAB.call(gateway_submit, shard=sender.at, opcode=3, body=0, size=2**32 - 5).outputs
    assert got["eax"] == R.TOO_LARGE


@pytest.mark.parametrize(
    "change",
    [
        *(("state", s) for s in ShardState if s != ShardState.READY),
        ("failure", End.CLOSED),
        *(("gateway", s) for s in GatewayState if s != GatewayState.READY),
        *(("websocket", s) for s in WsState if s != WsState.OPEN),
        *(("tcp", s) for s in TcpState if s != TcpState.ESTABLISHED),
    ],
    ids=lambda c: f"{c[0]}-{c[1].name.lower()}",
)
def test_a_shard_that_is_not_whole_takes_nothing(change):
    sender = Sender()
    what, state = change
    if what in ("state", "failure"):
        setattr(sender.shard, what, state)
    else:
        getattr(sender.shard, what).state = state
    assert sender.submit(3, PRESENCE) == (R.NOT_READY, 0)
    assert sender.sent() == []
    assert (sender.shard.pacer.total, sender.shard.pacer.refused) == (0, 0)


BAD = [
    b"",
    b" ",
    b"{",
    b"null",
    b"[]",
    b'"x"',
    b"1",
    b"{}{}",
    b"{},",
    b'{},"op":2',
    b'{}},{"op":2,"d":{}',
    b'{"a":1}}',
    b'{"a":[1}}',
    b'{"a":01}',
    b"{'a':1}",
    b'{"a":1,}',
    b'{"a":"\x01"}',
    b'{"a":"\n"}',
    b'{"a":NaN}',
    b"\xef\xbb\xbf{}",
    b'{"a":"\xff"}',
    b'{"a":"\xc3"}',
    b'{"a":"\xed\xa0\x80"}',
    b'{"a":"\xc0\x80"}',
    b'{"\xf5":1}',
    b'{"a":1}\0',
    b'{"t":"X","op":0,"d":{"a":01}}',
    b'{"t":"X","op":0,"d":{"a":[}}}',
    b'{"d":1,"d":2}',
    b'{"a":' * 64 + b"{}" + b"}" * 64,
]


@pytest.mark.parametrize("body", BAD, ids=range(len(BAD)))
def test_what_is_no_json_object_is_refused(body):
    sender = Sender()
    assert sender.submit(3, body) == (R.BAD_BODY, 0)
    assert sender.sent() == []


def is_object(text):
    """Tell whether a strict parser reads an object, without an envelope key twice at its top."""

    def refuse(_constant):
        raise ValueError

    def once(pairs):
        names = [name for name, _ in pairs]
        if names.count("op") > 1:
            raise ValueError(names)
        return dict(pairs)

    try:
        value = json.loads(text.decode(), parse_constant=refuse, object_pairs_hook=once)
        return isinstance(value, dict)
    except (ValueError, RecursionError):
        return False


@settings(max_examples=60, deadline=None)
@given(
    text=st.one_of(
        st.dictionaries(
            st.text(max_size=4), st.none() | st.floats(allow_nan=False) | st.text(max_size=4)
        ).map(lambda d: json.dumps(d, ensure_ascii=False).encode()),
        st.lists(
            st.sampled_from(
                [b"{", b"}", b'"a"', b":", b",", b"1", b" ", b"[", b"]", b'"op":2', b"\xc3", b"\\"]
            ),
            max_size=9,
        ).map(b"".join),
    )
)
def test_what_leaves_is_always_the_envelope_that_was_meant(text):
    """Whatever passes, another parser reads this opcode and this body, and nothing else."""
    sender = Sender()
    verdict, _ = sender.submit(8, text)
    whole = is_object(text)
    assert verdict is (R.OK if whole else R.BAD_BODY)
    assert sender.sent() == ([{"op": 8, "d": json.loads(text)}] if whole else [])


class TestLimits:
    @pytest.mark.parametrize("profile", PROFILES, ids=lambda p: p.id.name.lower())
    def test_the_minute_is_full_and_opens_again(self, profile):
        sender = Sender(profile.id)
        sender.submit(3, {})
        pacer = sender.shard.pacer
        pacer.running = pacer.total = profile.send_limit - 1
        assert sender.submit(3, {}) == (R.OK, 0)
        assert sender.submit(3, {}) == (R.RATE_LIMITED, 61_000)
        assert sender.shard.pacer.refused == 1
        sender.wait(60_999)
        assert sender.submit(3, {}) == (R.RATE_LIMITED, 1)
        sender.wait(1)
        assert sender.submit(3, {}) == (R.OK, 0)
        assert len(sender.sent()) == 3

    def test_the_server_s_limit_stops_its_opcode_alone(self):
        sender = Sender()
        sender.dispatch("RATE_LIMITED", 2, {"opcode": 8, "retry_after": 29.5})
        assert sender.submit(8, {}) == (R.RATE_LIMITED, 29_501)
        assert sender.submit(3, {}) == (R.OK, 0)
        sender.wait(29_500)
        assert sender.submit(8, {}) == (R.RATE_LIMITED, 1)
        sender.wait(1)
        assert sender.submit(8, {}) == (R.OK, 0)

    @pytest.mark.parametrize(("spare", "result"), [(0, R.OK), (-1, R.RATE_LIMITED)])
    def test_control_frames_keep_their_room(self, spare, result):
        sender = Sender()
        need = len(b'{"op":3,"d":{}}') + 1 + 8 + CONTROL_ROOM_BYTES
        sender.stream.fill(left=need + spare)
        wait = 0 if result is R.OK else ROOM_WAIT_MS
        assert sender.submit(3, {}) == (result, wait)
        assert TX_BYTES - sender.shard.tcp.tx_end >= CONTROL_ROOM_BYTES

    @pytest.mark.parametrize("profile", PROFILES, ids=lambda p: p.id.name.lower())
    def test_a_full_buffer_and_a_full_minute_do_not_delay_a_beat(self, profile):
        sender = Sender(profile.id)
        while sender.submit(3, body_of(1000))[0] is R.OK:
            pass
        left = TX_BYTES - sender.shard.tcp.tx_end
        assert CONTROL_ROOM_BYTES <= left < CONTROL_ROOM_BYTES + 1100, "the buffer is full"
        sender.shard.pacer.running = sender.shard.pacer.total = profile.send_limit
        assert sender.submit(3, {})[1] > ROOM_WAIT_MS, "so is the minute"
        # Due now: it is queued in this very tick, and the one that the server asks for as well.
        sender.gateway.hb_next = sender.now
        sender.tick()
        assert sender.gateway.beats == 1
        sender.receive({"op": 11})
        sender.receive({"op": 1, "d": None})
        assert sender.gateway.beats == 2
        assert [m["op"] for m in sender.sent()][-2:] == [1, 1]

    def test_beats_do_not_count_as_sends(self):
        sender = Sender()
        sender.gateway.hb_next = sender.now
        sender.tick()
        assert sender.gateway.beats == 1
        assert sender.shard.pacer.total == 0


@settings(max_examples=60, deadline=None)
@given(
    profile=st.sampled_from(ProfileId),
    sends=st.lists(
        st.tuples(
            st.sampled_from([3, 8, 14, 31, 43, 1, 64]),
            st.sampled_from([b"{}", b"[]", b'{"a":"\xc3\xa9"}', b"", body_of(4083), body_of(3000)]),
            st.sampled_from([0, 1, 999, 60_000, 61_000]),
        ),
        max_size=5,
    ),
    full=st.integers(0, 520),
    oldest=st.integers(0, 59),
    left=st.one_of(st.just(TX_BYTES), st.integers(0, TX_BYTES)),
)
def test_any_run_of_sends_matches_the_model(profile, sends, full, oldest, left):
    sender = Sender(profile)
    pacer = sender.shard.pacer
    pacer.second_at, pacer.oldest = LAB.g(CORE).now, oldest
    pacer.buckets[2 * oldest : 2 * oldest + 2] = full.to_bytes(2, "little")
    pacer.total = full
    sender.stream.fill(left=left)
    for op, body, wait in sends:
        text = bytes(body)
        before = sender.shard.tcp.tx_end - sender.shard.tcp.tx_start
        verdict, wait_ms = sender.submit(op, text)
        after = sender.shard.tcp.tx_end - sender.shard.tcp.tx_start
        assert (verdict is R.OK) == (after > before)
        assert (verdict is R.RATE_LIMITED) == (wait_ms > 0)
        sender.wait(wait)
