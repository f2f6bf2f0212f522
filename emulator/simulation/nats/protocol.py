"""The client protocol of NATS: what a server reads, and how it writes.

Source: https://docs.nats.io/reference/reference-protocols/nats-protocol; what a server does about
lines that are not like that was seen at nats-server 2.15.1.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTROL_LINE_MAX = 4096
CRLF = b"\r\n"
WITH_WORDS = frozenset(("CONNECT", "PUB", "HPUB", "SUB", "UNSUB"))
_BLANKS = re.compile(rb"[ \t]+")


class ProtocolError(Exception):
    """What ends a connection.

    Attributes:
        said: text of the `-ERR` before the end; empty when the server says nothing.
    """

    def __init__(self, said: str = "") -> None:
        super().__init__(said or "closed without a word")
        self.said = said


@dataclass(frozen=True, slots=True)
class Command:
    """One line of a client, with what follows it.

    Attributes:
        verb: upper case.
        words: arguments as text; the sizes of PUB and HPUB are left out.
        header: block of an HPUB; None for every other.
        body: payload, or the text behind CONNECT.
    """

    verb: str
    words: tuple[str, ...] = ()
    header: bytes | None = None
    body: bytes = b""


class Parser:
    """Cuts a client's bytes into commands.

    Args:
        max_payload: bytes of headers and body together.

    Attributes:
        greeted: whether the client has said who it is; without, a server that asks for it takes
            nothing else.
    """

    def __init__(self, max_payload: int) -> None:
        self.max_payload = max_payload
        self.greeted = True
        self._data = bytearray()
        self._waiting: tuple[str, tuple[str, ...], int, int] | None = None

    def feed(self, data: bytes) -> Iterator[Command]:
        """Take bytes and give the commands that are whole.

        Raises:
            ProtocolError: the connection ends here.
        """
        self._data += data
        while True:
            found = self._payload() if self._waiting else self._line()
            if found is None:
                return
            if found.verb:
                yield found

    def _payload(self) -> Command | None:
        verb, words, head, total = self._waiting or ("", (), 0, 0)
        if len(self._data) < total + len(CRLF):
            return None
        if self._data[total : total + len(CRLF)] != CRLF:
            raise ProtocolError("Unknown Protocol Operation")
        text = bytes(self._data[:total])
        del self._data[: total + len(CRLF)]
        self._waiting = None
        header = text[:head] if verb == "HPUB" else None
        return Command("PUB", words, header, text[head:])

    def _line(self) -> Command | None:
        end = self._data.find(b"\n")
        if end < 0:
            if len(self._data) > CONTROL_LINE_MAX:
                raise ProtocolError("maximum control line exceeded")
            return None
        line = bytes(self._data[:end]).rstrip(b"\r")
        del self._data[: end + 1]
        verb_bytes, _, rest = line.partition(b" ") if b" " in line else line.partition(b"\t")
        verb = verb_bytes.decode("latin-1").upper()
        if not self.greeted and verb != "CONNECT":
            raise ProtocolError("Authorization Violation")
        if len(line) > CONTROL_LINE_MAX:
            raise ProtocolError("maximum control line exceeded")
        read = _READERS.get(verb)
        if read is None or (verb in WITH_WORDS and len(verb_bytes) == len(line)):
            raise ProtocolError("Unknown Protocol Operation")
        words = tuple(w.decode("latin-1") for w in _BLANKS.split(rest.strip()) if w)
        return read(self, verb, words, rest)

    def _plain(self, verb: str, words: tuple[str, ...], _rest: bytes) -> Command:
        return Command(verb, words)

    def _connect(self, verb: str, _words: tuple[str, ...], rest: bytes) -> Command:
        return Command(verb, (), None, rest.strip())

    def _error(self, _verb: str, _words: tuple[str, ...], _rest: bytes) -> Command:
        raise ProtocolError

    def _counted(self, verb: str, words: tuple[str, ...], _rest: bytes) -> Command:
        sizes = 2 if verb == "HPUB" else 1
        if not 1 + sizes <= len(words) <= 2 + sizes:
            raise ProtocolError
        if not all(word.isdecimal() for word in words[-sizes:]):
            raise ProtocolError
        head, total = int(words[-2]) if sizes == 2 else 0, int(words[-1])
        if head > total:
            raise ProtocolError
        if total > self.max_payload:
            raise ProtocolError("Maximum Payload Violation")
        self._waiting = (verb, words[:-sizes], head, total)
        return Command("")

    def _sub(self, verb: str, words: tuple[str, ...], _rest: bytes) -> Command:
        if not 2 <= len(words) <= 3:
            raise ProtocolError
        return Command(verb, words)

    def _unsub(self, verb: str, words: tuple[str, ...], _rest: bytes) -> Command:
        if not 1 <= len(words) <= 2:
            raise ProtocolError
        return Command(verb, words)


_READERS = {
    "CONNECT": Parser._connect,
    "PING": Parser._plain,
    "PONG": Parser._plain,
    "INFO": Parser._plain,
    "+OK": Parser._plain,
    "-ERR": Parser._error,
    "PUB": Parser._counted,
    "HPUB": Parser._counted,
    "SUB": Parser._sub,
    "UNSUB": Parser._unsub,
}


def error_line(said: str) -> bytes:
    """Write an `-ERR`."""
    return f"-ERR '{said}'\r\n".encode()


def message(subject: str, sid: str, reply: str, header: bytes | None, body: bytes) -> bytes:
    """Write a MSG, or an HMSG when it has a header block."""
    words = [subject, sid, *filter(None, (reply,))]
    if header is None:
        return f"MSG {' '.join(words)} {len(body)}\r\n".encode() + body + CRLF
    sizes = f"{len(header)} {len(header) + len(body)}"
    return f"HMSG {' '.join(words)} {sizes}\r\n".encode() + header + body + CRLF


def header_block(status: str = "", **fields: object) -> bytes:
    """Write a header block; names are written with `_` for `-`."""
    lines = [f"NATS/1.0{' ' if status else ''}{status}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return "\r\n".join(lines).encode() + CRLF + CRLF


def header_value(header: bytes | None, name: str) -> str | None:
    """Return the first value of a name in a header block, or None."""
    for line in (header or b"").split(CRLF)[1:]:
        key, colon, value = line.partition(b":")
        if colon and key.decode("latin-1") == name:
            return value.strip().decode("latin-1")
    return None


def to_json(value: object) -> bytes:
    """Write JSON as Go does: no blanks, and no character that HTML knows."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text.encode()
