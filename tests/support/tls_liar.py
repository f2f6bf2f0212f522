"""tlslite-ng as a server that lies once, without sockets.

Whatever a lie changes, the server believes it: transcript, signature and Finished are over what was
sent, so a client finds the lie itself, not its consequences.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tlslite.api import HandshakeSettings, TLSConnection
from tlslite.errors import TLSError, TLSRemoteAlert
from tlslite.messages import Message

from firmware.layouts.tls import CONTENT_MAX, LEGACY_VERSION, HandshakeType, RecordType
from tests.support.tls_servers import tlslite_chain, tlslite_key

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from tests.support.tls_peer import Identity

RETRY_RANDOM = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
HANDSHAKE, ALERT, CCS, DATA = (
    RecordType.HANDSHAKE,
    RecordType.ALERT,
    RecordType.CHANGE_CIPHER_SPEC,
    RecordType.APPLICATION_DATA,
)


def tell_truth(_liar: Liar, _kind: int, message: bytes) -> bytes:
    """Send a message as it is."""
    return message


def one_record(liar: Liar, flight: bytes) -> None:
    """Send the flight behind ServerHello as tlslite-ng does: in one record, if it fits."""
    for at in range(0, len(flight), CONTENT_MAX):
        liar.record(HANDSHAKE, flight[at : at + CONTENT_MAX])


def silent(_liar: Liar) -> None:
    """Say nothing behind the handshake."""


@dataclass(frozen=True)
class Acts:
    """What a liar does differently; by default nothing.

    Attributes:
        change: gets each message of its handshake, and what it is; returns what is sent instead.
        flight: sends what follows ServerHello.
        after: acts behind the handshake.
        group: the group of its key exchange; secp256r1 asks a client for a share of it.
        request: whether it asks for a certificate.
    """

    change: Callable[[Liar, int, bytes], bytes] = tell_truth
    flight: Callable[[Liar, bytes], None] = one_record
    after: Callable[[Liar], None] = silent
    group: str = "x25519"
    request: bool = False


@dataclass
class Pipe:
    """What tlslite-ng takes for a socket."""

    send_out: Callable[[bytes], None]
    waiting: bytearray = field(default_factory=bytearray)

    def recv(self, size: int) -> bytes:
        """Return what came; nothing came yet looks as it does on a socket that does not wait."""
        if not self.waiting:
            raise OSError(errno.EWOULDBLOCK, "nothing came yet")
        data = bytes(self.waiting[:size])
        del self.waiting[:size]
        return data

    def sendall(self, data: bytes) -> None:
        """Send."""
        self.send_out(bytes(data))

    def send(self, data: bytes) -> int:
        """Send all of it."""
        self.send_out(bytes(data))
        return len(data)

    def close(self) -> None:
        """Whoever has the real connection closes it."""


class Liar(TLSConnection):  # type: ignore[misc] # tlslite-ng has no annotations
    """One connection of a server that lies.

    Args:
        shown: Its certificate.
        acts: What it does differently.
        send: Sends bytes to the client.
        close: Ends TCP in order.

    Attributes:
        alerts: what the client told it.
        heard: what it said.
        done: whether the handshake is over on this side.
        suite: the cipher suite, once it is chosen.
    """

    def __init__(
        self,
        shown: Identity,
        acts: Acts,
        send: Callable[[bytes], None],
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self._pipe = Pipe(send)
        super().__init__(self._pipe)
        self.shown, self.acts, self.end_tcp = shown, acts, close
        self.alerts: list[int] = []
        self.heard, self.done, self.suite = b"", False, 0
        self.failed = ""
        self._records = bytearray()
        settings = HandshakeSettings()
        settings.minVersion = settings.maxVersion = (3, 4)
        settings.keyShares = settings.eccCurves = [acts.group]
        settings.dhGroups = []
        self._work: Generator[Any, None, None] = self.handshakeServerAsync(
            certChain=tlslite_chain(shown),
            privateKey=tlslite_key(shown),
            settings=settings,
            reqCert=acts.request,
            alpn=[bytearray(b"http/1.1")],
        )

    # -- what comes -------------------------------------------------------------------------------
    def feed(self, data: bytes) -> None:
        """Take bytes of the client; an alert without keys is not for tlslite-ng, which expects none."""
        self._records += data
        while len(self._records) >= 5:
            size = 5 + int.from_bytes(self._records[3:5], "big")
            if len(self._records) < size:
                return
            record = bytes(self._records[:size])
            del self._records[:size]
            if record[0] == ALERT:
                self.alerts.append(record[6])
            elif not self.failed:
                self._pipe.waiting += record
                self._go_on()

    def _go_on(self) -> None:
        try:
            if not self.done:
                for step in self._work:
                    if step == 0:
                        return
                self.done = True
                self.acts.after(self)
            self._read()
        except TLSRemoteAlert as alert:
            self.alerts.append(int(alert.description))
            self.failed = str(alert)
        except TLSError as error:
            self.failed = repr(error)

    def _read(self) -> None:
        while not self.closed:
            for got in self.readAsync():
                if isinstance(got, int):
                    return
                self.heard += got

    # -- what goes --------------------------------------------------------------------------------
    def wire(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._pipe.sendall(data)

    def plain(self, kind: int, content: bytes) -> None:
        """Send a record without keys."""
        self.wire(header(kind, len(content)) + content)

    def record(self, kind: int, content: bytes) -> None:
        """Send a record."""
        for _ in self._recordLayer.sendRecord(Message(kind, bytearray(content))):
            pass

    def sealed(self, inner: bytes) -> bytes:
        """Return a record with any inner text: content, type, padding."""
        body = self._recordLayer._encryptThenSeal(bytearray(inner), DATA)
        return header(DATA, len(body)) + bytes(body)

    def update_keys(self, asked: int = 0) -> None:
        """Send KeyUpdate, and write with new keys."""
        for _ in self.send_keyupdate_request(asked):
            pass

    def transcript(self) -> bytes:
        """Return the hash of all messages so far."""
        return bytes(self._handshake_hash.digest(self.hash_name))

    @property
    def hash_name(self) -> str:
        """The suite's hash."""
        return "sha384" if self.suite == 0x1302 else "sha256"

    # -- inside tlslite-ng ------------------------------------------------------------------------
    def _changed(self, message: Any) -> Message:
        data = bytes(message.write())
        kind = data[0]
        if kind == HandshakeType.SERVER_HELLO:
            if data[6:38] == RETRY_RANDOM:
                kind = HandshakeType.HELLO_RETRY_REQUEST
            self.suite = int.from_bytes(data[39 + data[38] : 41 + data[38]], "big")
        return Message(HANDSHAKE, bytearray(self.acts.change(self, kind, data)))

    def _queue_message(self, msg: Any) -> None:
        if not self.done and msg.contentType == HANDSHAKE:
            msg = self._changed(msg)
        super()._queue_message(msg)

    def _sendMsg(  # noqa: N802 - tlslite-ng's name
        self,
        msg: Any,
        randomizeFirstBlock: bool = True,  # noqa: N803 - tlslite-ng's name
        update_hashes: bool = True,
    ) -> Generator[Any, None, None]:
        if not self.done and msg.contentType == HANDSHAKE:
            if not update_hashes:
                self.acts.flight(self, bytes(msg.write()))
                return
            msg = self._changed(msg)
        yield from super()._sendMsg(msg, randomizeFirstBlock, update_hashes)


