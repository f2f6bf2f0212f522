"""Scripted trouble: a list of steps that a test or a file declares.

A step names a trigger, optionally a shard and a distance, and a command::

    Step(on="ready", shard=3, after_dispatches=100, do="kick", code=4000)
    Step(on="connect", do="reconnect", instead=True)

The second sends op 7 in place of Hello. Steps are tried in order and each fires
``times`` times in all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pxe.gateway.connection import Connection

TRIGGERS: Final = ("connect", "identify", "resume", "heartbeat", "ready", "resumed")
COMMANDS: Final = (
    "kick",
    "reconnect",
    "invalidate",
    "abort",
    "stall",
    "release",
    "request_heartbeat",
    "dispatch",
    "send_raw",
    "send_bytes",
    "hang_up",
    "nothing",
)
# These have something of their own that `instead` can suppress.
_REPLACEABLE: Final = ("connect", "identify", "resume", "heartbeat")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One scripted action.

    Attributes:
        on: Trigger, one of TRIGGERS.
        do: Command, one of COMMANDS.
        shard: Only for this shard; None for any. At ``connect`` it is known only at its door.
        after_dispatches: Further dispatches on the same connection before it acts.
        after_ms: Milliseconds on the same connection before it acts.
        times: How often the step may act in all.
        skip: Matching triggers to let pass before the first that counts.
        instead: Suppress what the gateway would do at the trigger.
        code: Close code of ``kick``.
        reason: Close reason of ``kick``; empty means the code's own.
        resumable: ``d`` of op 9 for ``invalidate``.
        event: Name for ``dispatch``.
        data: Body for ``dispatch``.
        text: Text for ``send_raw``, sent as it is.
        hex: Bytes for ``send_bytes``, two digits each, put on the stream as they are.
        one_by_one: Whether ``send_bytes`` writes each byte for itself.
    """

    on: str
    do: str
    shard: int | None = None
    after_dispatches: int = 0
    after_ms: int = 0
    times: int = 1
    skip: int = 0
    instead: bool = False
    code: int = 4000
    reason: str = ""
    resumable: bool = False
    event: str = "SHARDFW_SCRIPT"
    data: object = None
    text: str = ""
    hex: str = ""
    one_by_one: bool = False

    def __post_init__(self) -> None:
        """Refuse a step that could never act.

        Raises:
            ValueError: Names the key, its value and the allowed values.
        """
        for key, value, allowed in (("on", self.on, TRIGGERS), ("do", self.do, COMMANDS)):
            if value not in allowed:
                msg = f"{key} is {value!r}: give one of {', '.join(allowed)}"
                raise ValueError(msg)
        try:
            bytes.fromhex(self.hex)
        except ValueError:
            msg = f"hex is {self.hex!r}: give two hexadecimal digits for each byte"
            raise ValueError(msg) from None
        if self.instead and self.on not in _REPLACEABLE:
            msg = f"instead cannot be used with on = {self.on!r}: {self.on} has already been sent"
            raise ValueError(msg)
        if self.instead and (self.after_dispatches or self.after_ms):
            msg = "instead cannot be used with after_dispatches or after_ms: it acts at once"
            raise ValueError(msg)


def parse_script(rows: Sequence[Mapping[str, object]]) -> tuple[Step, ...]:
    """Make steps of the tables that a TOML or JSON file holds.

    Raises:
        ValueError: Names the number of the step (from 1) and what is wrong with it.
    """
    known = {f.name: f.type for f in fields(Step)}
    steps = []
    for number, row in enumerate(rows, 1):
        unknown = sorted(set(row) - set(known))
        if unknown:
            msg = f"step {number}: unknown key {unknown[0]!r}: the keys are {', '.join(known)}"
            raise ValueError(msg)
        missing = [name for name in ("on", "do") if name not in row]
        if missing:
            msg = f"step {number}: {missing[0]!r} is missing: every step has on and do"
            raise ValueError(msg)
        for name, value in row.items():
            _check_type(number, name, value)
        try:
            steps.append(Step(**dict(row)))  # type: ignore[arg-type]  # checked above
        except ValueError as error:
            msg = f"step {number}: {error}"
            raise ValueError(msg) from error
    return tuple(steps)


_TYPES: Final[Mapping[str, type]] = {
    "on": str,
    "do": str,
    "shard": int,
    "after_dispatches": int,
    "after_ms": int,
    "times": int,
    "skip": int,
    "instead": bool,
    "code": int,
    "reason": str,
    "resumable": bool,
    "event": str,
    "data": object,
    "text": str,
    "hex": str,
    "one_by_one": bool,
}


def _check_type(number: int, name: str, value: object) -> None:
    wanted = _TYPES[name]
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        msg = f"step {number}: {name} is {value!r}: give a value of type {wanted.__name__}"
        raise ValueError(msg)


@dataclass(slots=True)
class _State:
    step: Step
    left: int
    skip: int


@dataclass(slots=True)
class _Armed:
    state: _State
    connection: "Connection"
    dispatches_left: int
    due_ms: int


class Script:
    """Keeps count of the steps; the gateway carries them out.

    Args:
        steps: The steps, tried in this order.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self._states: list[_State] = []
        self._armed: list[_Armed] = []
        self.add(steps)

    def add(self, steps: Sequence[Step]) -> None:
        """Take further steps, tried after those before them."""
        self._states += [_State(step, step.times, step.skip) for step in steps]

    def triggered(self, trigger: str, connection: "Connection", now_ms: int) -> list[Step]:
        """Return the steps that act at once and arm those that act later."""
        acting = []
        for state in self._states:
            step = state.step
            if not state.left or step.on != trigger or step.shard not in (None, connection.shard):
                continue
            if state.skip:
                state.skip -= 1
                continue
            state.left -= 1
            if step.after_dispatches == 0 and step.after_ms == 0:
                acting.append(step)
            else:
                due = now_ms + step.after_ms
                self._armed.append(_Armed(state, connection, step.after_dispatches, due))
        return acting

    def dispatched(self, connection: "Connection", now_ms: int) -> list[Step]:
        """Count one dispatch on a connection and return the steps that act now."""
        if not self._armed:
            return []
        for armed in self._armed:
            if armed.connection is connection and armed.dispatches_left:
                armed.dispatches_left -= 1
        return [step for _, step in self._take(now_ms, connection)]

    def due(self, now_ms: int) -> "list[tuple[Connection, Step]]":
        """Return the steps whose time has come, with their connections."""
        return self._take(now_ms, None)

    def forget(self, connection: "Connection") -> None:
        """Drop what is armed on a connection that ended; it may be triggered anew."""
        for armed in self._armed:
            if armed.connection is connection:
                armed.state.left += 1
        self._armed = [a for a in self._armed if a.connection is not connection]

    def next_deadline(self) -> int | None:
        """Return the earliest time in ms at which an armed step acts, or None."""
        return min((a.due_ms for a in self._armed if not a.dispatches_left), default=None)

    def _take(
        self, now_ms: int, connection: "Connection | None"
    ) -> "list[tuple[Connection, Step]]":
        ready = [
            a
            for a in self._armed
            if not a.dispatches_left
            and a.due_ms <= now_ms
            and (connection is None or a.connection is connection)
        ]
        self._armed = [a for a in self._armed if a not in ready]
        return [(a.connection, a.state.step) for a in ready]
