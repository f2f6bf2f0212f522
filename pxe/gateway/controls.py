"""Trouble on command: what a test or a script does to a shard.

Every method that names a shard raises LookupError when the shard has nothing to act on.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pxe.gateway.envelope import dumps
from pxe.gateway.protocol import Opcode
from pxe.gateway.script import Script, Step

if TYPE_CHECKING:
    from pxe.gateway.connection import Connection
    from pxe.gateway.options import GatewayOptions
    from pxe.gateway.rest import Reply
    from pxe.gateway.roster import Roster
    from pxe.gateway.session import Session


@dataclass(frozen=True, slots=True)
class UpgradeRefusal:
    """An HTTP error in place of the WebSocket upgrade, for anybody or at one shard's door."""

    status: int
    retry_after_s: int | None
    shard: int | None = None


class Controls:
    """The commands; :class:`pxe.gateway.core.Gateway` is the only subclass."""

    options: "GatewayOptions"
    connections: "dict[int, Connection]"
    roster: "Roster"
    upgrade_refusals: deque[UpgradeRefusal]
    replies: "deque[Reply]"
    ready_edits: dict[str, object]
    script: "Script"

    def tell(self, name: str, connection: "Connection | None" = None, **fields: object) -> None:
        """Tell the observer of an event."""
        raise NotImplementedError

    def publish(self, session: "Session", event: str, body: str) -> int:
        """Publish one event to one session."""
        raise NotImplementedError

    def kick(self, shard: int, code: int = 4000, reason: str | None = None) -> None:
        """Close a shard's connections with a code; 1005 sends an empty close frame."""
        for connection in self._live(shard):
            connection.close(code, reason)

    def reconnect(self, shard: int) -> None:
        """Send op 7."""
        for connection in self._live(shard):
            self.send_reconnect(connection)

    def invalidate(self, shard: int, *, resumable: bool) -> None:
        """Send op 9; when it is not resumable the session is gone."""
        for connection in self._live(shard):
            self.send_invalid(connection, resumable=resumable, why="control")

    def abort(self, shard: int) -> None:
        """Reset a shard's TCP connections."""
        for connection in self._live(shard):
            connection.abort()

    def stall(self, shard: int) -> None:
        """Let a shard's connections play dead until :meth:`release`."""
        for connection in self._live(shard):
            self.tell("stall", connection)
            connection.stall()

    def release(self, shard: int) -> None:
        """End a stall."""
        for connection in self._live(shard):
            self.tell("release", connection)
            connection.release()

    def gateway_error(self, shard: int, code: str, message: str) -> None:
        """Send op 12, which reports an error and closes nothing."""
        for connection in self._live(shard):
            connection.send_control(Opcode.GATEWAY_ERROR, {"code": code, "message": message})

    def hang_up(self, shard: int) -> None:
        """End a shard's TCP streams with a FIN, without a close frame."""
        for connection in self._live(shard):
            connection.hang_up()

    def request_heartbeat(self, shard: int) -> None:
        """Send op 1, which asks for a heartbeat at once."""
        for connection in self._live(shard):
            connection.send_control(Opcode.HEARTBEAT)

    def send_raw(self, shard: int, text: str) -> None:
        """Send any text, well formed or not, without a sequence number."""
        for connection in self._live(shard):
            connection.send(text)

    def send_bytes(self, shard: int, data: bytes, *, one_by_one: bool = False) -> None:
        """Put bytes on a shard's TCP streams past the WebSocket layer."""
        for connection in self._live(shard):
            connection.send_bytes(data, one_by_one=one_by_one)

    def dispatch(self, shard: int, event: str, data: object) -> int:
        """Publish an event to a shard's sessions, connected or not.

        Returns:
            The sequence number in the newest session.
        """
        body = dumps(data)
        sequences = [self.publish(s, event, body) for s in self.roster.of_shard(shard)]
        if not sequences:
            msg = f"shard {shard} has no session: wait for READY ({self._known()})"
            raise LookupError(msg)
        return sequences[-1]

    def refuse_upgrades(
        self,
        status: int,
        *,
        times: int = 1,
        retry_after_s: int | None = None,
        shard: int | None = None,
    ) -> None:
        """Answer the next upgrade requests with an HTTP error.

        Args:
            status: HTTP status, 400 to 599.
            times: Number of requests.
            retry_after_s: Value of the Retry-After header, in seconds.
            shard: Only at this shard's door; None for anywhere.

        Raises:
            ValueError: The status is no error.
        """
        if not 400 <= status <= 599:
            msg = f"status is {status}: give an HTTP error, 400 to 599"
            raise ValueError(msg)
        self.upgrade_refusals.extend([UpgradeRefusal(status, retry_after_s, shard)] * times)

    def answer_http(self, *replies: "Reply") -> None:
        """Give these answers to the next GET requests, whatever they ask for."""
        self.replies.extend(replies)

    def add_steps(self, *steps: Step) -> None:
        """Add steps to the script; they count triggers from now on."""
        self.script.add(steps)

    def edit_ready(self, **fields: object) -> None:
        """Put these fields over those of every READY from now on; None removes one."""
        self.ready_edits = fields

    def edited_ready(self, body: dict[str, object]) -> dict[str, object]:
        """Return the body of a READY as :meth:`edit_ready` wants it."""
        edited = body | self.ready_edits
        return {name: value for name, value in edited.items() if value is not None}

    def take_upgrade_refusal(self, door: int | None = None) -> "UpgradeRefusal | None":
        """Return how the upgrade request at hand is to be refused, or None.

        Args:
            door: The shard at whose door the request came, or None.
        """
        for refusal in self.upgrade_refusals:
            if refusal.shard in (None, door):
                self.upgrade_refusals.remove(refusal)
                self.tell("refuse_upgrade", None, status=refusal.status, door=door)
                return refusal
        return None

    def restart(self, *, keep_sessions: bool = False) -> None:
        """Reset every connection, as a gateway that crashes; sessions go unless kept."""
        self.tell("restart", None, keep_sessions=keep_sessions)
        for connection in list(self.connections.values()):
            connection.abort()
        for session in [] if keep_sessions else self.roster.all():
            self.roster.drop(session)

    # On one connection, for the protocol and the script.

    def send_reconnect(self, connection: "Connection") -> None:
        """Send op 7 and count it; where the profile says so, close 4000 follows."""
        connection.send_control(Opcode.RECONNECT)
        if connection.shard is not None:
            self.roster.stats[connection.shard].reconnect_requests += 1
        self.tell("reconnect", connection)
        if self.options.profile.closes_after_reconnect:
            connection.close(4000, "Reconnect requested")

    def send_invalid(self, connection: "Connection", *, resumable: bool, why: str) -> None:
        """Send op 9, count it, and drop the session when it is not resumable.

        A profile whose op 9 never says true sends false and drops the session anyway.
        """
        resumable = resumable and self.options.profile.resumable_op9
        connection.send_control(Opcode.INVALID_SESSION, resumable)
        if connection.shard is not None:
            self.roster.stats[connection.shard].invalid_sessions += 1
        self.tell("invalid_session", connection, resumable=resumable, why=why)
        if connection.session is not None and not resumable:
            self.roster.drop(connection.session)

    def act(self, connection: "Connection", step: Step) -> None:
        """Carry out a scripted step."""
        self.tell("script", connection, on=step.on, do=step.do)
        _ACTS[step.do](self, connection, step)

    def _live(self, shard: int) -> "list[Connection]":
        live = [
            connection
            for connection in self.connections.values()
            if connection.shard == shard and not connection.closing
        ]
        if not live:
            msg = f"shard {shard} has no connection: wait for READY ({self._known()})"
            raise LookupError(msg)
        return live

    def _known(self) -> str:
        known = [str(stats.shard) for stats in self.roster.stats if stats.connected]
        return "connected shards: " + (", ".join(known) or "none")


def _script_dispatch(controls: Controls, connection: "Connection", step: Step) -> None:
    if connection.session is not None:
        controls.publish(connection.session, step.event, dumps(step.data))


_ACTS: Final[Mapping[str, Callable[[Controls, "Connection", Step], None]]] = {
    "kick": lambda _, connection, step: connection.close(step.code, step.reason or None),
    "reconnect": lambda controls, connection, _: controls.send_reconnect(connection),
    "invalidate": lambda controls, connection, step: controls.send_invalid(
        connection, resumable=step.resumable, why="script"
    ),
    "abort": lambda _, connection, __: connection.abort(),
    "stall": lambda _, connection, __: connection.stall(),
    "release": lambda _, connection, __: connection.release(),
    "request_heartbeat": lambda _, connection, __: connection.send_control(Opcode.HEARTBEAT),
    "send_raw": lambda _, connection, step: connection.send(step.text),
    "send_bytes": lambda _, connection, step: connection.send_bytes(
        bytes.fromhex(step.hex), one_by_one=step.one_by_one
    ),
    "hang_up": lambda _, connection, __: connection.hang_up(),
    "dispatch": _script_dispatch,
    "nothing": lambda _, __, ___: None,
}
