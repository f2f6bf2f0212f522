"""A DNS server for A records and aliases, with answers that no server should give on request.

dnslib reads and writes the messages; the damaged ones are bytes written by hand.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dnslib import CNAME, QTYPE, RCODE, RR, A, DNSError, DNSHeader, DNSRecord

from emulator.simulation.packet import ip

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.simulation.host import Datagram, Host

    Script = Callable[["Query"], list[bytes] | None]

PORT = 53
MAX_ALIASES = 8


@dataclass(slots=True)
class Query:
    """One question that arrived, and the answer that the zone gives."""

    at_ns: int
    raw: bytes
    name: str
    kind: str
    answer: bytes


@dataclass(slots=True)
class Name:
    """What a name stands for: addresses with a TTL in seconds, or an alias."""

    addresses: list[str] = field(default_factory=list)
    alias: str = ""
    ttl_s: int = 60
    rcode: int = RCODE.NOERROR


class DnsServer:
    """The server on one host, listening on port 53.

    `script(query)` may return the payloads to send instead; None means "as the zone says".

    Args:
        host: where it listens, at each of its addresses.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.zone: dict[str, Name] = {}
        self.script: Script | None = None
        self.queries: list[Query] = []
        self.malformed = 0
        self.silent = False
        self.delay_ns = 0
        self.source_port = PORT
        self.source_address: bytes | None = None
        host.bind_udp(PORT, self._receive)

    def add(self, name: str, *addresses: str, ttl_s: int = 60, alias: str = "") -> Name:
        """Put a name into the zone, replacing what it was."""
        entry = Name(list(addresses), alias.rstrip(".").lower(), ttl_s)
        for address in addresses:
            ip(address)
        self.zone[name.rstrip(".").lower()] = entry
        return entry

    def asked(self, name: str) -> int:
        """Return how often a name was asked for."""
        return sum(query.name == name for query in self.queries)

    def answer(self, record: DNSRecord, name: str) -> DNSRecord:
        """Build the zone's answer to a query, aliases followed as a resolver does."""
        reply = DNSRecord(DNSHeader(id=record.header.id, qr=1, aa=0, ra=1, rd=1), q=record.q)
        for _ in range(MAX_ALIASES):
            entry = self.zone.get(name)
            if entry is None or entry.rcode:
                reply.header.rcode = RCODE.NXDOMAIN if entry is None else entry.rcode
                return reply
            if not entry.alias:
                break
            reply.add_answer(RR(name, QTYPE.CNAME, rdata=CNAME(entry.alias), ttl=entry.ttl_s))
            name = entry.alias
        else:
            return reply
        for address in entry.addresses if record.q.qtype == QTYPE.A else []:
            reply.add_answer(RR(name, QTYPE.A, rdata=A(address), ttl=entry.ttl_s))
        return reply

    def _receive(self, datagram: Datagram) -> None:
        try:
            record = DNSRecord.parse(datagram.payload)
            name = str(record.q.qname).rstrip(".").lower()
            answer = self.answer(record, name).pack()
        except DNSError:
            self.malformed += 1
            return
        kind = QTYPE.get(record.q.qtype)
        query = Query(self.host.world.now_ns, datagram.payload, name, str(kind), answer)
        self.queries.append(query)
        if self.silent:
            return
        scripted = self.script(query) if self.script is not None else None
        source = self.source_address or datagram.dst
        for payload in [answer] if scripted is None else scripted:
            self._send_later(datagram, source, payload)

    def _send_later(self, datagram: Datagram, source: bytes, payload: bytes) -> None:
        host = self.host
        host.world.events.after(
            self.delay_ns,
            lambda: host.send_udp(
                datagram.src, datagram.src_port, self.source_port, payload, source
            ),
        )


def _header(query: bytes, answers: int, flags: int = 0x8180) -> bytes:
    return (
        query[:2] + flags.to_bytes(2, "big") + bytes((0, 1)) + answers.to_bytes(2, "big") + bytes(4)
    )


def _question(query: bytes) -> bytes:
    end = query.index(0, 12) + 5
    return query[12:end]


def _record(name: bytes, address: bytes, *, length: int | None = None, ttl_s: int = 60) -> bytes:
    size = len(address) if length is None else length
    return name + b"\x00\x01\x00\x01" + ttl_s.to_bytes(4, "big") + size.to_bytes(2, "big") + address


def damaged(kind: str, query: bytes, address: str = "192.0.2.9") -> bytes:
    """Return one of the malformed answers of `DAMAGE` to a query.

    Raises:
        LookupError: the kind is unknown; the text lists the known ones.
    """
    if kind not in DAMAGE:
        raise LookupError(f"no damaged answer is called {kind!r}; known: {', '.join(DAMAGE)}")
    return DAMAGE[kind](query, ip(address))


def _self_pointer(query: bytes, address: bytes) -> bytes:
    body = _header(query, 1) + _question(query)
    pointer = (0xC000 | len(body)).to_bytes(2, "big")
    return body + _record(pointer, address)


def _two_pointers(query: bytes, address: bytes) -> bytes:
    body = _header(query, 1) + _question(query)
    at = len(body)
    there, back = (0xC000 | at + 2).to_bytes(2, "big"), (0xC000 | at).to_bytes(2, "big")
    return body + _record(there + back, address)


def _with_id(query: bytes, address: bytes) -> bytes:
    other = ((int.from_bytes(query[:2], "big") + 1) & 0xFFFF).to_bytes(2, "big")
    return other + _good(query, address)[2:]


def _good(query: bytes, address: bytes) -> bytes:
    return _header(query, 1) + _question(query) + _record(b"\xc0\x0c", address)


DAMAGE: dict[str, Callable[[bytes, bytes], bytes]] = {
    "pointer-to-itself": _self_pointer,
    "pointers-in-a-circle": _two_pointers,
    "pointer-past-the-end": lambda q, a: _header(q, 1) + _question(q) + _record(b"\xff\xff", a),
    "wrong-id": _with_id,
    "wrong-question": lambda q, a: (
        _header(q, 1) + b"\x04evil\x00\x00\x01\x00\x01" + _record(b"\xc0\x0c", a)
    ),
    "not-a-response": lambda q, a: _header(q, 1, 0x0100) + _good(q, a)[12:],
    "truncated-flag": lambda q, _a: _header(q, 0, 0x8380) + _question(q),
    "server-failure": lambda q, _a: _header(q, 0, 0x8182) + _question(q),
    "count-too-high": lambda q, a: _header(q, 0xFFFF) + _good(q, a)[12:],
    "length-past-the-end": lambda q, a: (
        _header(q, 1) + _question(q) + _record(b"\xc0\x0c", a, length=400)
    ),
    "length-three": lambda q, a: _header(q, 1) + _question(q) + _record(b"\xc0\x0c", a[:3]),
    "no-answers": lambda q, _a: _header(q, 0) + _question(q),
    "header-only": lambda q, _a: _header(q, 1),
    "eleven-bytes": lambda q, _a: _header(q, 1)[:11],
    "label-of-64": lambda q, a: (
        _header(q, 1) + _question(q) + _record(b"\x40" + b"a" * 64 + b"\x00", a)
    ),
    "ttl-negative": lambda q, a: (
        _header(q, 1) + _question(q) + _record(b"\xc0\x0c", a, ttl_s=0x80000001)
    ),
}
