"""Listening to nodes that wait for their token, and releasing it to some of them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from firmware.layouts.enrol import ANNOUNCE_JITTER_MS, ANNOUNCE_MIN_MS
from firmware.layouts.fleet_diag import DIAG_EVERY_MS, DIAG_FORMAT
from pxe.nats import settle
from toolchain.cli.fleet.connect import FleetError
from toolchain.cli.fleet.enrolment import Announcement

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nats.aio.msg import Msg

    from toolchain.cli.fleet.connect import Fleet
    from toolchain.cli.fleet.enrolment import Identity

LISTEN_S = (ANNOUNCE_MIN_MS + ANNOUNCE_JITTER_MS) / 1000 + 0.5
"""In this time every node that waits has said so."""
ENROLLED_S = 10.0 + 2 * DIAG_EVERY_MS / 1000
"""A node logs in anew before it says that it is enrolled; a TLS handshake may take ten seconds. Twice
after that it says its numbers."""
PERMISSIONS = (
    "An operator subscribes to shardfw.{bot}.enrol.* and publishes to _E.>; "
    "firmware/docs/enrol.md lists who may do what"
)


@dataclass(frozen=True)
class Heard:
    """An announcement and when it came, by `time.monotonic()`."""

    line: Announcement
    at: float


class Desk:
    """All that was announced since it was opened, the newest line of each key.

    Args:
        fleet: The connection.
    """

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.ignored = 0
        self._heard: dict[bytes, Heard] = {}
        self._numbers = f"shardfw.{fleet.bot}.diag.*"
        # The library writes what a server denies in small letters.
        self._spare = self._numbers.lower()
        self._joined: set[tuple[str, str]] = set()
        self._news = asyncio.Event()

    async def open(self) -> None:
        """Subscribe.

        Raises:
            FleetError: This user may not listen.
        """
        await self.fleet.client.subscribe(f"shardfw.{self.fleet.bot}.enrol.*", cb=self._take)
        await self.fleet.client.subscribe(self._numbers, cb=self._take_numbers)
        await settle(self.fleet.client)
        self.check()

    async def _take_numbers(self, message: Msg) -> None:
        format_, _, rest = message.data.decode("ascii", "replace").partition(" ")
        if format_ == str(DIAG_FORMAT):
            self._joined.add((message.subject.rpartition(".")[2], rest.partition(" ")[0]))
            self._news.set()

    async def _take(self, message: Msg) -> None:
        found = Announcement.parse(message.subject, message.reply, message.data)
        if found is None:
            self.ignored += 1
            return
        self._heard[found.key] = Heard(found, time.monotonic())
        self._news.set()

    def check(self) -> None:
        """Go on only while this user may do all that is needed and is connected.

        Raises:
            FleetError: Something is not allowed, or the connection is gone.
        """
        # Who may approve and do no more hears no numbers: the node's own word has to do.
        complaints = [text for text in self.fleet.complaints if self._spare not in text.lower()]
        if complaints:
            raise FleetError(
                f"{self.fleet.denial(complaints[-1])}. {PERMISSIONS.format(bot=self.fleet.bot)}"
            )
        if self.fleet.client.is_closed:
            raise FleetError(self.fleet.gone())

    def waiting(self) -> list[Announcement]:
        """Return who waits, by name; whoever fell silent does not any more."""
        oldest = time.monotonic() - 2 * LISTEN_S
        lines = (heard.line for heard in self._heard.values() if heard.at >= oldest)
        return sorted((line for line in lines if not line.enrolled), key=lambda line: line.node)

    async def news(self, timeout: float) -> None:
        """Wait until something is announced, or for so long.

        Raises:
            FleetError: The connection is gone, or something is not allowed.
        """
        self.check()
        self._news.clear()
        try:
            await asyncio.wait_for(self._news.wait(), max(timeout, 0.001))
        except TimeoutError:
            return

    async def listen(self) -> list[Announcement]:
        """Return who waits, after a time in which all of them spoke."""
        until = time.monotonic() + LISTEN_S
        while (left := until - time.monotonic()) > 0:
            await self.news(left)
        self.check()
        return self.waiting()

    async def release(self, line: Announcement, grant: bytes) -> None:
        """Seal a grant to a node, send it, and wait until the node is enrolled.

        It says so once, which an outage on either side can swallow. Every ten seconds it says its numbers,
        with the number of its boot, and it does that with its token alone.

        Raises:
            FleetError: It refused the seal, or is not heard of; or this user may not send it.
        """
        before = self._heard[line.key].line.refused
        await self.fleet.client.publish(line.reply, line.seal(self.fleet.bot, grant))
        await settle(self.fleet.client)
        until = time.monotonic() + ENROLLED_S
        while (left := until - time.monotonic()) > 0:
            await self.news(left)
            now = self._heard[line.key].line
            if now.enrolled or (line.node, line.boot) in self._joined:
                return
            if now.refused > before:
                raise FleetError(
                    f"{line.node} refused what was sealed to it. Its log says why, at "
                    "code=enrol.refused"
                )
        raise FleetError(
            f"{line.node} did not say within {ENROLLED_S:g} s that it is enrolled. Look at its log: "
            "code=enrol.refused, or code=bus.down when it cannot log in with what it was given"
        )


def choose(waiting: Sequence[Announcement], node: str, fingerprint: str | None) -> Announcement:
    """Return the announcement that an operator means.

    Raises:
        FleetError: None is, or two are; the text says which there are.
    """
    found = [line for line in waiting if line.node == node]
    if not found:
        names = ", ".join(line.node for line in waiting) or "nobody"
        raise FleetError(f"{node} does not wait for its token; there waits: {names}")
    if fingerprint is not None:
        wanted = int(fingerprint, 16)
        same = [line for line in found if int(line.fingerprint, 16) == wanted]
        if not same:
            raise FleetError(
                f"{node} waits with the fingerprint {', '.join(line.fingerprint for line in found)}, "
                f"not {wanted:#x}. Compare it with the node's own log or with shardfw status"
            )
        found = same
    if len(found) > 1:
        raise FleetError(
            f"{len(found)} machines call themselves {node}: "
            + ", ".join(line.fingerprint for line in found)
            + ". Compare with the node's own log and give --fingerprint"
        )
    return found[0]


async def approve_known(
    desk: Desk,
    identities: Sequence[Identity],
    seconds: float,
    grant: bytes,
    say: Callable[[str], None],
    enrolled: Callable[[Announcement], None],
) -> None:
    """Release to each known machine once, as it comes, until all are enrolled or the time is over.

    Whoever comes second with an identity that was served is told of and gets nothing: one of the two is
    not what it says.

    Args:
        desk: Open.
        identities: Machines that are known.
        seconds: How long.
        grant: What is released.
        say: Called with each step, for people.
        enrolled: Called with each node as it is enrolled.

    Raises:
        FleetError: The time is over and some never came; or something is not allowed.
    """
    identities = list(dict.fromkeys(identities))
    until = time.monotonic() + seconds
    served: dict[Identity, Announcement] = {}
    told: set[bytes] = set()
    while len(served) < len(identities) and (left := until - time.monotonic()) > 0:
        for line in desk.waiting():
            matching = [one for one in identities if one.is_of(line)]
            if not matching or line.key in told:
                continue
            identity = next((one for one in matching if one not in served), matching[0])
            told.add(line.key)
            if identity in served:
                say(
                    f"{line.node} {line.fingerprint} says that it is {identity}, which "
                    f"{served[identity].node} {served[identity].fingerprint} was: nothing is released"
                )
                continue
            say(f"{line.node} {line.fingerprint} says that it is {identity}")
            try:
                await desk.release(line, grant)
            except FleetError as error:
                desk.check()
                say(f"{error}. Whoever comes next as {identity} is served")
                continue
            served[identity] = line
            enrolled(line)
        await desk.news(min(left, 1.0))
    if missing := [str(one) for one in identities if one not in served]:
        raise FleetError(
            f"within {seconds:g} s nobody came as {' or '.join(missing)}. Does the node run, and does "
            "its image hold no token? shardfw fleet approve lists who waits"
        )
