"""What must hold after every turn of a node, whatever its peers do.

Each rule gets a shard (or the node) before and after a turn and says what is wrong, or nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from emulator.simulation.node import CYCLES_PER_MS
from emulator.simulation.packet import ETHERTYPE_IPV4, PROTOCOL_TCP, ip_text
from emulator.simulation.shard_row import (
    GATEWAY_AT,
    GATEWAY_BYTES,
    HEAD_BYTES,
    SESSION_AT,
    SESSION_BYTES,
    ShardRow,
    read_row,
    unpacker,
)
from firmware.layouts import machine
from firmware.layouts.clock import NEVER
from firmware.layouts.gateway import GatewayFlag
from firmware.layouts.node import (
    CLOCK,
    CORE,
    LEASE,
    NETWORK,
    SLOT_ACTIVE,
    Clock,
    CoreState,
    Lease,
    Network,
    Slot,
)  # fmt: skip
from firmware.layouts.permit import PERMITS
from firmware.layouts.policy import DEFAULTS
from firmware.layouts.profile import PROFILES
from firmware.layouts.shard import SSES_VALID, Hold, Phase, ShardFlag, ShardState
from firmware.layouts.tcp import TcpState
from firmware.limits import SHARDS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.simulation.node import ImageNode
    from emulator.simulation.world import Attachment
    from toolchain.layout.fields import Field

    ShardRule = Callable[[ShardRow, ShardRow, "Turn"], str]

S = ShardState
_ETHERNET = 14
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
SPINS_MOST = 20
_SESSION_IN_ROW = HEAD_BYTES + GATEWAY_BYTES
_ROW_BYTES = _SESSION_IN_ROW + SESSION_BYTES
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


class InvariantError(AssertionError):
    """A rule does not hold; the text names shard, rule and values."""


_CORE = unpacker([(CoreState.now, 0), (CoreState.next_deadline, 0)])
_LEASE = unpacker([(Lease.generation, 0), (Lease.expired, 0)])
_CLOCK = unpacker([(Clock.tsc_cycles_per_ms, 0)])


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


def _first_wait(row: ShardRow, now: int) -> int:
    return min((value for _, value in waits_of(row, now)), default=NEVER)


def _waits(_old: ShardRow, new: ShardRow, turn: Turn) -> str:
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
    "every wait has a deadline": _waits,
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


_RULES = tuple(SHARD_RULES.items())


class Invariants:
    """Looks at a node after each of its turns.

    Args:
        node: the node; attach `check` to `Attachment.after_turn`.
    """

    def __init__(self, node: ImageNode) -> None:
        self.node = node
        self.turns = 0
        self.entered: dict[tuple[int, int], int] = {}
        """Times that a slot entered a state."""
        self._identified: dict[int, int] = {}
        self._spins = 0
        self._core = node.window(CORE)
        self._lease = node.window(LEASE)
        first, end = CoreState.slots.offset + Slot.flags.offset, node.facts.slots * Slot.SIZE
        self.flags = self._core[first : CoreState.slots.offset + end : Slot.SIZE]
        """Flags of each slot, live."""
        self._clock = node.window(CLOCK)
        at = Network.ip.offset
        self._address = node.window(NETWORK)[at : at + 4]
        self._parts = [
            part
            for slot in range(node.facts.slots)
            for part in (
                node.part(slot, 0, HEAD_BYTES),
                node.part(slot, GATEWAY_AT, GATEWAY_BYTES),
                node.part(slot, SESSION_AT, SESSION_BYTES),
            )
        ]
        self._raw = b"".join(self._parts)
        self.changes = 0
        """Turns that changed a row."""
        self.rows = [self._read(slot) for slot in range(node.facts.slots)]
        self._waits = [_first_wait(row, 0) for row in self.rows]
        self._last = self._turn()

    def check(self, _attachment: Attachment | None = None) -> None:
        """Compare with the last turn.

        Raises:
            InvariantError: A rule does not hold.
        """
        self.turns += 1
        turn = self._turn()
        self._check_node(turn)
        raw = b"".join(self._parts)
        if raw != self._raw or turn.expired != self._last.expired:
            self._check_shards(raw, turn)
        # Nothing about the other shards changed; their deadlines still bind the node.
        if turn.deadline > min(self._waits):
            for slot in range(self.node.facts.slots):
                wrong = _waits(self.rows[slot], self.rows[slot], turn)
                if wrong:
                    raise InvariantError(f"slot {slot}, rule 'every wait has a deadline': {wrong}")
        self._check_pace(turn)
        self._last = turn

    def _check_shards(self, raw: bytes, turn: Turn) -> None:
        """Apply every rule to the shards that changed, or to all when the lease did."""
        before, self._raw = self._raw, raw
        self.changes += 1
        for slot in range(self.node.facts.slots):
            start = slot * _ROW_BYTES
            same = raw[start : start + _ROW_BYTES] == before[start : start + _ROW_BYTES]
            if same and turn.expired == self._last.expired:
                continue
            old = self.rows[slot]
            new = self.rows[slot] = self._read(slot)
            if new.slot != slot or not self._has_shard(slot):
                self._waits[slot] = NEVER
                continue
            self._waits[slot] = _first_wait(new, turn.now)
            if new.life != old.life:
                continue  # another shard has the row; it begins anew
            for name, rule in _RULES:
                wrong = rule(old, new, turn)
                if wrong:
                    raise InvariantError(f"slot {slot}, rule {name!r}: {wrong}")
            if new.identifies != old.identifies:
                self._check_identify(new, turn)
            if new.state != old.state:
                key = slot, new.state
                self.entered[key] = self.entered.get(key, 0) + 1

    def _has_shard(self, slot: int) -> bool:
        """Say whether a row holds a shard; in a fleet they come and go."""
        return not self.node.facts.fleet or bool(self.flags[slot] & SLOT_ACTIVE)

    def states(self) -> list[ShardState]:
        """Return the state of every slot after the last turn."""
        used = _number(self._core, CoreState.slots_used)
        return [S(row.state) for row in self.rows[:used]]

    def _check_node(self, turn: Turn) -> None:
        last = self._last
        if _number(self._core, CoreState.current_shard):
            raise InvariantError("node code runs, but a shard is marked as running")
        if turn.generation < last.generation:
            raise InvariantError("the lease generation went back")
        if last.expired and not turn.expired and turn.generation == last.generation:
            raise InvariantError("an expired lease came back without a grant")
        if turn.expired and turn.tcp_frames:
            raise InvariantError(
                f"{turn.tcp_frames} TCP frames left in a turn that ended with an expired lease"
            )
        for frame in self.node.turn_frames:
            if frame[6:12] != self.node.facts.mac:
                raise InvariantError(f"a frame with a foreign source address: {frame[:14].hex()}")
            if _is_tcp(frame) and frame[26:30] != self._address:
                raise InvariantError(
                    f"a TCP frame from {ip_text(frame[26:30])}, but the node is "
                    f"{ip_text(bytes(self._address))}"
                )

    def _check_pace(self, turn: Turn) -> None:
        """A node that asks for a turn at once, again and again, does nothing in between: it spins."""
        busy = turn.deadline > turn.now or self.node.turn_frames or self.node.turn_received
        self._spins = 0 if busy else self._spins + 1
        if self._spins > SPINS_MOST:
            raise InvariantError(
                f"{self._spins} turns in a row that did nothing and asked for the next at once"
            )

    def _check_identify(self, row: ShardRow, turn: Turn) -> None:
        """One key sends one Identify in the time that its profile says (I6; decision 20)."""
        # Discovery may have told another number of keys than is configured.
        key = row.shard_id % self.node.g(PERMITS).max_concurrency
        last = self._identified.get(key)
        self._identified[key] = turn.now
        spacing_ms = PROFILES[row.profile].identify_spacing_ms
        if last is not None and turn.now - last < spacing_ms * CYCLES_PER_MS:
            raise InvariantError(
                f"slot {row.slot}, rule 'identify spacing': key {key} identified again after "
                f"{(turn.now - last) / CYCLES_PER_MS:g} ms"
            )

    def _turn(self) -> Turn:
        node = self.node
        links = node.facts.link_port
        frames = 0
        if node.turn_frames:
            frames = sum(_is_tcp(f) and _port(f) != links for f in node.turn_frames)
        now, deadline = _CORE.unpack_from(self._core)
        generation, expired = _LEASE.unpack_from(self._lease)
        (cycles,) = _CLOCK.unpack_from(self._clock)
        if not node.turns:
            deadline = NEVER
        return Turn(now, deadline, expired, generation, frames, calibrated=cycles != 0)

    def _read(self, slot: int) -> ShardRow:
        raw = self._raw[slot * _ROW_BYTES : (slot + 1) * _ROW_BYTES]
        return read_row(raw[:HEAD_BYTES], raw[HEAD_BYTES:_SESSION_IN_ROW], raw[_SESSION_IN_ROW:])


def _is_tcp(frame: bytes) -> bool:
    ethertype = int.from_bytes(frame[12:14], "big")
    return ethertype == ETHERTYPE_IPV4 and frame[_ETHERNET + 9] == PROTOCOL_TCP


def _port(frame: bytes) -> int:
    """Return the destination port of a TCP frame; the node's own have no IP options."""
    return int.from_bytes(frame[_ETHERNET + 22 : _ETHERNET + 24], "big")


def _number(window: memoryview, field: Field) -> int:
    return int.from_bytes(window[field.offset : field.offset + field.size], "little")
