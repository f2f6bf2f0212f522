"""One shard's Gateway client on a bench: messages in as objects, payloads out as objects."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from firmware.gateway.poll import gateway_poll
from firmware.gateway.timers import gateway_tick
from firmware.layouts.config import CONFIG
from firmware.layouts.crypto import DRBG
from firmware.layouts.log import LOG
from firmware.layouts.log_line import Level
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.shard import ShardContext, ShardFlag
from firmware.layouts.websocket import WsState
from tests.support.stream import Stream, client_frames, server_frame
from tests.support.token import set_token

if TYPE_CHECKING:
    from tests.support.lab import Lab

CYCLES_PER_MS = 1000
TOKEN = b"MTk4.token_of-the.bot"
HOST = b"10.0.2.2"
"""Of the gateway; READY names the same."""
START = 10**9
"""TSC when the tests begin."""


class GatewayClient:
    """A shard whose WebSocket is open; time stands still unless `wait` moves it.

    Args:
        lab: The bench.
        shard: Its number, and how many there are.
        reset: Put the memory back first.
    """

    def __init__(self, lab: Lab, *, shard: tuple[int, int] = (3, 16), reset: bool = True) -> None:
        self.lab = lab
        if reset:
            lab.reset()
        lab.g(DRBG).available = 0
        lab.g(CLOCK).tsc_cycles_per_ms = CYCLES_PER_MS
        lab.g(CORE).now = START
        lab.g(LOG).level = Level.ERROR
        config = lab.g(CONFIG)
        set_token(lab, TOKEN)
        config.intents = 513
        config.gateway_host[: len(HOST)] = HOST
        config.gateway_host_len = len(HOST)
        self.at = lab.shard()
        self.stream = Stream(lab, self.at)
        self.shard.websocket.state = WsState.OPEN
        self.shard.shard_id, self.shard.shard_total = shard

    @property
    def shard(self) -> Any:
        """The live context."""
        return self.lab.view(ShardContext, self.at)

    @property
    def gateway(self) -> Any:
        """The live Gateway context."""
        return self.shard.gateway

    @property
    def now(self) -> int:
        """The time of the turn."""
        return int(self.lab.g(CORE).now)

    def wait(self, milliseconds: float) -> None:
        """Let time pass; nothing runs."""
        self.lab.g(CORE).now = self.now + round(milliseconds * CYCLES_PER_MS)

    def poll(self) -> None:
        """Let the shard read."""
        self.lab.call(gateway_poll, shard=self.at)

    def tick(self) -> int:
        """Let the shard do what is due; return the deadline in milliseconds from now, or -1."""
        deadline = self.lab.call(gateway_tick, shard=self.at).outputs["rax"]
        return -1 if deadline == 2**64 - 1 else (deadline - self.now) // CYCLES_PER_MS

    def raw(self, *frames: bytes) -> None:
        """Let frames arrive and be read."""
        self.stream.feed(b"".join(frames))
        self.poll()

    def receive(self, *messages: dict[str, Any] | bytes) -> None:
        """Let messages arrive, each in one text frame."""
        texts = (m if isinstance(m, bytes) else json.dumps(m).encode() for m in messages)
        self.raw(*(server_frame(1, text) for text in texts))

    def dispatch(self, event: str, sequence: int | None, data: Any = None) -> None:
        """Let a dispatch arrive."""
        self.receive({"t": event, "s": sequence, "op": 0, "d": {} if data is None else data})

    def sent(self) -> list[dict[str, Any]]:
        """Return the payloads sent since the last time."""
        frames = client_frames(self.stream.take_sent())
        assert all(first == 0x81 for first, _ in frames), "payloads are whole text frames"
        return [json.loads(payload) for _, payload in frames]

    def hello(self, interval: Any = 45_000) -> None:
        """Let Hello arrive."""
        self.receive({"op": 10, "d": {"heartbeat_interval": interval, "_trace": ["x"]}})

    def resumable(self, sequence: int = 41, session_id: bytes = b"0123456789abcdef") -> None:
        """Give the shard a session from before."""
        context = self.shard
        context.session_ptr = context.session.address_
        context.session.valid = 1
        context.session.session_id[: len(session_id)] = session_id
        context.session.session_id_len = len(session_id)
        context.sequence, context.flags = sequence, ShardFlag.SEQ_VALID


def ready_data(**changes: Any) -> dict[str, Any]:
    """Return the body of a READY for shard [3, 16]."""
    body = {
        "v": 10,
        "user": {"id": "1"},
        "guilds": [],
        "session_id": "4e2e56c2d3b7",
        "resume_gateway_url": "ws://10.0.2.2:8081/x",
        "shard": [3, 16],
    }
    return {k: v for k, v in (body | changes).items() if v is not ...}
