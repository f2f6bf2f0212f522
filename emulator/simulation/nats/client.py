"""A client beside the wire, and what a NATS server said, cut into messages."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from emulator.simulation.clock import NS_PER_MS
from emulator.simulation.nats.protocol import CRLF, to_json

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from emulator.simulation.nats.cluster import NatsCluster
    from emulator.simulation.nats.session import Session

REDIAL_NS = 500 * NS_PER_MS

_HEADER = re.compile(rb"(H?MSG) (\S+) (\S+) (?:([^\s\d]\S*) )?(?:(\d+) )?(\d+)\r\n")


@dataclass
class Heard:
    """One message: subject, subscription, reply, header block, body."""

    subject: str
    sid: str
    reply: str
    header: bytes
    body: bytes

    @property
    def place(self) -> tuple[int, int, int]:
        """Stream sequence, consumer sequence and pending of a delivery."""
        words = self.reply.split(".")
        return int(words[5]), int(words[6]), int(words[8])


@dataclass
class Ear:
    """Cuts bytes into messages; lines that are none are kept in `said`."""

    said: bytes = b""
    data: bytes = field(default=b"", repr=False)

    def hear(self, data: bytes) -> list[Heard]:
        """Take bytes and return the messages that are whole."""
        self.data += data
        out = []
        while b"\r\n" in self.data:
            line, _, rest = self.data.partition(b"\r\n")
            found = _HEADER.match(line + b"\r\n")
            if found is None:
                self.said += line + b"\r\n"
                self.data = rest
                continue
            head, total = int(found[5] or 0), int(found[6])
            if len(rest) < total + 2:
                break
            self.data = rest[total + 2 :]
            subject, sid, reply = (each.decode() if each else "" for each in found.groups()[1:4])
            out.append(Heard(subject, sid, reply, rest[:head], rest[head:total]))
        return out


class Client:
    """Hears some subjects and publishes; when its connection is gone it makes another one.

    Args:
        cluster: whose servers it dials.
        rng: chooses among them.
        subjects: what it hears.
        take: called with each message.
        user: name and password; empty says nothing of itself.
    """

    def __init__(
        self,
        cluster: NatsCluster,
        rng: random.Random,
        subjects: tuple[str, ...],
        take: Callable[[Heard], None],
        user: tuple[str, str] = ("", ""),
    ) -> None:
        self._cluster, self._random, self._subjects, self._take = cluster, rng, subjects, take
        self._user = user
        self._session: Session | None = None
        self._dial()

    def publish(self, subject: str, body: bytes, reply: str = "") -> bool:
        """Publish a message, with the subject of the answer that is wanted; say whether it was taken."""
        if self._session is None:
            return False
        words = (
            f"PUB {subject} {reply} {len(body)}\r\n" if reply else f"PUB {subject} {len(body)}\r\n"
        )
        self._session.receive(words.encode() + body + CRLF)
        return True

    def move_on(self) -> None:
        """Give the connection up for another one."""
        if self._session is not None:
            self._session.reset()

    def _dial(self) -> None:
        able = [server for server in self._cluster.servers if self._cluster.alive(server)]
        if not able:
            self._cluster.events.after(REDIAL_NS, self._dial)
            return
        ear = Ear()
        server = self._random.choice(able)
        session = server.accept(lambda data: self._hear(session, ear, data), self._lost, self._lost)
        self._session = session
        session.greet()
        user, password = self._user
        who = {"user": user, "pass": password} if user else {}
        session.receive(b"CONNECT " + to_json({"verbose": False, **who}) + CRLF)
        for number, subject in enumerate(self._subjects, 1):
            session.receive(f"SUB {subject} {number}\r\n".encode())

    def _hear(self, session: Session, ear: Ear, data: bytes) -> None:
        for heard in ear.hear(data):
            self._take(heard)
        if b"PING\r\n" in ear.said:
            session.receive(b"PONG\r\n")
        ear.said = b""

    def _lost(self) -> None:
        self._session = None
        self._cluster.events.after(REDIAL_NS, self._dial)
