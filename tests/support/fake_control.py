"""A node's control channel in Python, and what a network may do to its datagrams."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

from firmware.layouts.control import (
    CONTROL_REPLY_MAGIC,
    CONTROL_TAG_BYTES,
    CONTROL_VERSION,
    ControlReply,
    ControlRequest,
    ControlResult,
    ControlVerb,
)
from tests.support.control import BOOT, KEY, tag
from toolchain.layout.pack import pack, unpack

if TYPE_CHECKING:
    from collections.abc import Callable


class FakeControl:
    """Carries commands out as `firmware/node/control.py` does, on a free UDP port of loopback.

    Args:
        act: Gets verb, argument and payload; returns result, value and payload. `slot` is the
            request's.
        key: The node's key.
        boot: Its boot nonce.
        last: The last counter that was accepted.
    """

    def __init__(
        self,
        act: Callable[[ControlVerb, int, bytes], tuple[int, int, bytes]] | None = None,
        *,
        key: bytes = KEY,
        boot: int = BOOT,
        last: int = 0,
    ) -> None:
        self.act = act or (lambda _verb, argument, _payload: (ControlResult.DONE, argument, b""))
        self.key, self.boot, self.last = key, boot, last
        self.lose_requests = self.lose_answers = 0
        self.before_answer: list[bytes] = []
        self.after_answer: list[bytes] = []
        self.between: Callable[[], None] | None = None
        self.done: list[tuple[ControlVerb, int]] = []
        self.slot = 0
        self.sizes: list[tuple[int, int]] = []
        self._stored = self._tag = b""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> FakeControl:
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
            if self.lose_requests:
                self.lose_requests -= 1
                continue
            answer = self._answer(request)
            if answer is None:
                continue
            self.sizes.append((len(request), len(answer)))
            if self.lose_answers:
                self.lose_answers -= 1
                if self.between is not None:
                    self.between()
                continue
            for junk in self.before_answer:
                self._socket.sendto(junk, sender)
            self._socket.sendto(answer, sender)
            while self.after_answer:
                self._socket.sendto(self.after_answer.pop(0), sender)

    def _answer(self, request: bytes) -> bytes | None:
        """Return the answer to one datagram, None for what the node passes over."""
        text, given = request[:-CONTROL_TAG_BYTES], request[-CONTROL_TAG_BYTES:]
        if given != tag(text, self.key):
            return None
        asked = unpack(ControlRequest, text)
        if asked["boot"] != self.boot:
            return self._reply(asked, ControlResult.BOOT)
        if asked["counter"] == self.last and given == self._tag:
            return self._stored
        if asked["counter"] <= self.last:
            return self._reply(asked, ControlResult.REPLAYED)
        self.last, self._tag = asked["counter"], given
        end = ControlRequest.SIZE + asked["length"]
        verb = ControlVerb(asked["verb"])
        self.done.append((verb, asked["argument"]))
        self.slot = asked["slot"]
        result, value, payload = self.act(verb, asked["argument"], text[ControlRequest.SIZE : end])
        self._stored = self._reply(asked, result, value, payload)
        return self._stored

    def _reply(
        self, asked: dict[str, int], result: int, value: int = 0, payload: bytes = b""
    ) -> bytes:
        head = {
            "magic": CONTROL_REPLY_MAGIC,
            "version": CONTROL_VERSION,
            "result": result,
            "counter": asked["counter"],
            "boot": self.boot,
            "last": self.last,
            "value": value,
            "length": len(payload),
        }
        text = pack(ControlReply, head) + payload
        return text + tag(text, self.key)
