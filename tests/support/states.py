"""Generated states: every enum member, flag bits, edge words, and times around deadlines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from firmware.layouts.config import CONFIG
from firmware.layouts.gateway import GatewayState
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.permit import PERMITS
from firmware.layouts.policy import DEFAULTS, STARTUP, OnLimit, Policy
from firmware.layouts.profile import ProfileId
from firmware.layouts.shard import End, FailureFlag, Phase, ShardContext, ShardState
from firmware.layouts.tcp import TcpState
from firmware.layouts.tls import TlsState
from firmware.layouts.websocket import WsState

if TYPE_CHECKING:
    from tests.support.lab import Lab

DWORD = st.one_of(st.sampled_from([0, 1, 2**31, 2**32 - 1]), st.integers(0, 2**32 - 1))
QWORD = st.one_of(
    st.sampled_from([0, 1, 2**31, 2**32, 2**63, 2**64 - 1]), st.integers(0, 2**64 - 1)
)
MS = 1_000_000
"""Cycles per millisecond in most tests."""
NOW = 7_000_000 * MS


def around(*centres: int) -> st.SearchStrategy[int]:
    """Return times just before, at and after each centre; zero too."""
    near = [c + d for c in centres for d in (-1, 0, 1)]
    return st.sampled_from([0, *(n % 2**64 for n in near)])


def shard_in(
    lab: Lab,
    fields: dict[str, int] | None = None,
    layers: dict[str, int] | None = None,
    session: dict[str, int] | None = None,
    *,
    cycles: int = MS,
    present: bool = True,
) -> tuple[int, Any]:
    """Return a shard and its context in the given state, on a node in order.

    Args:
        lab: whose shard; it is reset.
        fields: Values of its ShardContext.
        layers: The states of its layers, by their names in ShardContext.
        session: Values of its session.
        cycles: Per millisecond; 0 = the clock is not calibrated.
        present: Whether it has room for a session.
    """
    lab.reset()
    lab.g(CLOCK).tsc_cycles_per_ms, lab.g(CORE).now = cycles, NOW
    lab.g(PERMITS).max_concurrency = 1
    shard = lab.shard()
    context = lab.view(ShardContext, shard)
    for name, value in (fields or {}).items():
        setattr(context, name, value)
    for name, value in (layers or {}).items():
        getattr(context, name).state = value
    for name, value in (session or {}).items():
        setattr(context.session, name, value)
    context.session_ptr = context.session.address_ if present else 0
    return shard, context


def shard_fields() -> st.SearchStrategy[dict[str, int]]:
    """Return values for the lifecycle fields of a ShardContext."""
    return st.fixed_dictionaries(
        {
            "state": st.sampled_from(ShardState),
            "phase": st.sampled_from(Phase),
            "flags": st.integers(0, 255),
            "sequence": DWORD,
            "reconnects": QWORD,
            "reconnect_deadline": around(NOW),
            "attempt_deadline": around(NOW),
            "close_deadline": around(NOW),
            "connected_at": around(NOW - 5 * MS),
            "failure": st.sampled_from([End.NONE, *End]),
            "failure_close": st.sampled_from([0, 1000, 4000]),
            "failure_flags": st.sampled_from([0, 0, 0, *FailureFlag]),
            "peer_close": st.sampled_from([0, 1013, *range(3999, 4017)]),
            "profile": st.sampled_from(ProfileId),
            "attempts": st.integers(0, 4),
            "recovery_step": st.sampled_from([0, 1, 2, 3, 30, 31, 255]),
            "protocol_failures": st.sampled_from([0, 1, 2, 3, 254, 255]),
            "rate_limited_at": around(NOW, NOW - 60_000 * MS),
            "required_wait_ms": st.sampled_from([0, 1, 7_000]),
            "last_error": DWORD,
        }
    )


def layer_states() -> st.SearchStrategy[dict[str, int]]:
    """Return a state for each layer below the lifecycle."""
    return st.fixed_dictionaries(
        {
            "tcp": st.sampled_from(TcpState),
            "tls": st.sampled_from([s for s in TlsState if not s.name.startswith("WAIT_")]),
            "websocket": st.sampled_from(WsState),
            "gateway": st.sampled_from(GatewayState),
        }
    )


def session_fields() -> st.SearchStrategy[dict[str, int]]:
    """Return values for the session object."""
    return st.fixed_dictionaries(
        {
            "valid": st.sampled_from([0, 1, 2]),
            "unanswered_resumes": st.integers(0, 4),
            "resume_host_len": st.sampled_from([0, 9]),
            "session_id_len": st.sampled_from([0, 32]),
        }
    )


def policies() -> st.SearchStrategy[dict[str, int]]:
    """Return values for the retry policy of the configuration, and the startup's deadline."""
    return st.fixed_dictionaries(
        {
            "policy": st.sampled_from(Policy),
            "on_limit": st.sampled_from(OnLimit),
            "schedule_len": st.integers(0, 3),
            "min_delay_ms": st.sampled_from([100, 1_000, 2**31 - 1]),
            "max_delay_ms": st.sampled_from([100, 30_000, 2**31 - 1]),
            "healthy_reset_ms": st.sampled_from([1_000, 60_000]),
            "startup_attempts": st.integers(1, 3),
            "deadline_in_ms": st.sampled_from([0, -1, 1, 500, 5_000, 30_000]),
        }
    )


def set_policy(lab: Lab, policy: dict[str, int], now: int) -> None:
    """Write a policy into the configuration; 0 leaves the startup's deadline unset."""
    config = lab.g(CONFIG)
    for name, value in {**DEFAULTS, **policy}.items():
        if name != "deadline_in_ms":
            setattr(config, name, value)
    for n in range(3):
        config.schedule_ms[n].ms = 10**n
    wanted = policy["deadline_in_ms"]
    if STARTUP.name in lab.image.symbols:
        lab.g(STARTUP).deadline = now + wanted * MS if wanted else 0
