"""What a NATS server said, cut into messages."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

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
