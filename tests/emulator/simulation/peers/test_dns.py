from __future__ import annotations

import pytest
from dnslib import QTYPE, RCODE, DNSError, DNSRecord

from emulator.simulation.clock import NS_PER_MS, NS_PER_S
from emulator.simulation.peers.dns import DAMAGE, DnsServer, damaged


class Resolver:
    """Asks questions from the node and keeps the answers."""

    def __init__(self, pair) -> None:
        self.pair = pair
        self.server = DnsServer(pair.peer)
        self.raw: list[tuple[bytes, int, bytes]] = []
        pair.node.bind_udp(3053, lambda d: self.raw.append((d.src, d.src_port, d.payload)))

    def ask(self, name: str, kind: str = "A", to: bytes = b"") -> DNSRecord | None:
        before = len(self.raw)
        query = DNSRecord.question(name, kind).pack()
        self.pair.node.send_udp(to or self.pair.peer.address, 53, 3053, query)
        self.pair.world.run_for(NS_PER_S)
        return DNSRecord.parse(self.raw[-1][2]) if len(self.raw) > before else None


@pytest.fixture
def resolver(pair) -> Resolver:
    return Resolver(pair)


def answers(record: DNSRecord) -> list[tuple[str, str, str, int]]:
    return [
        (str(rr.rname).rstrip("."), QTYPE.get(rr.rtype), str(rr.rdata).rstrip("."), rr.ttl)
        for rr in record.rr
    ]


def test_addresses_come_with_their_ttl(resolver):
    resolver.server.add("Gateway.Example.", "203.0.113.5", "203.0.113.6", ttl_s=30)
    assert answers(resolver.ask("gateway.example")) == [
        ("gateway.example", "A", "203.0.113.5", 30),
        ("gateway.example", "A", "203.0.113.6", 30),
    ]
    assert resolver.server.asked("gateway.example") == 1


def test_aliases_are_followed_and_a_circle_of_them_ends(resolver):
    resolver.server.add("a.example", alias="b.example", ttl_s=9)
    resolver.server.add("b.example", "203.0.113.5")
    assert answers(resolver.ask("a.example")) == [
        ("a.example", "CNAME", "b.example", 9),
        ("b.example", "A", "203.0.113.5", 60),
    ]
    resolver.server.add("b.example", alias="a.example")
    kinds = [kind for _, kind, _, _ in answers(resolver.ask("a.example"))]
    assert kinds == ["CNAME"] * 8


def test_unknown_names_and_failures_carry_their_code(resolver):
    assert resolver.ask("nowhere.example").header.rcode == RCODE.NXDOMAIN
    resolver.server.add("broken.example", "203.0.113.5").rcode = RCODE.SERVFAIL
    broken = resolver.ask("broken.example")
    assert (broken.header.rcode, broken.rr) == (RCODE.SERVFAIL, [])


def test_other_types_get_no_answer(resolver):
    resolver.server.add("gateway.example", "203.0.113.5")
    record = resolver.ask("gateway.example", "AAAA")
    assert (record.header.rcode, record.rr) == (RCODE.NOERROR, [])
    assert resolver.server.queries[-1].kind == "AAAA"


def test_silence_delay_and_wrong_sources(pair, resolver):
    server = resolver.server
    server.add("gateway.example", "203.0.113.5")
    server.silent = True
    assert resolver.ask("gateway.example") is None
    server.silent, server.delay_ns = False, 1500 * NS_PER_MS
    assert resolver.ask("gateway.example") is None
    pair.world.run_for(NS_PER_S)
    assert len(resolver.raw) == 1
    server.delay_ns, server.source_port = 0, 5353
    server.source_address = pair.peer.add_address("10.0.0.8", on_link=True)
    assert resolver.ask("gateway.example") is not None
    assert resolver.raw[-1][:2] == (server.source_address, 5353)


def test_a_script_sends_bytes_of_its_own(resolver):
    resolver.server.add("gateway.example", "203.0.113.5")
    resolver.server.script = lambda query: [damaged("wrong-id", query.raw), query.answer]
    record = resolver.ask("gateway.example")
    assert len(resolver.raw) == 2
    first, second = (DNSRecord.parse(raw) for _, _, raw in resolver.raw)
    assert first.header.id != second.header.id == record.header.id


def test_rubbish_is_counted(pair, resolver):
    pair.node.send_udp(pair.peer.address, 53, 3053, b"\x00\x01rubbish")
    pair.world.run_for(NS_PER_S)
    assert resolver.server.malformed == 1
    assert resolver.raw == []


# What an independent reader makes of each damaged answer: it refuses, or it sees this.
UNREADABLE = {
    "pointer-to-itself",
    "pointers-in-a-circle",
    "pointer-past-the-end",
    "count-too-high",
    "length-three",
    "header-only",
    "eleven-bytes",
}


@pytest.mark.parametrize("kind", sorted(DAMAGE))
def test_each_damaged_answer_is_damaged_in_its_own_way(kind):
    query = DNSRecord.question("gateway.example").pack()
    raw = damaged(kind, query)
    if kind in UNREADABLE:
        with pytest.raises(DNSError):
            DNSRecord.parse(raw)
        return
    record, asked = DNSRecord.parse(raw), DNSRecord.parse(query)
    faults = {
        "wrong-id": record.header.id != asked.header.id,
        "wrong-question": record.q.qname != asked.q.qname,
        "not-a-response": record.header.qr == 0,
        "truncated-flag": record.header.tc == 1,
        "server-failure": record.header.rcode == RCODE.SERVFAIL,
        "length-past-the-end": bool(record.rr) and int.from_bytes(raw[-6:-4], "big") == 400,
        "label-of-64": any(len(rr.rname.label[0]) == 64 for rr in record.rr),
        "no-answers": record.header.rcode == RCODE.NOERROR
        and not record.rr
        and not record.header.tc,
        "ttl-negative": bool(record.rr) and record.rr[0].ttl == 0x80000001,
    }
    assert [name for name, holds in faults.items() if holds] == [kind]


def test_an_unknown_damage_lists_the_known_ones():
    with pytest.raises(
        LookupError, match="no damaged answer is called 'x'; known: pointer-to-itself"
    ):
        damaged("x", b"")
