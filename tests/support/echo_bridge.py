"""The echo role in a machine without hooks, bridged to a real socket: suites judge the layer."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from firmware.layouts.crypto import DRBG
from firmware.layouts.echo import ECHO, EchoState
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import TcpState
from firmware.layouts.websocket import WsState
from firmware.limits import RING_BYTES
from firmware.test_roles.echo import echo_begin, echo_poll
from firmware.websocket.connection import ws_start
from tests.support.lab import Lab
from tests.support.stream import Stream

if TYPE_CHECKING:
    from toolchain.asm import Routine

PATIENCE_S = 20.0
"""How long the other side may be silent; its own timeouts are shorter."""
INSTRUCTIONS_MAX = 50_000_000
"""Of one call; a loop that does not end is a failure, not a hang."""


class EchoBridge:
    """Runs one connection after the other."""

    def __init__(self, seed: int = 1) -> None:
        self.lab = Lab(echo_begin, echo_poll, ws_start)
        self.lab.reset()
        drbg = self.lab.g(DRBG)
        drbg.key[:] = seed.to_bytes(32, "little")
        drbg.available, drbg.seeded = 0, 1
        self.instructions = 0

    def _call(self, routine: Routine, shard: int) -> dict[str, Any]:
        return self.lab.machine.call(routine.name, {"rbx": shard}, INSTRUCTIONS_MAX)

    def run(self, host: str, port: int, path: str) -> WsState:
        """Dial, echo until the connection ends, return how the layer saw it."""
        lab, shard = self.lab, self.lab.shard()
        echo = lab.g(ECHO)
        echo.host_len, echo.path_len, echo.port = len(host), len(path), port
        echo.host[: len(host)] = host.encode()
        echo.path[: len(path)] = path.encode()
        stream = Stream(lab, shard)
        self._call(echo_begin, shard)
        self._call(ws_start, shard)
        with socket.create_connection((host, port), PATIENCE_S) as wire:
            wire.sendall(stream.take_sent())
            while stream.tcp.state == TcpState.ESTABLISHED:
                self._exchange(wire, stream)
                if lab.view(ShardContext, shard).websocket.state == WsState.FAILED:
                    break
        return WsState(lab.view(ShardContext, shard).websocket.state)

    def _exchange(self, wire: socket.socket, stream: Stream) -> None:
        try:
            data = wire.recv(RING_BYTES - stream.ready)
        except ConnectionResetError:
            data = b""
        if data:
            stream.feed(data)
        else:
            stream.tcp.state = TcpState.CLOSE_WAIT
        echo = self.lab.g(ECHO)
        while True:
            self._call(echo_poll, stream.shard)
            sent = stream.take_sent()
            if sent:
                try:
                    wire.sendall(sent)
                except (BrokenPipeError, ConnectionResetError):
                    stream.tcp.state = TcpState.CLOSE_WAIT
            if echo.state != EchoState.SENDING or not sent:
                break
