"""What a shard and its node look like from outside: seed B's six names, derived (decision 26)."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from firmware.layouts.shard import Hold, ShardFlag, ShardState

if TYPE_CHECKING:
    from collections.abc import Sequence


class ConnectionState(enum.Enum):
    """Seed B's states, by their names."""

    DISCONNECTED = "Disconnected"
    CONNECTING = "Connecting"
    CONNECTED = "Connected"
    RECOVERING = "Recovering"
    CLOSING = "Closing"
    CLOSED = "Closed"


# State to the name before the first READY, and after it.
_NAMES = {
    ShardState.ASSIGNED: (ConnectionState.DISCONNECTED, ConnectionState.DISCONNECTED),
    ShardState.STARTING: (ConnectionState.CONNECTING, ConnectionState.RECOVERING),
    ShardState.READY: (ConnectionState.CONNECTED, ConnectionState.CONNECTED),
    ShardState.BACKOFF: (ConnectionState.CONNECTING, ConnectionState.RECOVERING),
    ShardState.FATAL: (ConnectionState.CLOSED, ConnectionState.CLOSED),
}
# The node has the first of these that any of its shards has; Closed needs all of them.
_ORDER = (
    ConnectionState.CLOSING,
    ConnectionState.RECOVERING,
    ConnectionState.CONNECTING,
    ConnectionState.DISCONNECTED,
    ConnectionState.CONNECTED,
    ConnectionState.CLOSED,
)


def shard_state(state: int, hold: int, flags: int, *, closing: bool) -> ConnectionState:
    """Return the name of a shard's state.

    Args:
        state: ShardState.
        hold: Hold.
        flags: ShardFlag bits.
        closing: Whether its farewell still runs.
    """
    if hold == Hold.STOPPED and state == ShardState.ASSIGNED:
        return ConnectionState.CLOSING if closing else ConnectionState.CLOSED
    return _NAMES[ShardState(state)][bool(flags & ShardFlag.ESTABLISHED)]


def node_state(shards: Sequence[ConnectionState]) -> ConnectionState:
    """Return the name of the node's state: Connected only when every shard is."""
    live = [state for state in shards if state is not ConnectionState.CLOSED]
    if not live:
        return ConnectionState.CLOSED if shards else ConnectionState.DISCONNECTED
    if len(live) < len(shards) and all(s is ConnectionState.CONNECTED for s in live):
        return ConnectionState.RECOVERING
    return next(state for state in _ORDER if state in live)


def node_latency(shards: Sequence[tuple[ConnectionState, int | None]]) -> int | None:
    """Return the slowest latency in milliseconds; None unless every shard is READY and has one."""
    known = [ms for state, ms in shards if ms is not None and state is ConnectionState.CONNECTED]
    return max(known) if known and len(known) == len(shards) else None
