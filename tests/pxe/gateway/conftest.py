"""A client of the gateway's core, without sockets and with a clock set by hand."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from pxe.gateway import (
    Abort,
    Action,
    Close,
    Connection,
    Gateway,
    GatewayEvent,
    GatewayOptions,
    HangUp,
    ManualClock,
    Send,
    Wire,
)

PROPERTIES = {"os": "none", "browser": "shardfw", "device": "shardfw"}


@dataclass
class Client:
    """One connection seen from the client's end."""

    bench: "Bench"
    connection: Connection
    messages: list[dict[str, Any]] = field(default_factory=list)
    end: Close | Abort | HangUp | None = None
    wire: list[Wire] = field(default_factory=list)

    def send(self, op: int, body: object) -> None:
        self.send_raw(json.dumps({"op": op, "d": body}))

    def send_raw(self, payload: str | bytes) -> None:
        for action in self.connection.receive(payload):
            self.take(action)
        self.bench.pump()

    def take(self, action: Action) -> None:
        assert self.end is None, f"{action} after {self.end}"
        if isinstance(action, Send):
            assert isinstance(action.data, str)
            self.messages.append(json.loads(action.data))
        elif isinstance(action, Wire):
            self.wire.append(action)
        else:
            self.end = action

    def identify(self, shard=0, change=None) -> None:
        body = {"token": "t", "properties": PROPERTIES, "intents": 1}
        total = self.bench.gateway.options.shards
        self.send(2, body | {"shard": [shard, total]} | (change or {}))

    def resume(self, session_id: str, seq: object, token: str = "t") -> None:  # noqa: S107
        self.send(6, {"token": token, "session_id": session_id, "seq": seq})

    def ops(self) -> list[int]:
        return [message["op"] for message in self.messages]

    def events(self) -> list[tuple[str, int]]:
        return [(m["t"], m["s"]) for m in self.messages if m["op"] == 0]

    def ready(self) -> dict[str, Any]:
        return next(m["d"] for m in self.messages if m.get("t") == "READY")

    @property
    def code(self) -> int | None:
        return self.end.code if isinstance(self.end, Close) else None


class Bench:
    """A gateway with a manual clock and the clients connected to it."""

    def __init__(self, **options: Any):
        self.clock = ManualClock(1_000)
        self.events: list[GatewayEvent] = []
        self.clients: dict[Connection, Client] = {}
        defaults: dict[str, Any] = {"guilds_per_shard": 0, "identify_tolerance_ms": 0}
        self.gateway = Gateway(
            GatewayOptions(**(defaults | options)), clock=self.clock, observer=self.events.append
        )

    def connect(
        self, target="/?v=10&encoding=json", user_agent="node/1", host="gw:80", door=None
    ) -> Client:
        connection = self.gateway.open(target, user_agent=user_agent, host=host, door=door)
        client = self.clients[connection] = Client(self, connection)
        self.pump()
        return client

    def ready(self, shard=0) -> Client:
        client = self.connect()
        client.identify(shard)
        assert client.messages[1]["t"] == "READY"
        return client

    def pump(self) -> None:
        for connection, action in self.gateway.drain():
            self.clients[connection].take(action)

    def advance(self, milliseconds: int) -> None:
        """Move the clock from deadline to deadline."""
        end = self.clock.now_ms() + milliseconds
        while True:
            deadline = self.gateway.next_deadline()
            if deadline is None or deadline > end:
                break
            self.clock.set(max(deadline, self.clock.now_ms()))
            for connection, action in self.gateway.poll():
                self.clients[connection].take(action)
        self.clock.set(end)

    def stats(self, shard=0):
        return self.gateway.stats().shards[shard]


@pytest.fixture(scope="session")
def bench():
    """Give the class, so that a test can choose the options."""
    return Bench
