"""An Ethernet segment of its own: a bridge in a network namespace, with taps for nodes. Needs root.

Nothing outside the namespace changes, and removing the namespace removes all of it.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import socket
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pxe.process import NodeError
from pxe.qemu import TapNet, require_program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

BRIDGE = "br0"
HOST_ADDRESS = "10.77.0.1"
PREFIX_LENGTH = 24
# Router advertisements need an address; without them iPXE waits 15 s for one.
HOST_ADDRESS_V6 = "fd77::1/64"
_numbers = itertools.count()


class Segment:
    """A bridge at 10.77.0.1/24 in a fresh namespace; use it as `with`.

    Attributes:
        name: the namespace.
        prefix: the command prefix that runs a program in it, for `NodeOptions.prefix`.
    """

    def __init__(self, taps: int = 1) -> None:
        """Prepare a segment.

        Args:
            taps: how many nodes it has places for.
        """
        self.name = f"shardfw-{os.getpid()}-{next(_numbers)}"
        self.taps = [TapNet(f"tap{number}") for number in range(taps)]

    @property
    def prefix(self) -> tuple[str, ...]:
        """Return the command prefix that runs a program in the namespace."""
        return (require_program("ip", "iproute2"), "netns", "exec", self.name)

    def __enter__(self) -> Self:
        """Make the namespace, the bridge and the taps.

        Raises:
            NodeError: not root, or `ip` refused; with its words.
        """
        if os.geteuid() != 0:
            raise NodeError(
                "a bridge in a network namespace needs root. Use UserNet, or run as root"
            )
        self.ip("netns", "add", self.name)
        try:
            self._fill()
        except BaseException:
            self.ip("netns", "delete", self.name)
            raise
        return self

    def _fill(self) -> None:
        inside = ("-n", self.name)
        self.ip(*inside, "link", "set", "lo", "up")
        self.ip(*inside, "link", "add", BRIDGE, "type", "bridge", "forward_delay", "0")
        self.ip(*inside, "address", "add", f"{HOST_ADDRESS}/{PREFIX_LENGTH}", "dev", BRIDGE)
        self.ip(*inside, "address", "add", HOST_ADDRESS_V6, "dev", BRIDGE, "nodad")
        for tap in self.taps:
            self.ip(*inside, "tuntap", "add", tap.ifname, "mode", "tap")
            self.ip(*inside, "link", "set", tap.ifname, "master", BRIDGE, "up")
        self.ip(*inside, "link", "set", BRIDGE, "up")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the namespace and with it everything inside."""
        self.ip("netns", "delete", self.name)

    @staticmethod
    def ip(*arguments: str) -> None:
        """Run `ip`.

        Raises:
            NodeError: it refused; with its words.
        """
        command = [require_program("ip", "iproute2"), *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise NodeError(f"{' '.join(command)}: {done.stderr.strip()}")

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Let this thread, and the threads and processes that it starts, live in the namespace.

        Raises:
            NodeError: the namespace could not be entered.
        """
        with Path("/proc/thread-self/ns/net").open("rb") as outside:
            try:
                self._enter()
            except OSError as error:
                raise NodeError(f"{self.name} cannot be entered: {error}") from error
            try:
                yield
            finally:
                _set_namespace(outside.fileno())

    def _enter(self) -> None:
        with Path("/run/netns", self.name).open("rb") as place:
            _set_namespace(place.fileno())

    def open_socket(self, kind: socket.SocketKind, port: int = 0) -> socket.socket:
        """Return a bound IPv4 socket that lives in the namespace, while the caller stays outside.

        So a gateway in this process can serve nodes of the segment.

        Args:
            kind: SOCK_STREAM or SOCK_DGRAM.
            port: port on 10.77.0.1; 0 for a free one.

        Raises:
            NodeError: the namespace could not be entered or the port is taken.
        """
        outcome: list[socket.socket | OSError] = []

        # A thread has a namespace of its own and takes it to its end; the process keeps the old one.
        def enter() -> None:
            try:
                self._enter()
                made = socket.socket(socket.AF_INET, kind)
                try:
                    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    made.bind((HOST_ADDRESS, port))
                except OSError:
                    made.close()
                    raise
                outcome.append(made)
            except OSError as error:
                outcome.append(error)

        thread = threading.Thread(target=enter, name=self.name)
        thread.start()
        thread.join()
        (result,) = outcome
        if isinstance(result, OSError):
            raise NodeError(f"no socket on port {port} in {self.name}: {result}") from result
        return result


def _set_namespace(descriptor: int) -> None:
    """Move this thread into a network namespace (setns(2)).

    Raises:
        OSError: the kernel refused.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
