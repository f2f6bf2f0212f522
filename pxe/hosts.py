"""Hosts beside a segment: each in a network namespace of its own, with one address. Needs root.

The segment's namespace routes between them, its nodes and itself, so any two addresses can be cut
apart while all others go on reaching both.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pxe.qemu import require_program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from pxe.segment import Segment

FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
PREFIX_LENGTH = 30


class Hosts:
    """Some hosts; use it as `with`, inside that of their segment.

    Attributes:
        segment: What routes between them.
        names: Their namespaces.
    """

    def __init__(self, segment: Segment, count: int) -> None:
        """Prepare hosts.

        Args:
            segment: Runs. Nodes find the hosts when its address is their router.
            count: How many.
        """
        self.segment = segment
        self.names = [f"{segment.name}-{number}" for number in range(1, count + 1)]

    @property
    def addresses(self) -> list[str]:
        """Return the address of each."""
        return [f"10.78.{number}.2" for number in range(1, len(self.names) + 1)]

    @property
    def prefixes(self) -> list[tuple[str, ...]]:
        """Return the command prefix that runs a program on each."""
        program = require_program("ip", "iproute2")
        return [(program, "netns", "exec", name) for name in self.names]

    def __enter__(self) -> Self:
        """Make the namespaces and the ways to them.

        Raises:
            NodeError: `ip` refused; with its words.
        """
        with contextlib.ExitStack() as stack:
            with self.segment.inside():
                FORWARDING.write_text("1")
            for number, name in enumerate(self.names, 1):
                self.segment.ip("netns", "add", name)
                stack.callback(self.segment.ip, "netns", "delete", name)
                self._join(number, name)
            self._made = stack.pop_all()
        return self

    def _join(self, number: int, name: str) -> None:
        ip, router = self.segment.ip, self.segment.name
        cable, ours, theirs = f"host{number}", f"10.78.{number}.1", f"10.78.{number}.2"
        ip("-n", router, "link", "add", cable, "type", "veth", "peer", "eth0", "netns", name)
        for space, device, address in ((router, cable, ours), (name, "eth0", theirs)):
            ip("-n", space, "address", "add", f"{address}/{PREFIX_LENGTH}", "dev", device)
            ip("-n", space, "link", "set", device, "up")
        ip("-n", name, "link", "set", "lo", "up")
        ip("-n", name, "route", "add", "default", "via", ours)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the namespaces."""
        self._made.close()

    @contextlib.contextmanager
    def cut(self, one: list[str], other: list[str], *, back: bool = True) -> Iterator[None]:
        """Let nothing through between two groups of addresses meanwhile.

        Args:
            one: Addresses of hosts or nodes.
            other: The same.
            back: Whether what the other group sends is lost too.

        Raises:
            NodeError: `ip` refused; with its words.
        """
        pairs = [(a, b) for a in one for b in other]
        with contextlib.ExitStack() as stack:
            for source, target in (*pairs, *((b, a) for a, b in pairs if back)):
                rule = ("from", source, "to", target, "blackhole")
                self.segment.ip("-n", self.segment.name, "rule", "add", *rule)
                stack.callback(self.segment.ip, "-n", self.segment.name, "rule", "delete", *rule)
            yield
