"""A QEMU node in the TLS echo role, driven from ordinary threads: connect it, read its verdict."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self, TypeVar

from firmware.errors import describe
from firmware.image import link_direct
from firmware.layouts.tls import Hybrid
from firmware.layouts.tls_echo import TLS_ECHO_MAGIC, TlsEchoControl
from pxe.node import DirectBoot, Node, NodeError, NodeOptions, UserNet
from tests.support.chains import store_of
from tests.system.roles import tls_echo_node
from toolchain.cli import images
from toolchain.cli.run_config import with_lines
from toolchain.config import load_config
from toolchain.config.endpoint import QEMU_HOST
from toolchain.layout.pack import pack as pack_struct

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

NAME = "gateway.test"
DATE = int(datetime(2027, 1, 1, tzinfo=UTC).timestamp())
"""When connections take place: behind the image's build, whatever the machine's clock says."""
PATIENCE_S = 60.0
"""Longest wait for anything; a loaded machine of two cores needs a fraction of it."""
ANSWER_S = 2.0
"""Until a datagram is said again: before the node has an address none comes through."""
VERDICT = re.compile(
    r"code=gateway\.closed close=(?P<received>\d+) flags=0x0 "
    r'|code=lifecycle\.connectionEnded .* error=0x(?P<error>[0-9a-f]+) .*stage=(?P<stage>\w+) .*text="(?P<text>[^"]*)"'
)
T = TypeVar("T")


@dataclass(frozen=True)
class Verdict:
    """What a node said of one connection.

    Attributes:
        received: bytes that came, when it ended in order.
        error: its cause otherwise: layer << 24 | site << 16 | detail.
        stage: how far it had come then; "none" = the handshake was over.
        text: the log's sentence about it.
    """

    received: int = 0
    error: int = 0
    stage: str = "none"
    text: str = ""

    @property
    def why(self) -> str:
        """The name of the error's site; "ok" without one."""
        return describe(self.error) if self.error else "ok"


def echo_image(folder: Path, *roots: bytes) -> Path:
    """Write a bootable file whose one shard is the role.

    Args:
        folder: Where.
        roots: The certificates that it trusts, as DER.
    """
    roles = (
        tls_echo_node.shard_tick,
        tls_echo_node.diagnostics_input,
    )
    linked = link_direct({role.name: role for role in roles})[0]
    settings = {"shards.total": 1, "shards.count": 1, "gateway.url": f"wss://{QEMU_HOST}/"}
    config = with_lines(load_config(None, os.environ, settings))
    template = images.template_of(linked, release=False)
    file = folder / "tls_echo.bin"
    file.write_bytes(images.complete(template, config, store_of(*roots)))
    return file


class EchoNode:
    """One booted node; its event loop runs in a thread of its own.

    Args:
        image: The file that `echo_image` wrote.
    """

    def __init__(self, image: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="node")
        options = NodeOptions(net=UserNet(), boot=DirectBoot(image))
        self._node = Node(options)
        self._seen = self._port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._run(self._node.start())
            self._run(self._node.wait_line("code=tls.started", PATIENCE_S))
            self._run(self._node.wait_line("code=node.started", PATIENCE_S))
            self._port = self._run(self._node.forwarded_port())
            self._tell(b"")  # it has an address when it hears this
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._node.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[object, object, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(2 * PATIENCE_S)

    def connect(
        self,
        port: int,
        *,
        name: str = NAME,
        date: int = DATE,
        named: bool = True,
        say: bytes = b"",
        quiet: bool = False,
        limit: int = 0,
        hybrid: Hybrid = Hybrid.OFF,
    ) -> None:
        """Let the node connect to a server of this machine.

        Args:
            port: Where the server listens.
            name: For SNI and the certificate.
            date: What the node takes for the date, Unix seconds.
            named: It tells the server that name.
            say: What it says first.
            quiet: It sends nothing back.
            limit: Received bytes after which it ends the connection; 0 leaves that to the server.
            hybrid: What its hellos say of X25519MLKEM768.
        """
        self._seen = len(self._node.lines)
        host, server = QEMU_HOST.encode(), name.encode()
        request = pack_struct(
            TlsEchoControl,
            {
                "magic": TLS_ECHO_MAGIC,
                "host_len": len(host),
                "name_len": len(server),
                "say_len": len(say),
                "limit": limit,
                "port": port,
                "quiet": quiet,
                "unnamed": not named,
                "unix_time": date,
                "host": host,
                "name": server,
                "say": say,
                "hybrid": hybrid,
            },
        )
        self._send(request)

    def trust(self, store: bytes) -> None:
        """Let the node believe the anchors of a trust store, and no others, from now on."""
        self._tell(store)

    def _tell(self, datagram: bytes) -> None:
        """Say something until the node answers with its line about anchors."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            seen = len(self._node.lines)
            self._send(datagram)
            try:
                self._run(self._node.wait_line("code=tls.started", ANSWER_S, after=seen))
            except NodeError:
                if time.monotonic() > deadline:
                    raise
            else:
                return

    def _send(self, datagram: bytes) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as trigger:
            trigger.sendto(datagram, ("127.0.0.1", self._port))

    def verdict(self) -> Verdict:
        """Wait for what the node says of the connection that `connect` began."""
        waited = self._node.wait_line(VERDICT.pattern, PATIENCE_S, after=self._seen)
        found = VERDICT.search(self._run(waited).text)
        assert found is not None
        if found["received"] is not None:
            return Verdict(received=int(found["received"]))
        return Verdict(error=int(found["error"], 16), stage=found["stage"], text=found["text"])
