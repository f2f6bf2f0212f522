"""What must hold of one shard after every turn of its node, whatever the peers do.

Each rule gets the shard's row before and after a turn and says what is wrong, or nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from emulator.simulation.node import CYCLES_PER_MS
from firmware.layouts import machine
from firmware.layouts.clock import NEVER
from firmware.layouts.gateway import GatewayFlag
from firmware.layouts.policy import DEFAULTS
from firmware.layouts.profile import PROFILES
from firmware.layouts.shard import SSES_VALID, Hold, Phase, ShardFlag, ShardState
from firmware.layouts.tcp import TcpState
from firmware.limits import SHARDS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.simulation.shard_row import ShardRow

    ShardRule = Callable[[ShardRow, ShardRow, "Turn"], str]

S = ShardState
_AT_ONCE = {S.ASSIGNED: frozenset((S.BACKOFF, S.FATAL))}
"""An attempt that is refused at once begins and ends in one turn."""
TRANSITIONS: dict[int, frozenset[int]] = {
    state: after | _AT_ONCE.get(state, frozenset())
    for state, after in machine.changes(without=("T24",)).items()
}
"""What one turn may do to a state while the plan stays as it is."""
_FIXED = ("slot", "shard_id", "shard_total", "tx_base", "ring_base", "session_ptr")
_GROWING = ("attempts", "hb_misses", "resumes", "identifies", "dispatches", "reconnects")
_READERS: dict[tuple[str, ...], Callable[[ShardRow], object]] = {
    names: attrgetter(*names) for names in (_FIXED, _GROWING)
}
_SEQ_VALID = int(ShardFlag.SEQ_VALID)
"""A plain number: the operators of an enum cost more than all else that is done with it here."""
_ACK_PENDING, _BEAT_OWED = int(GatewayFlag.ACK_PENDING), int(GatewayFlag.BEAT_OWED)
_BEFORE_HELLO = (Phase.PERMIT, Phase.RESOLVE, Phase.TCP, Phase.TLS, Phase.WS)
_CONNECTING = (Phase.RESOLVE, Phase.TCP, Phase.TLS, Phase.WS)
_HEARTBEAT_FIELDS = (
    "gateway_hb_next", "gateway_hb_sent_at", "gateway_flags", "gateway_beats",
    "gateway_heartbeat_interval_ms",
)  # fmt: skip
LONGEST_WAITS_MS = {
    "attempt_deadline": 30_000, "phase_deadline": 20_000, "close_deadline": 5_000,
}  # fmt: skip
"""The bounds of decision 21 and of a graceful close."""
HEALTHY_MS = 60_000
"""How long a connection is READY before failures count from zero again (seed B)."""
STARTUP_LONGEST_MS = 30_000 + (SHARDS_MAX - 1) * max(
    profile.identify_spacing_ms for profile in PROFILES
)
"""Before the first READY an attempt has what is left of the group start, spacing included."""
RECOVERING = ShardFlag.ESTABLISHED | ShardFlag.STARTUP_OVER
_FREE_PHASES = (Phase.PERMIT,)
"""Phases that wait without spending the budget of the attempt."""


@dataclass(slots=True)
class Turn:
    """Node-wide facts of one turn; times in TSC.

    Attributes:
        now: when it began.
        deadline: when the node asked for the next; NEVER = only on a frame.
        expired: whether the lease is expired at its end.
        generation: of the lease.
        tcp_frames: TCP frames of shards that it sent.
        calibrated: whether the node knows how fast its clock runs.
    """

    now: int
    deadline: int
    expired: int
    generation: int
    tcp_frames: int
    calibrated: bool = True


def _transition(old: ShardRow, new: ShardRow, _turn: Turn) -> str:
    if new.state == old.state or new.state in TRANSITIONS[S(old.state)]:
        return ""
    return f"{S(old.state).name} became {S(new.state).name}"


def _identity(old: ShardRow, new: ShardRow, _turn: Turn) -> str:
    return _changed(old, new, _FIXED, lambda a, b: a == b)


def _counters(old: ShardRow, new: ShardRow, _turn: Turn) -> str:
    return _changed(old, new, _GROWING, lambda a, b: a <= b)


def _changed(
    old: ShardRow, new: ShardRow, names: tuple[str, ...], good: Callable[[int, int], bool]
) -> str:
    read = _READERS[names]
    if read(old) == read(new):
        return ""
    for name in names:
        before, after = getattr(old, name), getattr(new, name)
        if not good(before, after):
            return f"{name} went from {before:#x} to {after:#x}"
    return ""


def _backoff(old: ShardRow, new: ShardRow, turn: Turn) -> str:
    """A backoff counts once, is dated, waits what it says and has to, and ends no earlier."""
    early = old.state == S.BACKOFF and new.state == S.STARTING
    if early and old.reconnect_deadline > turn.now:
        return f"a retry at {turn.now}, which was due at {old.reconnect_deadline}"
    entered = new.state == S.BACKOFF and old.state != S.BACKOFF
    if new.reconnects - old.reconnects != int(entered):
        return f"reconnects grew by {new.reconnects - old.reconnects} on entering={entered}"
    if not entered:
        return ""
    if new.evidence_failed_at != turn.now:
        return f"the evidence is dated {new.evidence_failed_at}, the turn {turn.now}"
    delay, required = new.evidence_delay_ms, new.evidence_required_wait_ms
    waited = new.reconnect_deadline - turn.now
    if not turn.calibrated:
        undated = (new.reconnect_deadline, delay) == (0, 0)
        return "" if undated else f"a delay of {delay} ms without a clock"
    if waited != delay * CYCLES_PER_MS:
        return f"the backoff lasts {waited} cycles, but its record says {delay} ms"
    if delay < required:
        return f"the delay of {delay} ms is shorter than the {required} ms that the peer asked for"
    longest = max(DEFAULTS["max_delay_ms"], required)
    return "" if delay <= longest else f"the delay of {delay} ms is above {longest} ms"


def waits_of(new: ShardRow, now: int) -> list[tuple[str, int]]:
    """Return the name and the value of every deadline that ends something a shard waits for."""
    limits: list[tuple[str, int]] = []
    if new.state == S.STARTING:
        if new.phase not in _FREE_PHASES:
            limits.append(("attempt_deadline", new.attempt_deadline))
        if new.phase_deadline:
            limits.append(("phase_deadline", new.phase_deadline))
    elif new.state == S.BACKOFF:
        limits.append(("reconnect_deadline", new.reconnect_deadline))
    if new.gateway_hb_next and new.state in (S.STARTING, S.READY):
        interval = new.gateway_heartbeat_interval_ms * CYCLES_PER_MS
        if new.gateway_flags & _BEAT_OWED and new.gateway_hb_next <= now:
            limits.append(("a beat's room", new.gateway_hb_next + interval))
        else:
            limits.append(("hb_next", new.gateway_hb_next))
        if new.gateway_flags & _ACK_PENDING:
            limits.append(("heartbeat ACK", new.gateway_hb_sent_at + interval))
    if new.close_deadline and new.state in (S.ASSIGNED, S.BACKOFF, S.FATAL):
        limits.append(("close_deadline", new.close_deadline))
    return limits


def first_wait(row: ShardRow, now: int) -> int:
    """Return the earliest deadline of a shard, NEVER when it waits for nothing."""
    return min((value for _, value in waits_of(row, now)), default=NEVER)


def every_wait_is_dated(_old: ShardRow, new: ShardRow, turn: Turn) -> str:
    """Every wait has a deadline, and the node wants to run by then (I8)."""
    for name, value in waits_of(new, turn.now):
        if value == 0 and name == "reconnect_deadline" and not turn.calibrated:
            continue  # it becomes ASSIGNED(NO_CLOCK) with the next tick
        if value == 0:
            return f"{S(new.state).name} in phase {new.phase} waits without {name}"
        if name == "reconnect_deadline" and value <= turn.now:
            continue  # the farewell of the last connection comes first, and is a wait of its own
        if turn.deadline > value:
            return f"{name} is {value}, but the node wants to run at {turn.deadline}"
    return ""


def _overdue(old: ShardRow, new: ShardRow, turn: Turn) -> str:
    """What was due by the beginning of a turn is done at its end, and no wait is too long (I8)."""
    for name, value in waits_of(new, turn.now):
        # A reconnect that is due may wait for the farewell of the last connection; a delay that
        # was drawn in this turn may be nothing, and ends with the next one.
        fresh = new.close_deadline or old.state != S.BACKOFF
        if value <= turn.now and not (name == "reconnect_deadline" and fresh):
            return f"{name} was due at {value}, the turn began at {turn.now}"
        longest = LONGEST_WAITS_MS.get(name, NEVER)
        if name == "attempt_deadline" and not new.flags & RECOVERING:
            longest = STARTUP_LONGEST_MS
        if name in ("hb_next", "a beat's room"):
            longest = new.gateway_heartbeat_interval_ms
        if value - turn.now > longest * CYCLES_PER_MS:
            return f"{name} is {(value - turn.now) / CYCLES_PER_MS:g} ms away, at most {longest}"
    return ""


def _left_over(_old: ShardRow, new: ShardRow, _turn: Turn) -> str:
    """Before Hello nothing of the last connection is left: no timer, flag, interval or count."""
    early = new.state == S.STARTING and new.phase in _BEFORE_HELLO
    if not early:
        return ""
    for name in _HEARTBEAT_FIELDS:
        if getattr(new, name):
            return f"{name} is {getattr(new, name):#x} in phase {Phase(new.phase).name}"
    return ""


def _state_fields(_old: ShardRow, new: ShardRow, _turn: Turn) -> str:
    """Each state has its own fields set and the others clear."""
    match new.state:
        case S.ASSIGNED:
            good = new.hold != Hold.NONE and new.phase == Phase.NONE
        case S.STARTING:
            good = new.phase != Phase.NONE
        case S.READY:
            good = new.connected_at != 0 and new.attempt_deadline == 0 and new.phase == Phase.NONE
        case S.BACKOFF:
            # A fleet's row is taken for one that was READY before; this one was not, unless it
            # identified and READY came, or its Resume was accepted. Replayed dispatches may come before.
            fresh = new.held != 0 and not (new.resumes or (new.identifies and new.dispatches))
            away = new.disconnected_at != 0 or not new.flags & ShardFlag.ESTABLISHED or fresh
            good = new.connected_at == 0 and away and new.phase == Phase.NONE
        case _:
            good = new.connected_at == 0
    return "" if good else f"the fields do not suit {S(new.state).name}: {new}"


def _resume(old: ShardRow, new: ShardRow, _turn: Turn) -> str:
    """A Resume needs a valid session and a valid sequence (I3)."""
    asked = new.phase == Phase.REPLAY and old.phase != Phase.REPLAY
    return "a Resume without a valid session" if asked and not new.resumable else ""


def _step(old: ShardRow, new: ShardRow, turn: Turn) -> str:
    """The step of the backoff grows, and only a connection that stayed READY for long clears it."""
    longest = turn.now - old.connected_at if old.connected_at else 0
    if new.recovery_step >= old.recovery_step or longest >= HEALTHY_MS * CYCLES_PER_MS:
        return ""
    return f"went from {old.recovery_step} to {new.recovery_step} without a minute of health"


def _reset(old: ShardRow, new: ShardRow, _turn: Turn) -> str:
    """A reset keeps the session, or what is left of one that cannot be resumed."""
    if old.state != S.BACKOFF or new.state != S.STARTING:
        return ""
    if old.resumable != new.resumable:
        return f"the session was resumable={old.resumable} before a reset"
    kept = (old.sequence, old.session_id) == (new.sequence, new.session_id)
    return "" if kept or not new.resumable else "the reset changed sequence or session"


def _resume_host(old: ShardRow, new: ShardRow, _turn: Turn) -> str:
    """A resume host is dropped after one failed connect (decision 21)."""
    failed = old.state == S.STARTING and new.state == S.BACKOFF
    if failed and new.evidence_phase in _CONNECTING and new.session_resume_host_len:
        return f"kept after a connect that failed in phase {Phase(new.evidence_phase).name}"
    return ""


def _sequence(old: ShardRow, new: ShardRow, _turn: Turn) -> str:
    """The sequence never goes back within a session (I4), but to what is published for sure."""
    both = old.flags & new.flags & _SEQ_VALID and old.session_id == new.session_id
    if new.held and old.gateway_seq_acked <= new.sequence:
        return ""
    if both and new.sequence < old.sequence and new.identifies == old.identifies:
        return f"the sequence went back from {old.sequence} to {new.sequence}"
    return ""


def _sequence_counts(_old: ShardRow, new: ShardRow, _turn: Turn) -> str:
    """Without a session no sequence counts (decision 12)."""
    if new.flags & _SEQ_VALID and not (new.session_ptr and new.session_valid == SSES_VALID):
        return f"{new.sequence} counts, but there is no session"
    return ""


def _lease(_old: ShardRow, new: ShardRow, turn: Turn) -> str:
    """An expired lease holds every shard (decision 18)."""
    if not turn.expired or new.state == S.FATAL:
        return ""
    if new.state != S.ASSIGNED or new.hold != Hold.LEASE_EXPIRED:
        return f"the lease is expired and the shard is {S(new.state).name}, hold {new.hold}"
    return "" if new.tcp_state == TcpState.CLOSED else f"its TCP is in state {new.tcp_state}"


SHARD_RULES: dict[str, ShardRule] = {
    "legal transition": _transition,
    "identity": _identity,
    "counters grow": _counters,
    "backoff": _backoff,
    "every wait has a deadline": every_wait_is_dated,
    "no wait is overdue or too long": _overdue,
    "nothing of the last connection": _left_over,
    "fields of the state": _state_fields,
    "resume needs a session": _resume,
    "step of the backoff": _step,
    "reset keeps the session": _reset,
    "resume host": _resume_host,
    "sequence within a session": _sequence,
    "sequence needs a session": _sequence_counts,
    "expired lease": _lease,
}
