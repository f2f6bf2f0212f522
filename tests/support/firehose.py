"""The local gateway with a hose: prepared dispatches as fast as the clients take them.

Making and sending each dispatch through the gateway's own code costs more than a fast client needs
to take it. Here the bodies are made beforehand, frames are joined to blocks, and TCP alone holds the
sender back, so what is measured is the client.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import struct
from typing import TYPE_CHECKING

from pxe.gateway.load import LoadGenerator, LoadOptions
from pxe.gateway.server import GatewayServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pxe.gateway.server import _Outlet

Prepared = tuple[bytes, bytes]
"""What stands before and behind the number of a dispatch."""
BODIES = 2048
BLOCK = 32
"""Frames written at once."""


def frame(text: bytes) -> bytes:
    """Return a text message as a server sends it: one frame, without a mask."""
    size = len(text)
    if size < 126:
        return struct.pack(">BB", 0x81, size) + text
    if size < 1 << 16:
        return struct.pack(">BBH", 0x81, 126, size) + text
    return struct.pack(">BBQ", 0x81, 127, size) + text


def bodies(seed: int = 1) -> list[Prepared]:
    """Return dispatches in the usual mix."""
    options = LoadOptions(rate=1000, poisson=False)
    made = LoadGenerator(options, random.Random(seed), shards=1, guilds=1, now_ms=0)
    return [
        (f'{{"t":"{event.event}","s":'.encode(), f',"op":0,"d":{event.body}}}'.encode())
        for event in made.due(BODIES, [0])
    ]


class Firehose(GatewayServer):
    """A gateway that can be opened wide; heartbeats and all else go on as ever.

    Attributes:
        sent: Last sequence number of each shard, once the hoses are open.
    """

    _hoses: dict[int, asyncio.Task[None]]
    sent: dict[int, int]

    def open_hoses(self, prepared: Sequence[Prepared], first: int | None = None) -> None:
        """Send to every shard that has a connection, until `close_hoses`.

        Args:
            prepared: The dispatches; each shard begins with another one.
            first: Number of the first dispatch; None goes on from the session's own.
        """
        last = {shard.shard: shard.sequence for shard in self.stats().shards}
        self.sent = last if first is None else dict.fromkeys(last, first - 1)
        self._hoses = {}
        for number, outlet in self._outlets.items():
            session = self.core.connections[number].session
            if session is not None:
                texts = itertools.islice(itertools.cycle(prepared), session.shard * 97, None)
                pour = self._pour(outlet, session.shard, texts)
                self._hoses[session.shard] = asyncio.create_task(pour)

    async def close_hoses(self) -> dict[int, int]:
        """Stop between two blocks; return the last sequence number of each shard."""
        for hose in self._hoses.values():
            hose.cancel()
        await asyncio.gather(*self._hoses.values(), return_exceptions=True)
        return self.sent

    async def _pour(self, outlet: _Outlet, shard: int, texts: Iterator[Prepared]) -> None:
        websocket = outlet._websocket
        while True:
            first = self.sent[shard] + 1
            block = itertools.islice(texts, BLOCK)
            websocket.transport.write(
                b"".join(frame(b"%b%d%b" % (a, s, z)) for s, (a, z) in enumerate(block, first))
            )
            self.sent[shard] = first + BLOCK - 1
            await asyncio.sleep(0)
            await websocket.drain()
