"""Generated states: every enum member, flag bits, edge words, and times around deadlines."""

from __future__ import annotations

from hypothesis import strategies as st

from firmware.layouts.gateway import GatewayState
from firmware.layouts.shard import End, FailureFlag, Phase, ShardFlag, ShardState
from firmware.layouts.tcp import TcpState
from firmware.layouts.tls import TlsState
from firmware.layouts.websocket import WsState

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


def shard_fields() -> st.SearchStrategy[dict[str, int]]:
    """Return values for the lifecycle fields of a ShardContext."""
    return st.fixed_dictionaries(
        {
            "state": st.sampled_from(ShardState),
            "phase": st.sampled_from(Phase),
            "flags": st.integers(0, 63).map(lambda n: n & (2 * ShardFlag.ACTIVE - 1)),
            "sequence": DWORD,
            "reconnects": QWORD,
            "reconnect_deadline": around(NOW),
            "attempt_deadline": around(NOW),
            "close_deadline": around(NOW),
            "connected_at": around(NOW - 5 * MS),
            "failure": st.sampled_from([End.NONE, End.CLOSED, End.PROTOCOL]),
            "failure_close": st.sampled_from([0, 1000, 4000]),
            "failure_flags": st.sampled_from([0, *FailureFlag]),
            "peer_close": st.sampled_from([0, 4004]),
            "last_error": DWORD,
        }
    )


def layer_states() -> st.SearchStrategy[dict[str, int]]:
    """Return a state for each layer below the lifecycle."""
    return st.fixed_dictionaries(
        {
            "tcp": st.sampled_from(TcpState),
            "tls": st.sampled_from(TlsState),
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
