"""The lifecycle as one table: transitions T1 to T25 and invariants I1 to I10.

The simulator takes the legal changes of state from it, `shardfw layout --machine` prints it as a table
and as a diagram, a test holds the documentation and the routines' names to it.
"""

from __future__ import annotations

from dataclasses import dataclass

from firmware.layouts.shard import ShardState

A, S, R, B, F = (
    ShardState.ASSIGNED,
    ShardState.STARTING,
    ShardState.READY,
    ShardState.BACKOFF,
    ShardState.FATAL,
)


@dataclass(frozen=True)
class Transition:
    """One row.

    Attributes:
        name: T1 to T25.
        before: States in which it may happen.
        after: States that may follow; when empty, or besides, it stays.
        event: What happens, or holds.
        does: What the node does then.
        routine: Where it is done.
    """

    name: str
    before: tuple[ShardState, ...]
    after: tuple[ShardState, ...]
    event: str
    does: str
    routine: str


def _row(
    number: int,
    before: tuple[ShardState, ...],
    after: tuple[ShardState, ...],
    event: str,
    does: str,
    routine: str,
) -> Transition:
    return Transition(f"T{number}", before, after, event, does, routine)


TRANSITIONS = (
    _row(1, (A,), (S,), "lease, clock, network and allowance allow it", "reset, queue for the permit", "shard_begin"),
    _row(2, (S,), (), "the layer of the phase is ready", "next phase", "shard_advance"),
    _row(3, (S,), (), "Hello", "first heartbeat somewhere in the interval; Resume or Identify", "gateway_op_hello"),
    _row(4, (S,), (), "permit granted, allowance left", "the attempt's clock starts; the Identify is counted when it leaves", "shard_ask_permit"),
    _row(5, (A, S), (A,), "allowance spent", "NO_IDENT_BUDGET, one line, again when the window restarts", "allowance_hold"),
    _row(6, (S,), (R,), "READY for this shard", "session, host and sequence stored; established", "gateway_ready"),
    _row(7, (S,), (), "a dispatch before RESUMED", "the sequence is the maximum", "gateway_op_dispatch"),
    _row(8, (S,), (R,), "RESUMED", "resumes + 1, outage and gap are told", "shard_become_ready"),
    _row(9, (S,), (B, F), "the attempt, Hello or RESUMED is overdue", "timeout, close 4000", "shard_find_failure"),
    _row(10, (R,), (), "a dispatch", "sequence, hand-over", "gateway_op_dispatch"),
    _row(11, (S, R), (), "a heartbeat is due, none is pending", "op 1 with the sequence or null", "gateway_beat"),
    _row(12, (S, R), (B, F), "an interval passed without its ACK, or without room for it", "misses + 1, heartbeatTimeout; or sendFailed; close 4000", "gateway_beat"),
    _row(13, (S, R), (), "op 1, op 11, an unknown opcode", "beat at once; latency; count", "gateway_message"),
    _row(14, (S, R), (B, F), "op 7", "reconnectRequested, close 4000", "gateway_op_reconnect"),
    _row(15, (S, R), (B, F), "op 9 true on Discord, not the third in a row", "session kept, close 4000", "gateway_op_invalid"),
    _row(16, (S, R), (B, F), "any other op 9", "session dropped, close 1000, the wait of the profile", "gateway_op_invalid"),
    _row(17, (S, R), (B, F), "a close frame, FIN, RST, TCP or TLS FAILED", "as the profile's table says", "gateway_closed"),
    _row(18, (S, R), (B, F), "an anomaly", "counted; session dropped; close 4000; FATAL at the limit", "gateway_violate"),
    _row(19, (S, R), (B, F), "every failure", "evidence, session, health, verdict, delay, one record, farewell", "shard_lose"),
    _row(20, (B,), (F,), "deadline 0", "the normal backoff is scheduled, once", "tick_backoff"),
    _row(21, (B,), (S,), "the deadline has passed", "wipe, restore, rebind, as T1", "shard_begin"),
    _row(22, (A, S, R, B), (A,), "the lease expired, the plan changed, or the node stops", "nothing leaves after an expiry; else close 4000 first", "shard_hold"),
    _row(23, (A,), (S,), "a new grant", "the session in memory is tried", "lease_grant"),
    _row(24, (F,), (A,), "a new plan", "session and counters cleared, established", "shard_renew"),
    _row(25, (B,), (A,), "deadline 0 without a clock", "NO_CLOCK, one record, no counter grows", "tick_backoff"),
)  # fmt: skip

INVARIANTS = {
    "I1": "only this shard's memory changes",
    "I2": "evidence is written before anything is wiped",
    "I3": "a Resume needs a valid session and a valid sequence of the same bot, profile and total",
    "I4": "the stored sequence never decreases within a session",
    "I5": "nothing leaves for a shard from the tick that sees its lease expired",
    "I6": "no Identify without a permit",
    "I7": "the token goes to the base host, or on a Resume to a host under the allowed suffix",
    "I8": "every wait has a deadline; no state depends on a peer's answer alone",
    "I9": "FATAL never retries",
    "I10": "heartbeats never wait behind other sends",
}


def changes(*, without: tuple[str, ...] = ()) -> dict[ShardState, frozenset[ShardState]]:
    """Return the states that may follow each state, itself left out.

    Args:
        without: Transitions that cannot happen in the case at hand.
    """
    rows = [row for row in TRANSITIONS if row.name not in without]
    return {
        state: frozenset(after for row in rows if state in row.before for after in row.after)
        - {state}
        for state in ShardState
    }


def table() -> str:
    """Return the transitions as a Markdown table."""
    rows = ["| | from | to | when | what the node does | routine |", "|---|---|---|---|---|---|"]
    for row in TRANSITIONS:
        before = ", ".join(state.name for state in row.before)
        after = " or ".join(state.name for state in row.after) or "the same"
        rows.append(
            f"| {row.name} | {before} | {after} | {row.event} | {row.does} | `{row.routine}` |"
        )
    return "\n".join(rows) + "\n"


def diagram() -> str:
    """Return the states and what moves a shard between them, as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {ShardState.ASSIGNED.name}"]
    for before in ShardState:
        for after in ShardState:
            names = [row.name for row in TRANSITIONS if before in row.before and after in row.after]
            if names and before != after:
                lines.append(f"    {before.name} --> {after.name}: {', '.join(names)}")
    return "\n".join(lines) + "\n"


def invariants() -> str:
    """Return the invariants as a Markdown list."""
    return "".join(f"- {name}: {text}.\n" for name, text in INVARIANTS.items())
