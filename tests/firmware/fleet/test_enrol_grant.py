"""What is released: the one that is taken, and all that is refused and changes nothing."""

import pytest

from emulator.constant_time import same_traces
from firmware.fleet.enrol_grant import enrol_input, enrol_refuse, enrol_take, grant_judge
from firmware.layouts.bus import BUS, BUS_IN
from firmware.layouts.credentials import CREDENTIALS, Credentials
from firmware.layouts.crypto import HKDF, HMAC
from firmware.layouts.enrol import (
    ENROL,
    ENROL_GRANT,
    ENROL_LENGTH,
    ENROL_LOGIN,
    ENROL_SEAL,
    ENROL_TOKEN,
    SEALED_BYTES,
    EnrolState,
)
from firmware.layouts.fleet_config import CREDENTIAL_MAX, BusAuth
from firmware.layouts.hpke import HPKE
from firmware.layouts.node import CORE
from firmware.layouts.token import TOKEN as BOT_TOKEN
from firmware.limits import TOKEN_MAX
from tests.support.enrol import INFO, PRIVATE, TOKEN, EnrolBench, grant, public_of, sealed

BENCH = EnrolBench(enrol_input, enrol_take, enrol_refuse, grant_judge)
LAB = BENCH.lab


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()
    BENCH.waiting()
    LAB.g(CREDENTIALS).wipe()


def given(body, *, free=True, **fields):
    """Hand a message over; return whether it was an answer. The lockstep of a seal takes seconds."""
    BENCH.in_hand(body, **fields)
    if free:
        return not LAB.free(enrol_input)["flags"] & 1
    return not BENCH.run(enrol_input)["cf"]


def token():
    found = LAB.g(BOT_TOKEN)
    return bytes(found.text)[: found.length]


def leftovers():
    """Return what may hold more than it should, when the token is taken."""
    places = (ENROL, HPKE, HKDF, HMAC)
    return b"".join(LAB.machine.read(LAB.image.address(one), one.size) for one in places)


def test_enrol_input_takes_what_is_sealed_to_this_boot():
    assert given(sealed(), free=False)
    state = BENCH.enrol
    assert token() == TOKEN
    assert (state.state, state.refused, state.announce_at) == (EnrolState.ENROLLED, 0, 0)
    assert (state.relogin, LAB.g(BUS).enrolling) == (1, 0)
    assert BENCH.lines() == ["enrol.done announced=0 refused=0"]
    left = leftovers()
    assert TOKEN not in left, "the token lies in one place"
    assert PRIVATE not in left, "the key has done its part"
    assert LAB.g(CREDENTIALS).auth == BusAuth.NONE
    # The answer of a second operator comes too late.
    assert given(sealed(grant(b"another")), free=False)
    assert (token(), state.late) == (TOKEN, 1)


def test_enrol_input_takes_a_login_along():
    login = {
        "auth": BusAuth.USER,
        "user_len": 2,
        "user": b"n7",
        "password_len": 2,
        "password": b"pw",
    }
    assert given(sealed(grant(login=login)), free=False)
    found = LAB.g(CREDENTIALS)
    assert (found.auth, bytes(found.user)[:3]) == (BusAuth.USER, b"n7\0")
    assert (found.user_len, found.password_len, BENCH.enrol.relogin) == (2, 2, 1)
    assert token() == TOKEN


def test_enrol_input_takes_the_longest_of_everything():
    login = {
        "auth": BusAuth.NKEY, "user_len": CREDENTIAL_MAX, "user": b"u" * CREDENTIAL_MAX,
        "password_len": CREDENTIAL_MAX, "password": b"p" * CREDENTIAL_MAX,
        "nkey_seed": b"s" * 32, "nkey_public": b"U" * 56,
    }  # fmt: skip
    assert given(sealed(grant(b"t" * TOKEN_MAX, login=login)))
    assert token() == b"t" * TOKEN_MAX
    assert (
        LAB.machine.read(LAB.image.address(CREDENTIALS), Credentials.SIZE)
        == grant(login=login)[-Credentials.SIZE :]
    )


def refused_as(site, detail=0, count=1):
    state = BENCH.enrol
    assert (state.error, state.refused) == (site.code | detail, count)
    assert (state.state, token()) == (EnrolState.WAITING, b"")
    assert bytes(state.keys.private) == PRIVATE, "it waits for the right one"
    assert bytes(state.sealed) == bytes(SEALED_BYTES)
    assert (state.relogin, LAB.g(BUS).enrolling) == (0, 1)
    assert LAB.g(CREDENTIALS).auth == BusAuth.NONE
    assert BENCH.lines()[-1] == f"enrol.refused reason={site.name} refused={count}"


def damaged(at):
    body = bytearray(sealed())
    body[at] ^= 0x10
    return bytes(body)


