"""A way to a server that ends in the middle of something, for good."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

PIECE = 1 << 16


class CutRelay:
    """Passes on what clients and server say, while its context is open and the word was not said.

    Args:
        port: Of the server, on this machine.
        word: As soon as a client says it all connections end, and no new one is taken.

    Attributes:
        is_cut: Whether it was said.
    """

    def __init__(self, port: int, word: bytes) -> None:
        self.is_cut = False
        self._to, self._word = port, word
        self._ends: list[StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        self._end()

    @property
    def url(self) -> str:
        """Where clients connect to."""
        return f"nats://127.0.0.1:{self.port}"

    def _end(self) -> None:
        if self._server is not None:
            self._server.close()
        for end in self._ends:
            end.transport.abort()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        answers, requests = await asyncio.open_connection("127.0.0.1", self._to)
        self._ends += [writer, requests]
        back = asyncio.create_task(self._pass_on(answers, writer))
        await self._pass_on(reader, requests, self._word)
        await back

    async def _pass_on(self, source: StreamReader, sink: StreamWriter, word: bytes = b"") -> None:
        try:
            while data := await source.read(PIECE):
                if word and word in data:
                    self.is_cut = True
                    self._end()
                sink.write(data)
        except ConnectionError:
            self._end()
        sink.close()
