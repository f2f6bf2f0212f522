"""A node in QEMU that connects for the TLS shim, one runner's test after the other.

    python -m tests.tls_node

It boots the node, prints what the shim is given, and goes on until Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import socketserver
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.tls_shim.errand import Errand, Outcome
from tests.support.tls_echo import EchoNode, echo_image

if TYPE_CHECKING:
    from collections.abc import Sequence


class _Handler(socketserver.StreamRequestHandler):
    """One errand: the node is told whom to trust and where to connect, and says how it went."""

    def handle(self) -> None:
        line = self.rfile.readline()
        if not line:  # the shim gave up while it waited for its turn
            return
        errand = Errand.model_validate_json(line)
        assert isinstance(self.server, Keeper)
        node = self.server.node
        node.trust(errand.store)
        node.connect(
            errand.port,
            name=errand.name.decode(),
            named=errand.named,
            date=errand.date,
            say=errand.say,
        )
        verdict = node.verdict()
        outcome = Outcome(received=verdict.received, error=verdict.error, stage=verdict.stage)
        with contextlib.suppress(ConnectionError):  # a runner may have ended the shim
            self.wfile.write(outcome.line())


class Keeper(socketserver.TCPServer):
    """Takes errands for a node; each waits until the one before is over.

    Args:
        node: A booted one.
        port: Where it listens on this machine; 0 = any free one.
    """

    request_queue_size = 128
    allow_reuse_address = True

    def __init__(self, node: EchoNode, port: int = 0) -> None:
        self.node = node
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def port(self) -> int:
        """Return where it listens."""
        return int(self.server_address[1])


def main(arguments: Sequence[str] | None = None) -> None:
    """Boot a node and take errands until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m tests.tls_node", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="where the shim finds it [any]")
    port = parser.parse_args(arguments).port
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background job ignores the first
        signal.signal(number, signal.default_int_handler)
    with (
        contextlib.suppress(KeyboardInterrupt),
        tempfile.TemporaryDirectory(prefix="shardfw-tls-") as folder,
        EchoNode(echo_image(Path(folder))) as node,
        Keeper(node, port) as keeper,
    ):
        sys.stdout.write(f"The node is up. Give the shim: -node {keeper.port}\n")
        sys.stdout.flush()
        keeper.serve_forever()


if __name__ == "__main__":
    main()
