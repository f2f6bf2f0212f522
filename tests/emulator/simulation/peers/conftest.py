"""A WebSocket client made of the `websockets` library's protocol over the reference TCP."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from websockets.client import ClientProtocol
from websockets.datastructures import Headers
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.uri import parse_uri

from emulator.simulation.clock import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable


class Client:
    """Dials `peer` from `node`; `websockets` judges everything that the server sends."""

    def __init__(self, pair, *, port: int = 80, target: str = "/", address: bytes = b"") -> None:
        self.pair = pair
        self.protocol = ClientProtocol(parse_uri(f"ws://peer:{port}{target}"))
        self.response: Response = Response(0, "none yet", Headers())
        self.frames: list[Frame] = []
        self.eof = False
        self.on_text: Callable[[str], None] | None = None
        self.tcp = pair.node.tcp.connect(pair.node.address, address or pair.peer.address, port)
        self.tcp.on_open = self._open
        self.tcp.on_data = self._receive
        self.tcp.on_eof = self._end

    @property
    def texts(self) -> list[str]:
        """Whole text messages; fragments are joined."""
        out, parts = [], b""
        for frame in self.frames:
            if frame.opcode in (Opcode.TEXT, Opcode.CONT):
                parts += bytes(frame.data)
                if frame.fin:
                    out.append(parts.decode())
                    parts = b""
        return out

    def send(self, text: str) -> None:
        self.protocol.send_text(text.encode())
        self.push()

    def push(self) -> None:
        for data in self.protocol.data_to_send():
            if self.tcp.sender.fin_at is not None:
                continue
            if data:
                self.tcp.send(data)
            else:
                self.tcp.close()

    def run(self, seconds: float = 1) -> None:
        self.pair.world.run_for(round(seconds * NS_PER_S))

    def _open(self) -> None:
        request = self.protocol.connect()
        request.headers["User-Agent"] = "reference"
        self.protocol.send_request(request)
        self.push()

    def _receive(self, data: bytes) -> None:
        self.protocol.receive_data(data)
        self._events()

    def _end(self) -> None:
        self.eof = True
        self.protocol.receive_eof()
        self._events()
        self.tcp.close()

    def _events(self) -> None:
        for event in self.protocol.events_received():
            if isinstance(event, Response):
                self.response = event
            elif isinstance(event, Frame):
                self.frames.append(event)
                if self.on_text is not None and event.opcode is Opcode.TEXT:
                    self.on_text(bytes(event.data).decode())
        self.push()


@dataclass
class Shard:
    """The least that a gateway client does: identify or resume, beat, remember the sequence."""

    pair: object
    number: int = 0
    total: int = 1
    address: bytes = b""
    session: str = ""
    sequence: int | None = None
    ops: list[int] = field(default_factory=list)
    dispatches: list[tuple[int, str]] = field(default_factory=list)
    client: Client | None = None

    def dial(self, *, resume: bool = False) -> Client:
        self.client = Client(self.pair, target="/?v=10&encoding=json", address=self.address)
        self.client.on_text = lambda text: self._take(json.loads(text), resume)
        return self.client

    def say(self, op: int, body: object) -> None:
        assert self.client is not None
        self.client.send(json.dumps({"op": op, "d": body}))

    def _take(self, message, resume: bool) -> None:
        self.ops.append(message["op"])
        if message["op"] == 10:
            token = {"token": "t"}
            if resume:
                self.say(6, {**token, "session_id": self.session, "seq": self.sequence})
            else:
                properties = {"os": "x", "browser": "x", "device": "x"}
                shard = [self.number, self.total]
                self.say(2, {**token, "properties": properties, "intents": 1, "shard": shard})
        elif message["op"] == 0:
            self.sequence = message["s"]
            self.dispatches.append((message["s"], message["t"]))
            if message["t"] == "READY":
                self.session = message["d"]["session_id"]


@pytest.fixture
def client_of():
    return Client


@pytest.fixture
def shard_of():
    return Shard
