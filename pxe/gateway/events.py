"""What the gateway tells an observer, one line for each event."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class GatewayEvent:
    """Something that happened; dispatches are counted, not told.

    Attributes:
        at_ms: Time of the gateway's clock.
        name: connect, identify, resume, ready, resumed, command, invalid_session, reconnect,
            close, abort, stall, release, closed, lost, expire, script, overlap.
        connection: Number of the connection, or None.
        shard: Shard id once it is known, or None.
        fields: Further values.
    """

    at_ms: int
    name: str
    connection: int | None = None
    shard: int | None = None
    fields: dict[str, object] = field(default_factory=dict)

    def line(self) -> str:
        """Return the event as one line of ``key=value`` pairs."""
        pairs: dict[str, object] = {"t": f"{self.at_ms / 1000:.3f}", "event": self.name}
        if self.connection is not None:
            pairs["conn"] = self.connection
        if self.shard is not None:
            pairs["shard"] = self.shard
        pairs |= self.fields
        return " ".join(f"{key}={_value(value)}" for key, value in pairs.items())


def _value(value: object) -> str:
    text = str(value)
    return repr(text) if text == "" or any(c.isspace() or c == "=" for c in text) else text


Observer = Callable[[GatewayEvent], None]
