"""A node's diagnostics service in Python: answers datagrams as `firmware/node/diagnostics.py` does."""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass, field
from typing import Any

from firmware.layouts.shard import ShardContext
from firmware.layouts.status import (
    SHARD_HEAD_BYTES,
    STATUS_REPLY_MAGIC,
    STATUS_REQUEST_MAGIC,
    StatusReply,
)
from toolchain.layout.pack import pack, unpack


@dataclass
class FakeShard:
    """One slot: fields of ShardContext, and those of the reply that are not in its head."""

    context: dict[str, Any] = field(default_factory=dict)
    reply: dict[str, Any] = field(default_factory=dict)


class FakeNode:
    """Answers on a free UDP port of loopback, in a thread.

    Args:
        node: Fields of StatusReply about the node.
        shards: One entry per slot.
        lose: How many datagrams to swallow first.
    """

    def __init__(self, node: dict[str, Any], shards: list[FakeShard], lose: int = 0) -> None:
        self.node, self.shards, self.lose = node, shards, lose
        self.sizes: list[int] = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> FakeNode:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as waker:
            waker.sendto(b"", ("127.0.0.1", self.port))
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            request, sender = self._socket.recvfrom(2048)
            if not request:
                return
            self.sizes.append(len(request))
            if self.lose:
                self.lose -= 1
                continue
            answer = self.answer(request)
            if answer is not None:
                self._socket.sendto(answer, sender)

    def answer(self, request: bytes) -> bytes | None:
        """Return the answer to one datagram, None for what the node ignores."""
        if len(request) < StatusReply.SIZE:
            return None
        asked = unpack(StatusReply, request)
        if asked["magic"] != STATUS_REQUEST_MAGIC:
            return None
        values = {
            "magic": STATUS_REPLY_MAGIC,
            "slot": asked["slot"],
            "nonce": asked["nonce"],
            "slots_used": len(self.shards),
            **self.node,
        }
        if asked["slot"] < len(self.shards):
            shard = self.shards[asked["slot"]]
            head = pack(ShardContext, {"slot": asked["slot"], **shard.context})
            values |= {"shard": head[:SHARD_HEAD_BYTES], **shard.reply}
        return pack(StatusReply, values)
