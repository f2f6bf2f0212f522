"""DNS questions: to whom, how often, and how long an answer counts."""

import pytest
from dnslib import QTYPE, RR, A, DNSHeader, DNSRecord
from scapy.layers import inet
from scapy.layers.inet import UDP
from scapy.layers.l2 import Ether

from firmware.layouts.dns import DNS, DNS_ENTRIES, DNS_TRIES, DnsState
from firmware.layouts.node import CORE
from firmware.net.dns import dns_resolve, dns_tick
from firmware.net.dns_message import dns_input
from tests.support.lab import Lab
from tests.support.net import NEEDED, PEER, ROUTER, SECOND, START, NetBench, ip32

LAB = Lab(*NEEDED, dns_resolve, dns_tick, dns_input, slots=0)
NAME = "gateway.example.test"
NONE = "0.0.0.0"  # noqa: S104 - an address that says "no server", nothing listens


@pytest.fixture
def bench():
    made = NetBench(LAB)
    made.network.dns1, made.network.dns2 = ip32(ROUTER), ip32(PEER)
    made.learn(ROUTER, slot=0)
    made.learn(PEER, slot=1)
    return made


def resolve(bench, name=NAME):
    address = LAB.machine.alloc(256)
    LAB.machine.write(address, name.encode() or b"\0")
    got = bench.call(dns_resolve, name=address, length=len(name)).outputs
    return got["eax"], got["edx"]


def questions(bench):
    return [Ether(frame) for frame in bench.sent()]


def reply(bench, frame, ttl=60, **header):
    asked = DNSRecord.parse(bytes(frame[UDP].payload))
    answer = DNSRecord(DNSHeader(id=asked.header.id, qr=1, ra=1, **header), q=asked.q)
    if not header:
        answer.add_answer(RR(asked.q.qname, QTYPE.A, rdata=A("192.0.2.7"), ttl=ttl))
    raw = bytes(answer.pack())
    address = LAB.machine.alloc(len(raw))
    LAB.machine.write(address, raw)
    bench.call(
        dns_input,
        message=address,
        length=len(raw),
        source=ip32(frame[inet.IP].dst),
        port=53,
        own_port=frame[UDP].sport,
    )


def test_resolve_dotted_quad_asks_nobody(bench):
    assert resolve(bench, "10.0.2.2") == (0, ip32("10.0.2.2"))
    assert questions(bench) == []


def test_resolve_asks_once_and_then_knows(bench):
    assert resolve(bench) == (1, 0)
    assert resolve(bench) == (1, 0)
    (frame,) = questions(bench)
    assert (frame[inet.IP].dst, frame[UDP].dport) == (ROUTER, 53)
    assert frame[UDP].sport >= 0xC000
    asked = DNSRecord.parse(bytes(frame[UDP].payload))
    assert (str(asked.q.qname), asked.q.qtype, asked.header.rd) == (NAME + ".", QTYPE.A, 1)
    reply(bench, frame)
    assert resolve(bench) == (0, ip32("192.0.2.7"))


def test_resolve_asks_anew_when_the_ttl_has_run_out(bench):
    resolve(bench)
    (frame,) = questions(bench)
    reply(bench, frame, ttl=60)
    bench.advance(60 * SECOND - 1)
    assert resolve(bench)[0] == 0
    bench.advance(1)
    assert resolve(bench)[0] == 1
    assert len(questions(bench)) == 1


def test_tick_rotates_servers_with_fresh_ids_and_gives_up(bench):
    resolve(bench)
    seen = questions(bench)
    for _ in range(DNS_TRIES - 1):
        bench.advance(SECOND)
        deadline = bench.call(dns_tick).outputs["rax"]
        assert deadline == LAB.g(CORE).now + SECOND
        seen += questions(bench)
    assert [f[inet.IP].dst for f in seen] == [ROUTER, PEER] * (DNS_TRIES // 2)
    assert len({bytes(f[UDP].payload)[:2] for f in seen}) > 1
    bench.advance(SECOND)
    assert bench.call(dns_tick).outputs["rax"] == 2**64 - 1
    assert resolve(bench) == (2, 0)
    bench.advance(5 * SECOND)
    assert resolve(bench) == (1, 0)


def test_tick_before_the_retry_is_quiet(bench):
    resolve(bench)
    questions(bench)
    bench.advance(SECOND - 1)
    assert bench.call(dns_tick).outputs["rax"] == START + SECOND
    assert questions(bench) == []


def test_resolve_server_failure_asks_the_other_server(bench):
    resolve(bench)
    (frame,) = questions(bench)
    reply(bench, frame, rcode=2)
    bench.call(dns_tick)
    (second,) = questions(bench)
    assert second[inet.IP].dst == PEER


def test_resolve_name_error_fails_for_a_moment(bench):
    resolve(bench)
    (frame,) = questions(bench)
    reply(bench, frame, rcode=3)
    assert resolve(bench) == (2, 0)


@pytest.mark.parametrize(("first", "second", "asked"), [(ROUTER, NONE, ROUTER), (NONE, PEER, PEER)])
def test_resolve_with_one_server_asks_that_one(bench, first, second, asked):
    bench.network.dns1, bench.network.dns2 = ip32(first), ip32(second)
    resolve(bench)
    bench.advance(SECOND)
    bench.call(dns_tick)
    assert [f[inet.IP].dst for f in questions(bench)] == [asked, asked]


def test_resolve_without_a_server_fails(bench):
    bench.network.dns1 = bench.network.dns2 = 0
    assert resolve(bench) == (2, 0)


@pytest.mark.parametrize("name", ["", "a" * 128])
def test_resolve_unusable_name_fails(bench, name):
    assert resolve(bench, name) == (2, 0)


def test_resolve_unknown_neighbour_keeps_the_question(bench):
    bench.network.dns1 = bench.network.dns2 = ip32("10.0.0.77")
    assert resolve(bench) == (1, 0)
    assert LAB.g(DNS).entries[0].state == DnsState.PENDING


def test_resolve_more_names_than_entries_waits_then_reuses(bench):
    names = [f"n{n}.test" for n in range(DNS_ENTRIES)]
    for name in names:
        assert resolve(bench, name)[0] == 1
    frames = questions(bench)
    assert resolve(bench, "late.test") == (1, 0)
    assert questions(bench) == []
    for frame in frames:
        reply(bench, frame)
    assert resolve(bench, "late.test") == (1, 0)
    assert len(questions(bench)) == 1


def test_tick_nothing_pending_has_no_deadline(bench):
    assert bench.call(dns_tick).outputs["rax"] == 2**64 - 1


def test_find_tells_names_of_equal_length_apart(bench):
    for name in ("aa.test", "ab.test"):
        resolve(bench, name)
    for frame in questions(bench):
        reply(bench, frame)
    assert resolve(bench, "ab.test")[0] == 0
    assert resolve(bench, "ac.test")[0] == 1
