"""Required waits: what the peer asks for is never shortened."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.layouts.crypto import DRBG
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.profile import ProfileId
from firmware.layouts.shard import End, FailureFlag, ShardContext
from firmware.shard.wait import required_wait
from tests.support.lab import Lab
from tests.support.states import MS, NOW, shard_fields

LAB = Lab(required_wait)


def wait(**fields):
    LAB.reset()
    LAB.g(CLOCK).tsc_cycles_per_ms, LAB.g(CORE).now = MS, NOW
    LAB.g(DRBG).available = 64
    LAB.g(DRBG).seeded = 1
    shard = LAB.shard()
    context = LAB.view(ShardContext, shard)
    status = fields.pop("http_status", 0)
    draw = fields.pop("draw", b"")
    for name, value in fields.items():
        setattr(context, name, value)
    context.evidence.http_status = status
    if draw:
        pool = LAB.g(DRBG).pool
        start = pool.size - 64
        pool[start : start + len(draw)] = draw
    answer = LAB.call(required_wait, shard=shard).outputs["eax"]
    assert context.evidence.required_wait_ms == answer
    return answer, context


@settings(max_examples=120, deadline=None)
@given(fields=shard_fields(), status=st.sampled_from([0, 400, 401, 402, 403, 404, 429]))
def test_required_wait_any_state_matches_model(fields, status):
    wait(**fields, http_status=status)


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, 0),
        ({"required_wait_ms": 17}, 17),
        ({"failure": End.INVALID_SESSION}, 0),
        ({"http_status": 401}, 60_000),
        ({"http_status": 403, "required_wait_ms": 90_000}, 90_000),
        ({"failure_flags": FailureFlag.WAIT, "peer_close": 1013}, 5_000),
        ({"http_status": 404}, 5_000),
        ({"http_status": 499}, 5_000),
        ({"http_status": 399}, 0),
        ({"http_status": 500}, 0),
        ({"failure_flags": FailureFlag.WAIT, "http_status": 429, "required_wait_ms": 9_000}, 9_000),
        ({"failure_flags": FailureFlag.WAIT, "peer_close": 4008}, 5_000),
        (
            {
                "failure_flags": FailureFlag.WAIT,
                "peer_close": 4008,
                "rate_limited_at": NOW - 59_999 * MS,
            },
            30_000,
        ),
        (
            {
                "failure_flags": FailureFlag.WAIT,
                "peer_close": 4008,
                "rate_limited_at": NOW - 60_000 * MS,
            },
            5_000,
        ),
        (
            # a time that has no sign: nobody knows how long ago that was
            {"failure_flags": FailureFlag.WAIT, "peer_close": 4008, "rate_limited_at": NOW + 1},
            5_000,
        ),
    ],
)
def test_required_wait_takes_the_longest(fields, wanted):
    assert wait(**fields)[0] == wanted


LOST = {"failure": End.INVALID_SESSION, "failure_flags": FailureFlag.RESET_SESSION}


@pytest.mark.parametrize("asked_ms", [90_000, 2**31, 2**32 - 1])
@pytest.mark.parametrize(
    "fields",
    [
        LOST,
        {"http_status": 401},
        {"http_status": 403},
        {"http_status": 404},
        {"failure_flags": FailureFlag.WAIT, "peer_close": 1013},
        {"failure_flags": FailureFlag.WAIT, "peer_close": 4008, "rate_limited_at": NOW - 1},
    ],
)
def test_required_wait_that_the_peer_asked_for_is_never_shortened(fields, asked_ms):
    assert wait(**fields, required_wait_ms=asked_ms, draw=b"\xff" * 8)[0] == asked_ms


def test_required_wait_notes_the_time_of_a_rate_limit():
    _, context = wait(failure_flags=FailureFlag.WAIT, peer_close=4008)
    assert context.rate_limited_at == NOW


@pytest.mark.parametrize(
    ("draw", "wanted"), [(b"\x00" * 8, 1_000), (b"\xff" * 8, 4_999), (b"\0\0\0\x80" * 2, 3_000)]
)
def test_required_wait_of_a_lost_session_is_one_to_five_seconds(draw, wanted):
    assert wait(**LOST, draw=draw)[0] == wanted
    assert wait(**LOST, draw=draw, profile=ProfileId.FLUXER)[0] == 0
