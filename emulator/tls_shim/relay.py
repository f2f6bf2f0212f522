"""One connection of a node in QEMU to a runner: its bytes pass through this process."""

from __future__ import annotations

import itertools
import selectors
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from pydantic import ValidationError

from emulator.tls_shim.errand import Errand, Outcome
from emulator.tls_shim.settings import NotImplementedHereError
from emulator.tls_shim.verdict import HOST, FailedError, anchors, tell
from emulator.tls_shim.wire import LINGER_S, PATIENCE_S, dial
from firmware.layouts.tls_echo import SAY_MAX, STORE_MAX

if TYPE_CHECKING:
    from emulator.tls_shim.settings import Settings

HELLO_RECORD = b"\x16"
"""The first byte of a server that says hello; an alert begins with another one."""
READ_BYTES = 1 << 16


def _errand(settings: Settings, port: int) -> Errand:
    """Return what the node has to do.

    Raises:
        NotImplementedHereError: The role on the node does not do it.
    """
    wanted = {
        "-shim-shuts-down": settings.shuts_down,
        "-key-update": settings.updates_keys,
        "-expect-cipher or -expect-curve-id": set(settings.expected) - {"version"},
    }
    for flag, asked in wanted.items():
        if asked:
            raise NotImplementedHereError(f"{flag} together with -node")
    store, say = anchors(settings), settings.first * settings.repeat
    for what, contents, most in (("roots", store, STORE_MAX), ("first words", say, SAY_MAX)):
        if len(contents) > most:
            raise NotImplementedHereError(
                f"{what} of {len(contents)} bytes: one datagram tells the node {most}"
            )
    return Errand(
        port=port,
        store=store,
        name=settings.host or HOST,
        named=bool(settings.host),
        date=settings.date,
        say=say,
    )


class Relay:
    """A node's connection and the runner's, one behind the other.

    Args:
        settings: What the runner asks for.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._first = b""
        self._ended = threading.Event()

    def run(self) -> None:
        """Let the node connect, pass on what both say, judge what the node says of it.

        Raises:
            FailedError: It failed, ours or theirs.
            NotImplementedHereError: The node does not do what is asked for.
            OSError: The runner, or the keeper of the node, cannot be reached.
        """
        s = self._settings
        with socket.create_server(("127.0.0.1", 0)) as listener:
            errand = _errand(s, listener.getsockname()[1])
            with socket.create_connection(("127.0.0.1", s.node), PATIENCE_S) as keeper:
                with dial(s) as runner:
                    keeper.sendall(errand.line())
                    node = _connected(listener, keeper)
                    if node is not None:
                        with node:
                            self._pass_on(runner, node)
                outcome = _outcome(keeper)
        if outcome.error:
            tell(
                outcome.error,
                s,
                greeted=self._first == HELLO_RECORD,
                wants_close_notify=s.wants_close_notify or outcome.stage != "none",
            )

    def _pass_on(self, runner: socket.socket, node: socket.socket) -> None:
        """Pass bytes on until the node has ended its side and the runner has read that."""
        node.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        node.settimeout(PATIENCE_S)
        there = threading.Thread(target=self._to_node, args=(runner, node))
        there.start()
        try:
            with suppress(ConnectionError):
                while said := node.recv(READ_BYTES):
                    with suppress(ConnectionError):
                        runner.sendall(said)
        finally:
            self._ended.set()
            # A reset would take the last words from the runner.
            with suppress(OSError):
                runner.shutdown(socket.SHUT_WR)
            there.join(LINGER_S)
            with suppress(OSError):
                runner.shutdown(socket.SHUT_RDWR)
            there.join()

    def _to_node(self, runner: socket.socket, node: socket.socket) -> None:
        """Pass on what the runner says, in pieces; what nobody wants any more is read all the same."""
        pieces = itertools.cycle(self._settings.pieces)
        with suppress(OSError):
            while said := runner.recv(next(pieces)):
                self._first = self._first or said[:1]
                with suppress(OSError):
                    if not self._ended.is_set():
                        node.sendall(said)
        with suppress(OSError):
            node.shutdown(socket.SHUT_WR)


def _connected(listener: socket.socket, keeper: socket.socket) -> socket.socket | None:
    """Wait for the node; return None when its keeper says how it ended before it connected.

    Raises:
        FailedError: Neither happens.
    """
    with selectors.DefaultSelector() as waiting:
        for one in (listener, keeper):
            waiting.register(one, selectors.EVENT_READ)
        came = {key.fileobj for key, _ in waiting.select(PATIENCE_S)}
    if not came:
        raise FailedError(f":NODE: it did not connect in {PATIENCE_S:g} s")
    return listener.accept()[0] if listener in came else None


def _outcome(keeper: socket.socket) -> Outcome:
    """Read the node's word.

    Raises:
        FailedError: Its keeper has none.
    """
    with keeper.makefile("rb") as lines:
        line = lines.readline()
    try:
        return Outcome.model_validate_json(line)
    except ValidationError:
        raise FailedError(f":NODE: its keeper says {line!r}; its own terminal says why") from None
