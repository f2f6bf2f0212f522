"""A node that waits for its token, in Python: announces itself, opens what is sealed to it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import nats
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from firmware.layouts.enrol import Grant
from toolchain.layout.pack import unpack

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nats.aio.client import Client
    from nats.aio.msg import Msg

SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
EVERY_S = 0.2
BOOT = "3fa2c1d0"
BUILD_ID = "a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3"
IDENTITY = f"525400000077 4c4c454400574d108030b4c04f4b5931 S-1 {BUILD_ID}"


class EnrollingNode:
    """Runs while its context is open.

    Args:
        url: Of NATS.
        node: Its name.
        identity: What it says of its machine.
        deaf: It takes no notice of what is sent to it.
        opens_as: What its machine is in truth, if not what it says.
        reply: Where it says that it listens, if elsewhere than it does.
        login: Options of the connection.
        numbers: Once it has its token it does not say so, but these, in the place of `{boot}` its boot.
    """

    def __init__(
        self,
        url: str,
        node: str = "n7",
        identity: str = IDENTITY,
        *,
        deaf: bool = False,
        opens_as: str = "",
        reply: str = "",
        login: Mapping[str, Any] | None = None,
        numbers: str = "",
    ) -> None:
        self.opens_as = opens_as or identity
        self.url, self.node, self.identity, self.deaf = url, node, identity, deaf
        self.login = login or {}
        self.key = X25519PrivateKey.generate()
        self.inbox = reply or f"_E.{node}.{BOOT}.c.1"
        self.numbers = numbers.format(boot=BOOT)
        self.refused = 0
        self.got: list[bytes] = []
        self.grant: dict[str, Any] | None = None
        self.errors: list[str] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """Its connection, while its context is open."""
        assert self._client is not None
        return self._client

    @property
    def public(self) -> bytes:
        """Its public key."""
        return self.key.public_key().public_bytes_raw()

    async def __aenter__(self) -> EnrollingNode:
        async def heard(error: Exception) -> None:
            self.errors.append(str(error))

        self._client = await nats.connect(self.url, error_cb=heard, **self.login)
        await self._client.subscribe(f"_E.{self.node}.{BOOT}.c.*", cb=self._take)
        self._tasks.append(asyncio.create_task(self._announce()))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        if self._client is not None:
            await self._client.close()

    async def _announce(self) -> None:
        while self._client is not None:
            if self.grant is not None and self.numbers:
                await self._client.publish(f"shardfw.b1.diag.{self.node}", self.numbers.encode())
                await asyncio.sleep(EVERY_S)
                continue
            state = "waiting" if self.grant is None else "enrolled"
            body = f"1 {state} {self.refused} {self.public.hex()} {self.identity}"
            reply = self.inbox if self.grant is None else ""
            await self._client.publish(f"shardfw.b1.enrol.{self.node}", body.encode(), reply)
            await asyncio.sleep(EVERY_S)

    async def _take(self, message: Msg) -> None:
        if (message.headers or {}).get("Status"):
            return  # nobody listens
        self.got.append(message.data)
        if self.deaf:
            return
        info = f"shardfw enrol 1 b1 {self.node} {self.opens_as}".encode()
        try:
            self.grant = unpack(Grant, SUITE.decrypt(message.data, self.key, info=info))
        except InvalidTag:
            self.refused += 1