OTHER = bytes(range(1, 33))
"""The private key of another boot."""
WRONG_SEALS = {
    "damaged enc": lambda: damaged(3),
    "damaged text": lambda: damaged(200),
    "damaged tag": lambda: damaged(SEALED_BYTES - 1),
    "small order": lambda: bytes(32) + sealed()[32:],
    "another boot's key": lambda: sealed(private=OTHER),
    "another node": lambda: sealed(info=INFO.replace(b" n7 ", b" n8 ")),
    "another build": lambda: sealed(info=INFO[:-1] + b"0"),
    "another machine": lambda: sealed(info=INFO.replace(b"S-1", b"S-2")),
    "no info": lambda: sealed(info=b""),
}


@pytest.mark.parametrize("what", WRONG_SEALS)
def test_enrol_input_refuses_a_wrong_seal(what):
    assert given(WRONG_SEALS[what]())
    refused_as(ENROL_SEAL)


def test_enrol_input_refuses_a_wrong_seal_in_lockstep_and_takes_the_next_one():
    assert given(damaged(200), free=False)
    refused_as(ENROL_SEAL)
    assert given(sealed())
    assert token() == TOKEN


@pytest.mark.parametrize("length", [0, 1, 47, SEALED_BYTES - 1, SEALED_BYTES + 1, 4000])
def test_enrol_input_refuses_another_length(length):
    assert given(sealed().ljust(length, b"\0")[:length], free=False)
    refused_as(ENROL_LENGTH, length)


def test_enrol_input_tells_a_length_of_two_bytes_at_most():
    body = sealed()
    BENCH.in_hand(body)
    LAB.g(BUS_IN).body_len = 0x12_3456
    BENCH.run(enrol_input)
    refused_as(ENROL_LENGTH, 0xFFFF)


OUT_OF_BOUNDS = [
    (grant(magic=0x3247_4653), ENROL_GRANT, 0),
    (grant(token_len=0), ENROL_TOKEN, 0),
    (grant(token_len=TOKEN_MAX + 1), ENROL_TOKEN, TOKEN_MAX + 1),
    (grant(token_len=2**32 - 1), ENROL_TOKEN, 0xFFFF),
    (grant(login={"auth": 3}), ENROL_LOGIN, 0),
    (grant(login={"auth": 1, "user_len": CREDENTIAL_MAX + 1}), ENROL_LOGIN, 0),
    (grant(login={"auth": 1, "password_len": CREDENTIAL_MAX + 1}), ENROL_LOGIN, 0),
]


@pytest.mark.parametrize(("plain", "site", "detail"), OUT_OF_BOUNDS)
def test_grant_judge_bounds_every_length(plain, site, detail):
    assert LAB.call(grant_judge, grant=LAB.put(plain)).outputs["eax"] == site.code | detail
    assert given(sealed(plain))
    refused_as(site, detail)


def test_enrol_take_in_lockstep_refuses_what_was_sealed_and_is_no_grant():
    plain, site, detail = OUT_OF_BOUNDS[2]
    assert given(sealed(plain), free=False)
    refused_as(site, detail)


def test_grant_judge_finds_nothing_wrong_with_a_good_one():
    for plain in (grant(b"t"), grant(b"t" * TOKEN_MAX, login={"auth": BusAuth.NKEY})):
        assert LAB.call(grant_judge, grant=LAB.put(plain)).outputs["eax"] == 0


def test_enrol_take_takes_the_same_steps_whatever_key_and_token():
    secrets = [bytes([n]) * 32 for n in (1, 0x55, 0xAA, 0xFF)] + [bytes(range(32))]

    def prepare(secret, length):
        BENCH.lab.g(CORE).now = 0
        state = BENCH.waiting()
        public = public_of(secret)
        state.keys.private[:], state.keys.public[:] = secret, public.public_bytes_raw()
        token = bytes(33 + byte % 90 for byte in (secret * 9)[:length])
        BENCH.in_hand(sealed(grant(token), private=secret))
        return {}

    publics = [20, TOKEN_MAX]
    same_traces(LAB.machine, enrol_take, prepare, secrets=secrets, publics=publics, minimum=200_000)


@pytest.mark.parametrize(("inbox", "asked"), [(6, 5), (0, 5), (0, 0), (5, 0)])
def test_enrol_input_leaves_what_answers_something_else(inbox, asked):
    BENCH.enrol.inbox = asked
    assert not given(sealed(), inbox=inbox, free=False)
    assert (BENCH.enrol.refused, token()) == (0, b"")


def test_enrol_input_counts_that_nobody_listens():
    assert given(b"", status=503, free=False)
    state = BENCH.enrol
    assert (state.unheard, state.refused, state.state) == (1, 0, EnrolState.WAITING)
    assert state.here == 1  # with the announcement itself two
    assert BENCH.lines() == []
    state.here = 2**16 - 1
    assert given(b"", status=503, free=False)
    assert state.here == 0


def test_enrol_refuse_tells_less_and_less():
    for _ in range(20):
        BENCH.run(enrol_refuse, error=ENROL_SEAL.code)
    told = [int(line.rpartition("=")[2]) for line in BENCH.lines()]
    assert told == [1, 2, 4, 8, 16]
    BENCH.enrol.refused = 2**32 - 1
    BENCH.run(enrol_refuse, error=ENROL_SEAL.code)
    assert BENCH.enrol.refused == 0