def liar_on(accepted: socket.socket, shown: Identity, acts: Acts) -> Liar:
    """Serve a real connection until the client ends it; return the liar."""
    liar = Liar(shown, acts, accepted.sendall, lambda: accepted.shutdown(socket.SHUT_WR))
    with contextlib.suppress(ConnectionResetError):
        while data := accepted.recv(1 << 16):
            liar.feed(data)
    return liar


def header(kind: int, size: int) -> bytes:
    """Return a record's header."""
    return bytes([kind]) + LEGACY_VERSION.to_bytes(2, "big") + size.to_bytes(2, "big")


# -- messages as parts, so that each can be wrong ---------------------------------------------------
def vector(data: bytes, width: int) -> bytes:
    """Return data behind its length."""
    return len(data).to_bytes(width, "big") + data


def message(kind: int, body: bytes) -> bytes:
    """Return a handshake message."""
    return bytes([kind]) + vector(body, 3)


def split(flight: bytes) -> list[bytes]:
    """Return the messages of a flight."""
    found = []
    while flight:
        size = 4 + int.from_bytes(flight[1:4], "big")
        found.append(flight[:size])
        flight = flight[size:]
    return found


Extensions = list[tuple[int, bytes]]


def read_extensions(data: bytes) -> Extensions:
    """Return extensions from their vector."""
    found, at = [], 2
    while at < len(data):
        kind, size = (int.from_bytes(data[at + n : at + n + 2], "big") for n in (0, 2))
        found.append((kind, data[at + 4 : at + 4 + size]))
        at += 4 + size
    return found


def write_extensions(extensions: Extensions) -> bytes:
    """Return extensions as a vector."""
    return vector(
        b"".join(kind.to_bytes(2, "big") + vector(data, 2) for kind, data in extensions), 2
    )


@dataclass
class Hello:
    """ServerHello, or HelloRetryRequest."""

    version: bytes
    random: bytes
    session_id: bytes
    suite: int
    compression: int
    extensions: Extensions
    rest: bytes = b""

    @classmethod
    def read(cls, data: bytes) -> Hello:
        """Take a message apart."""
        body = data[4:]
        end = 35 + body[34]
        return cls(
            body[:2], body[2:34], body[35:end], int.from_bytes(body[end : end + 2], "big"),
            body[end + 2], read_extensions(body[end + 3 :]),
        )  # fmt: skip

    def write(self) -> bytes:
        """Put it together again."""
        body = self.version + self.random + vector(self.session_id, 1)
        body += self.suite.to_bytes(2, "big") + bytes([self.compression])
        extensions = write_extensions(self.extensions) if self.extensions else b""
        return message(HandshakeType.SERVER_HELLO, body + extensions + self.rest)

    def set(self, kind: int, data: bytes | None) -> None:
        """Give an extension other contents; None takes it out."""
        others = [(k, old if k != kind else data) for k, old in self.extensions]
        self.extensions = [(k, new) for k, new in others if new is not None]
