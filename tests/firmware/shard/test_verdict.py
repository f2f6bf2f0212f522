"""Whether a shard tries again: health, anomalies in a row, attempts; and what kind of error it was."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.layouts.config import CONFIG
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.policy import STARTUP
from firmware.layouts.profile import ProfileId
from firmware.layouts.shard import (
    Classification,
    End,
    FailureFlag,
    ShardContext,
    ShardFlag,
    Stop,
)
from firmware.layouts.tls_sites import CERTIFICATE_NAME
from firmware.shard.verdict import classify, judge_health, shard_verdict
from tests.support.lab import Lab
from tests.support.states import MS, NOW, policies, set_policy, shard_fields

C = Classification
LAB = Lab(judge_health, shard_verdict, classify)


def prepare(fields=None, evidence=None):
    LAB.reset()
    LAB.g(CLOCK).tsc_cycles_per_ms, LAB.g(CORE).now = MS, NOW
    shard = LAB.shard()
    context = LAB.view(ShardContext, shard)
    for name, value in (fields or {}).items():
        setattr(context, name, value)
    for name, value in (evidence or {}).items():
        setattr(context.evidence, name, value)
    return shard, context


@settings(max_examples=120, deadline=None)
@given(
    fields=shard_fields(),
    policy=policies(),
    ready_for=st.sampled_from([-1, 0, 1, 999, 1_000, 59_999, 60_000, 60_001]),
)
def test_judge_health_any_state_matches_model(fields, policy, ready_for):
    shard, context = prepare(fields)
    set_policy(LAB, policy, NOW)
    context.connected_at = NOW - ready_for * MS if ready_for >= 0 else 0
    LAB.call(judge_health, shard=shard)


@pytest.mark.parametrize(("seconds", "step", "failures"), [(59, 4, 3), (60, 0, 1)])
def test_judge_health_of_a_minute_starts_again(seconds, step, failures):
    shard, context = prepare(
        {
            "connected_at": NOW - seconds * 1000 * MS,
            "recovery_step": 4,
            "protocol_failures": 2,
            "failure": End.PROTOCOL,
        }
    )
    LAB.call(judge_health, shard=shard)
    assert (context.recovery_step, context.protocol_failures) == (step, failures)
    assert context.evidence.protocol_failures == failures


def test_judge_health_starts_again_at_nothing_whatever_the_clock():
    """No byte of the span that health takes is zero."""
    shard, context = prepare(
        {"connected_at": 1, "recovery_step": 4, "protocol_failures": 2, "failure": End.NETWORK}
    )
    LAB.g(CLOCK).tsc_cycles_per_ms, LAB.g(CONFIG).healthy_reset_ms = 0x0101_0101, 0xFF
    LAB.call(judge_health, shard=shard)
    assert (context.recovery_step, context.protocol_failures) == (0, 0)


@pytest.mark.parametrize(
    ("failure", "flags", "counted"),
    [
        (End.PROTOCOL, 0, 1),
        (End.CLOSED, FailureFlag.ANOMALY, 1),
        (End.CLOSED, 0, 0),
        (End.NETWORK, 0, 0),
    ],
)
def test_judge_health_counts_anomalies_alone(failure, flags, counted):
    shard, context = prepare({"failure": failure, "failure_flags": flags})
    LAB.call(judge_health, shard=shard)
    assert context.protocol_failures == counted


@pytest.mark.parametrize(("before", "after"), [(254, 255), (255, 255)])
def test_judge_health_counts_anomalies_no_further_than_a_byte(before, after):
    shard, context = prepare({"failure": End.PROTOCOL, "protocol_failures": before})
    LAB.call(judge_health, shard=shard)
    assert context.protocol_failures == context.evidence.protocol_failures == after


@settings(max_examples=200, deadline=None)
@given(fields=shard_fields(), policy=policies())
def test_shard_verdict_any_state_matches_model(fields, policy):
    shard, _ = prepare(fields)
    set_policy(LAB, policy, NOW)
    LAB.call(shard_verdict, shard=shard)


def verdict(**fields):
    shard, _ = prepare(fields)
    LAB.g(CONFIG).startup_attempts = 3
    return LAB.call(shard_verdict, shard=shard).outputs["eax"]


@pytest.mark.parametrize(
    ("profile", "code", "stop"),
    [
        (ProfileId.DISCORD, 4004, Stop.AUTH),
        (ProfileId.DISCORD, 4010, Stop.CONFIG),
        (ProfileId.DISCORD, 4011, Stop.RESHARD),
        (ProfileId.DISCORD, 4012, Stop.CONFIG),
        (ProfileId.DISCORD, 4013, Stop.CONFIG),
        (ProfileId.DISCORD, 4014, Stop.CONFIG),
        (ProfileId.FLUXER, 4001, Stop.REFUSED),
        (ProfileId.FLUXER, 4004, Stop.AUTH),
        (ProfileId.FLUXER, 4005, Stop.REFUSED),
        (ProfileId.FLUXER, 4011, Stop.RESHARD),
        (ProfileId.DISCORD, 4000, Stop.REFUSED),
        (ProfileId.DISCORD, 1003, Stop.REFUSED),
        (ProfileId.DISCORD, 4015, Stop.REFUSED),
        (ProfileId.DISCORD, 4016, Stop.REFUSED),
        (ProfileId.FLUXER, 4015, Stop.REFUSED),
        (ProfileId.FLUXER, 4016, Stop.REFUSED),
    ],
)
def test_shard_verdict_of_a_fatal_close_has_its_reason(profile, code, stop):
    fields = {"failure": End.CLOSED, "failure_flags": FailureFlag.FATAL, "peer_close": code}
    assert verdict(**fields, profile=profile) == stop


def test_shard_verdict_of_a_fatal_anomaly_is_no_close():
    fields = {"failure": End.PROTOCOL, "peer_close": 4004}
    assert verdict(**fields, failure_flags=FailureFlag.FATAL) == Stop.REFUSED
    also = FailureFlag.FATAL | FailureFlag.RESET_SESSION
    assert verdict(**fields, failure_flags=also) == Stop.REFUSED
    both = FailureFlag.FATAL | FailureFlag.CONFIG
    assert verdict(**fields, failure_flags=both) == Stop.CONFIG


@pytest.mark.parametrize(
    ("fields", "stop"),
    [
        ({"protocol_failures": 2}, Stop.NONE),
        ({"protocol_failures": 3}, Stop.PROTOCOL_LIMIT),
        ({"protocol_failures": 3, "flags": ShardFlag.ESTABLISHED}, Stop.PROTOCOL_LIMIT),
        ({"attempts": 2}, Stop.NONE),
        ({"attempts": 3}, Stop.STARTUP_ATTEMPTS),
        ({"attempts": 2**32 - 1}, Stop.STARTUP_ATTEMPTS),
        ({"attempts": 9, "flags": ShardFlag.ESTABLISHED}, Stop.NONE),
        ({"attempts": 9, "flags": ShardFlag.STARTUP_OVER}, Stop.NONE),
    ],
)
def test_shard_verdict_limits(fields, stop):
    assert verdict(**fields, failure=End.NETWORK) == stop


@settings(max_examples=150, deadline=None)
@given(
    flags=st.sampled_from([0, *FailureFlag]),
    end=st.sampled_from(End),
    stop=st.sampled_from(Stop),
    wait=st.sampled_from([0, 5_000]),
    site=st.sampled_from([0, CERTIFICATE_NAME.number]),
)
def test_classify_any_state_matches_model(flags, end, stop, wait, site):
    shard, _ = prepare(
        {"failure_flags": flags},
        {"end": end, "stop": stop, "required_wait_ms": wait, "tls_site": site},
    )
    LAB.call(classify, shard=shard)


@pytest.mark.parametrize(
    ("end", "flags", "stop", "wait", "wanted", "reported"),
    [
        (End.CLOSED, 0, Stop.NONE, 0, C.CLOSED, C.CLOSED),
        (End.CLOSED, FailureFlag.FATAL, Stop.AUTH, 0, C.AUTHENTICATION, C.AUTHENTICATION),
        (End.CLOSED, FailureFlag.WAIT, Stop.NONE, 5_000, C.RATE_LIMIT, C.RATE_LIMIT),
        (End.TIMEOUT, 0, Stop.NONE, 0, C.TIMEOUT, C.TIMEOUT),
        (End.TIMEOUT, 0, Stop.STARTUP_ATTEMPTS, 0, C.TIMEOUT, C.TIMEOUT),
        (End.CLOSED, 0, Stop.STARTUP_ATTEMPTS, 0, C.CLOSED, C.CLOSED),
        (End.CLOSED, 0, Stop.STARTUP_DEADLINE, 0, C.CLOSED, C.TIMEOUT),
        (End.NETWORK, 0, Stop.STARTUP_DEADLINE, 9_000, C.NETWORK, C.RATE_LIMIT),
        (End.CLOSED, FailureFlag.WAIT, Stop.STARTUP_DEADLINE, 9_000, C.RATE_LIMIT, C.RATE_LIMIT),
        (End.DEFECT, 0, Stop.DEFECT, 0, C.DEFECT, C.DEFECT),
        (End.TCP_FAILED, 0, Stop.NONE, 0, C.NETWORK, C.NETWORK),
        (End.HEARTBEAT_TIMEOUT, 0, Stop.SCHEDULE_ENDED, 0, C.NETWORK, C.NETWORK),
    ],
)
def test_classify_names_the_kind_of_error(end, flags, stop, wait, wanted, reported):
    shard, context = prepare(
        {"failure_flags": flags}, {"end": end, "stop": stop, "required_wait_ms": wait}
    )
    LAB.g(STARTUP).budget_ms = 45_000
    LAB.call(classify, shard=shard)
    kept = context.evidence
    assert (kept.classification, kept.reported) == (wanted, reported)
    limit = stop in (Stop.STARTUP_ATTEMPTS, Stop.STARTUP_DEADLINE)
    assert kept.budget_ms == (45_000 if limit else 0)


def test_classify_a_startup_that_ends_in_the_wait_after_a_certificate_has_no_rate_limit():
    shard, context = prepare(
        evidence={
            "end": End.TLS_FAILED,
            "stop": Stop.STARTUP_DEADLINE,
            "required_wait_ms": 120_000,
            "tls_site": CERTIFICATE_NAME.number,
        }
    )
    LAB.call(classify, shard=shard)
    assert context.evidence.reported == C.TIMEOUT
