"""Session snapshots: what they hold, every reason to refuse one, and what a restored one means."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware.layouts.config import CONFIG
from firmware.layouts.discovery import DISCOVERY, DiscoveryMode, DiscoveryState
from firmware.layouts.log import LOG, LOG_RING
from firmware.layouts.node import PLAN
from firmware.layouts.policy import SessionProvider
from firmware.layouts.profile import ProfileId
from firmware.layouts.sessions import HANDED_OVER, SESSIONS, SessionProblem, SessionSnapshot
from firmware.layouts.shard import SSES_VALID, Session, SessionLoad, ShardContext, ShardFlag
from firmware.shard.identity import session_identity
from firmware.shard.snapshot import (
    SESSION_AT,
    session_confirm,
    snapshot_problem,
    snapshot_restore,
    snapshot_take,
)
from tests.support.lab import Lab
from tests.support.token import set_token

LAB = Lab(snapshot_take, snapshot_problem, snapshot_restore, session_confirm, session_identity)
TOKEN, HOST, PORT = b"a.token.of.tests", b"gateway.test", 8080
P = SessionProblem
SEQUENCE, GENERATION = 77, 3
BOT = hashlib.sha256(TOKEN).digest()[:16]
ENDPOINT = hashlib.sha256(HOST + PORT.to_bytes(2, "little")).digest()[:16]


def prepare(**fields):
    """A shard with a session, a bot, and a gateway that is configured."""
    LAB.reset()
    config = LAB.g(CONFIG)
    set_token(LAB, TOKEN)
    LAB.machine.write(config.offset_of("gateway_host"), HOST)
    config.gateway_host_len = len(HOST)
    config.gateway_port = PORT
    LAB.g(PLAN).generation = GENERATION
    shard = LAB.view(ShardContext, LAB.shard(0))
    shard.shard_id, shard.shard_total, shard.profile = 41, 64, ProfileId.FLUXER
    session = shard.session
    session.valid, session.session_id_len, session.resume_host_len = SSES_VALID, 4, 3
    session.resume_port, session.session_id[0:4], session.resume_host[0:3] = 80, b"abcd", b"gw1"
    for name, value in fields.items():
        setattr(shard, name, value)
    return shard


def taken(shard):
    at = LAB.put(bytes(SessionSnapshot.SIZE))
    LAB.call(snapshot_take, shard=shard.address_, snapshot=at, sequence=SEQUENCE)
    return LAB.view(SessionSnapshot, at)


def problem(shard, kept, age=0):
    got = LAB.call(snapshot_problem, shard=shard.address_, snapshot=kept.address_, age=age % 2**64)
    return got.outputs["eax"]


def lines():
    return LAB.machine.read(LAB.image.address(LOG_RING), LAB.g(LOG).head).decode()


def test_take_writes_session_identity_and_generation():
    shard = prepare()
    kept = taken(shard)
    assert (kept.shard_id, kept.shard_total, kept.sequence) == (41, 64, SEQUENCE)
    assert (kept.plan_generation, kept.profile) == (GENERATION, ProfileId.FLUXER)
    assert (bytes(kept.bot[:]), bytes(kept.endpoint[:])) == (BOT, ENDPOINT)
    assert TOKEN not in LAB.machine.read(kept.address_, SessionSnapshot.SIZE)
    assert problem(shard, kept) == 0


def test_the_digests_are_made_once():
    shard = prepare()
    taken(shard)
    set_token(LAB, b"abc")
    assert bytes(taken(shard).bot[:]) == BOT


def test_identity_of_a_discovered_gateway_waits_until_it_is_known():
    prepare()
    LAB.g(CONFIG).discovery = DiscoveryMode.HTTP
    assert LAB.call(session_identity).outputs["cf"] == 1
    found = LAB.g(DISCOVERY)
    found.state, found.gateway_host_len, found.gateway_port = DiscoveryState.REFUSED, 2, 81
    assert LAB.call(session_identity).outputs["cf"] == 1
    found.state = DiscoveryState.FOUND
    found.gateway_host[0:2] = b"gw"
    assert LAB.call(session_identity).outputs["cf"] == 0
    assert bytes(LAB.g(SESSIONS).endpoint[:]) == hashlib.sha256(b"gw\x51\x00").digest()[:16]


@pytest.mark.parametrize(
    ("age", "expected"),
    [
        (0, 0),
        (59_999, 0),
        (60_000, P.TOO_OLD),
        (2**62, P.TOO_OLD),
        (-5_000, 0),
        (-5_001, P.SAVED_IN_THE_FUTURE),
        (-(2**63), P.SAVED_IN_THE_FUTURE),
        (2**63 - 1, P.TOO_OLD),
    ],
)
def test_the_age_has_two_ends(age, expected):
    shard = prepare()
    assert problem(shard, taken(shard), age) == expected


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("magic", 1, P.MALFORMED),
        ("profile", ProfileId.DISCORD, P.ANOTHER_ENDPOINT),
        ("endpoint", b"\1" + ENDPOINT[1:], P.ANOTHER_ENDPOINT),
        ("endpoint", ENDPOINT[:15] + b"\1", P.ANOTHER_ENDPOINT),
        ("shard_id", 42, P.ANOTHER_PLAN),
        ("shard_total", 63, P.ANOTHER_PLAN),
        ("bot", b"\1" + BOT[1:], P.ANOTHER_BOT),
        ("bot", BOT[:15] + b"\1", P.ANOTHER_BOT),
        ("plan_generation", GENERATION + 1, P.ANOTHER_GENERATION),
        ("plan_generation", HANDED_OVER, 0),
    ],
)
def test_whatever_is_another_has_its_name(field, value, expected):
    shard = prepare()
    kept = taken(shard)
    if isinstance(value, bytes):
        getattr(kept, field)[:] = value
    else:
        setattr(kept, field, value)
    assert problem(shard, kept) == expected


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("valid", 0),
        ("session_id_len", 0),
        ("session_id_len", 257),
        ("session_id", b'ab"d'),
        ("session_id", b"abc\x7f"),
        ("resume_host_len", 129),
        ("resume_host_len", 2**32 - 1),
        ("resume_host", b"g/1"),
        ("resume_port", 0),
    ],
)
def test_a_session_that_no_service_gives_is_malformed(field, value):
    shard = prepare()
    kept = taken(shard)
    session = LAB.view(Session, kept.address_ + SESSION_AT)
    if isinstance(value, bytes):
        getattr(session, field)[0 : len(value)] = value
    else:
        setattr(session, field, value)
    assert problem(shard, kept) == P.MALFORMED


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("session_id", b"_"),
        ("session_id", b"aB9-_.~" + b"_" * 249),
        ("resume_host", b"g"),
        ("resume_host", b"aB9-." + b"h" * 123),
    ],
)
def test_a_session_may_be_as_long_as_its_places(field, text):
    """What stands in an id and in no host, too."""
    shard = prepare()
    kept = taken(shard)
    session = LAB.view(Session, kept.address_ + SESSION_AT)
    getattr(session, field)[0 : len(text)] = text
    setattr(session, f"{field}_len", len(text))
    assert problem(shard, kept) == 0


def test_a_session_without_a_host_of_its_own_is_fine():
    shard = prepare()
    kept = taken(shard)
    session = LAB.view(Session, kept.address_ + SESSION_AT)
    session.resume_host_len = session.resume_port = 0
    assert problem(shard, kept) == 0


def test_the_first_problem_counts():
    shard = prepare()
    kept = taken(shard)
    steps = [("plan_generation", P.ANOTHER_GENERATION), ("bot", P.ANOTHER_BOT)]
    steps += [("shard_total", P.ANOTHER_PLAN), ("endpoint", P.ANOTHER_ENDPOINT)]
    for field, expected in steps:
        if field in ("bot", "endpoint"):
            getattr(kept, field)[:] = bytes(16)
        else:
            setattr(kept, field, 9)
        assert problem(shard, kept) == expected
    assert problem(shard, kept, -6_000) == P.SAVED_IN_THE_FUTURE
    kept.magic = 0
    assert problem(shard, kept, 60_000) == P.MALFORMED


def test_while_the_gateway_is_not_discovered_its_endpoint_is_looked_at_later():
    shard = prepare()
    kept = taken(shard)
    kept.endpoint[:] = bytes(16)
    LAB.g(SESSIONS).endpoint_known = 0
    LAB.g(CONFIG).discovery = DiscoveryMode.HTTP
    assert problem(shard, kept) == 0
    kept.profile = ProfileId.DISCORD
    assert problem(shard, kept) == P.ANOTHER_ENDPOINT


@given(st.integers(0, SessionSnapshot.SIZE - 1), st.integers(1, 255), st.integers(-6000, 61_000))
def test_a_changed_byte_is_judged_as_the_model_says(at, flip, age):
    shard = prepare()
    kept = taken(shard)
    byte = LAB.machine.read(kept.address_ + at, 1)[0]
    LAB.machine.write(kept.address_ + at, bytes([byte ^ flip]))
    problem(shard, kept, age)


@pytest.mark.parametrize(("age", "told"), [(0, 0), (7_000, 7_000), (-1, 0), (-5_000, 0)])
def test_a_restored_session_is_the_shards_own(age, told):
    shard = prepare()
    kept = taken(shard)
    before = LAB.machine.read(shard.session.address_, 0x190)
    LAB.machine.write(shard.session.address_, bytes(0x190))
    LAB.call(snapshot_restore, shard=shard.address_, snapshot=kept.address_, age=age % 2**64)
    assert LAB.machine.read(shard.session.address_, 0x190) == before
    assert shard.sequence == shard.gap_from == SEQUENCE
    assert shard.flags == ShardFlag.SEQ_VALID | ShardFlag.RESTORED
    assert shard.load == SessionLoad.SETTLED
    assert bytes(shard.restored_endpoint[:]) == ENDPOINT
    assert f"code=lifecycle.sessionRestored ageMs={told} sequence={SEQUENCE}" in lines()


@pytest.mark.parametrize("at", [None, 0, 15])
def test_confirm_drops_what_is_not_of_this_gateway(at):
    flags = ShardFlag.SEQ_VALID | ShardFlag.RESTORED | ShardFlag.STARTUP_OVER
    shard = prepare(flags=flags, sequence=SEQUENCE)
    shard.restored_endpoint[:] = ENDPOINT
    shard.session.resume_host[0 : len(HOST)] = HOST
    shard.session.resume_host_len = len(HOST)
    if at is not None:
        shard.restored_endpoint[at] ^= 1
    got = LAB.call(session_confirm, shard=shard.address_).outputs["cf"]
    assert got == (at is not None)
    if at is None:
        assert (shard.session.valid, shard.flags, lines()) == (1, flags, "")
        return
    assert (shard.session.valid, shard.session.resume_host_len) == (0, 0)
    assert shard.flags == ShardFlag.STARTUP_OVER
    assert "code=lifecycle.sessionSnapshotIgnored problem=another_endpoint sequence=77" in lines()


@pytest.mark.parametrize(
    ("host", "allowed"),
    [(b"", True), (HOST, True), (b"a." + HOST, True), (b"evil.example", False), (b"test", False)],
)
def test_confirm_takes_a_foreign_resume_host_away(host, allowed):
    flags = ShardFlag.SEQ_VALID | ShardFlag.RESTORED
    shard = prepare(flags=flags, sequence=SEQUENCE)
    shard.restored_endpoint[:] = ENDPOINT
    shard.session_ptr = shard.session.address_
    shard.session.resume_host[0 : len(host)] = host
    shard.session.resume_host_len = len(host)
    assert LAB.call(session_confirm, shard=shard.address_).outputs["cf"] == 0
    assert (shard.session.valid, shard.flags) == (SSES_VALID, flags)
    assert shard.session.resume_host_len == (len(host) if allowed else 0)
    assert ("code=gateway.resume_url_ignored reason=foreign" in lines()) != allowed
    if not allowed:
        # What was written for the other host is written anew.
        assert b"Host: gateway.test:8080\r\n" in bytes(shard.websocket.request[:])


def test_confirm_takes_what_the_fleets_store_holds():
    """It is not told where the session was, and every node of the bot uses the same service."""
    flags = ShardFlag.SEQ_VALID | ShardFlag.RESTORED
    shard = prepare(flags=flags, sequence=SEQUENCE)
    LAB.g(CONFIG).session_provider = SessionProvider.BUS
    shard.session.resume_host[0 : len(HOST)] = HOST
    shard.session.resume_host_len = len(HOST)
    assert LAB.call(session_confirm, shard=shard.address_).outputs["cf"] == 0
    assert (shard.session.valid, shard.session.resume_host_len, lines()) == (1, len(HOST), "")
    shard.session.resume_host_len = len(HOST) - 1
    assert LAB.call(session_confirm, shard=shard.address_).outputs["cf"] == 0
    assert (shard.session.valid, shard.session.resume_host_len) == (1, 0)
    assert "code=gateway.resume_url_ignored reason=foreign" in lines()


def test_confirm_without_a_known_gateway_says_nothing():
    shard = prepare()
    LAB.g(CONFIG).discovery = DiscoveryMode.HTTP
    shard.restored_endpoint[:] = ENDPOINT
    assert LAB.call(session_confirm, shard=shard.address_).outputs["cf"] == 0
