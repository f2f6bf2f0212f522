"""DNS answers: what is believed, what is refused, what is only somebody else's."""

import os
from pathlib import Path

import pytest
from dnslib import CNAME, QTYPE, RR, A, DNSHeader, DNSRecord
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.layouts.dns import DNS, DnsState
from firmware.layouts.node import CLOCK, CORE
from firmware.net.dns_message import dns_input
from tests.support.lab import Lab
from tests.support.states import MS, NOW

LAB = Lab(dns_input)
SERVER, PORT, ID = 0x0302000A, 50_000, 0x1234
NAME = "gateway.test"


@pytest.fixture(autouse=True)
def _fresh():
    ask()


def ask(name=NAME, slot=2):
    """Put one pending question into the cache."""
    LAB.reset()
    LAB.g(CLOCK).tsc_cycles_per_ms, LAB.g(CORE).now = MS, NOW
    entry = LAB.g(DNS).entries[slot]
    entry.state, entry.server, entry.port, entry.id = DnsState.PENDING, SERVER, PORT, ID
    entry.name[0 : len(name)] = name.encode()
    entry.name_len = len(name)
    return entry


def take(message, *, source=SERVER, port=53, own_port=PORT):
    address = LAB.machine.alloc(len(message) + 1)
    LAB.machine.write(address, message or b"\0")
    LAB.call(
        dns_input,
        message=address,
        length=len(message),
        source=source,
        port=port,
        own_port=own_port,
    )
    dns = LAB.g(DNS)
    return dns.entries[2], (dns.answers, dns.refused, dns.strays)


def answer(*records, name=NAME, rcode=0, question=None):
    wire_id = int.from_bytes(ID.to_bytes(2, "little"), "big")
    header = DNSHeader(id=wire_id, qr=1, ra=1, rcode=rcode)
    record = DNSRecord(header, q=question or DNSRecord.question(name).q)
    for r in records:
        record.add_answer(r)
    return bytes(record.pack())


def a_record(name=NAME, address="192.0.2.7", ttl=60):
    return RR(name, QTYPE.A, rdata=A(address), ttl=ttl)


def cname(name, target, ttl=60):
    return RR(name, QTYPE.CNAME, rdata=CNAME(target), ttl=ttl)


def wire(address):
    return int.from_bytes(bytes(int(p) for p in address.split(".")), "little")


@pytest.mark.parametrize(("ttl", "kept_s"), [(0, 5), (5, 5), (60, 60), (3600, 3600), (99999, 3600)])
def test_answer_gives_address_for_its_ttl(ttl, kept_s):
    entry, counts = take(answer(a_record(ttl=ttl)))
    assert (entry.state, entry.address) == (DnsState.FOUND, wire("192.0.2.7"))
    assert entry.expires == NOW + kept_s * 1000 * MS
    assert counts == (1, 0, 0)


def test_answer_ttl_with_top_bit_counts_as_zero():
    raw = bytearray(answer(a_record(ttl=60)))
    raw[-10] = 0x80
    entry, _ = take(bytes(raw))
    assert entry.expires == NOW + 5000 * MS


def test_answer_follows_a_chain_in_any_order():
    chain = [cname("b.test", "c.test", 30), a_record("c.test", ttl=90), cname(NAME, "B.test", 40)]
    entry, _ = take(answer(*chain))
    assert (entry.state, entry.address) == (DnsState.FOUND, wire("192.0.2.7"))
    assert entry.expires == NOW + 30_000 * MS


def test_answer_with_a_cname_loop_fails_within_bounds():
    entry, _ = take(answer(cname(NAME, "b.test"), cname("b.test", NAME)))
    assert entry.state == DnsState.FAILED
    assert entry.expires == NOW + 5000 * MS


@pytest.mark.parametrize("records", [(), (a_record("other.test"),)])
def test_answer_without_the_name_fails(records):
    entry, _ = take(answer(*records))
    assert entry.state == DnsState.FAILED


def test_answer_name_error_fails_at_once():
    entry, _ = take(answer(rcode=3))
    assert entry.state == DnsState.FAILED


def test_answer_server_failure_asks_the_next_server_now():
    entry, _ = take(answer(rcode=2))
    assert (entry.state, entry.retry_at) == (DnsState.PENDING, NOW)


def test_answer_keeps_the_case_of_nobody():
    ask("GateWay.Test")
    entry, _ = take(answer(a_record("gATEWAY.tEST"), name="gateway.TEST"))
    assert entry.state == DnsState.FOUND


def _with(offset, raw):
    message = bytearray(answer(a_record()))
    message[offset : offset + len(raw)] = raw
    return bytes(message)


@pytest.mark.parametrize(
    "message",
    [
        _with(2, b"\x00"),  # a question
        _with(2, b"\x88"),  # another opcode
        _with(4, b"\x00\x02"),  # two questions
        _with(12, b"\xc0\x0c"),  # a name that points at itself
        _with(13, b"x"),  # another name
        _with(26, b"\x00\x1c"),  # another type
        answer(a_record())[:27],  # cut in the question
        answer(a_record())[:-5],  # cut in the record
        answer(a_record())[:40],
        _with(30, b"\xc0\xff"),  # record name points forward
        answer(cname(NAME, "b.test"))[:-7] + b"\xff",  # CNAME data cut in a label
    ],
)
def test_answer_malformed_is_refused(message):
    entry, counts = take(message)
    assert entry.state == DnsState.PENDING
    assert counts[1] == 1


@pytest.mark.parametrize(
    "change",
    [{"source": SERVER + 1}, {"port": 5353}, {"own_port": PORT + 1}],
)
def test_answer_from_elsewhere_is_a_stray(change):
    entry, counts = take(answer(a_record()), **change)
    assert (entry.state, counts) == (DnsState.PENDING, (0, 0, 1))


@pytest.mark.parametrize("message", [b"", b"\x34\x12", b"\x34\x12" + b"\0" * 9])
def test_answer_too_short_is_a_stray(message):
    assert take(message)[1] == (0, 0, 1)


def test_answer_with_wrong_id_is_a_stray():
    assert take(_with(0, b"\0\0"))[1] == (0, 0, 1)


def test_answer_of_another_class_or_length_is_passed_over():
    raw = bytearray(answer(a_record(), a_record(address="192.0.2.9")))
    raw[33] = 3  # class of the first record
    assert take(bytes(raw))[0].address == wire("192.0.2.9")
    ask()
    odd = RR(NAME, QTYPE.A, rdata=CNAME("x"), ttl=5)
    entry, _ = take(answer(odd, a_record()))
    assert entry.state == DnsState.FOUND


def test_answer_of_another_type_is_passed_over():
    odd = RR(NAME, QTYPE.TXT, rdata=A("1.2.3.4"), ttl=5)
    entry, _ = take(answer(odd, a_record()))
    assert entry.address == wire("192.0.2.7")


def test_answer_with_many_records_is_bounded():
    noise = [a_record(f"n{n}.test") for n in range(30)]
    entry, _ = take(answer(*noise, a_record()))
    assert entry.state == DnsState.FAILED


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_answer_any_damage_matches_model(data):
    ask()
    raw = bytearray(answer(cname(NAME, "b.test"), a_record("b.test")))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(2, len(raw) - 1))] = data.draw(st.integers(0, 255))
    take(bytes(raw[: data.draw(st.integers(12, len(raw)))]))


def _vectors():
    beside = Path(__file__).parents[3].parent / "shared" / "vectors"
    folder = Path(os.environ.get("SHARDFW_VECTORS", beside)) / "dns"
    return sorted(folder.glob("*.bin")) if folder.is_dir() else []


@pytest.mark.vectors
@pytest.mark.skipif(
    not _vectors(),
    reason="c-ares' DNS fuzz inputs are missing: put them into ../shared/vectors/dns "
    "or name their parent folder in SHARDFW_VECTORS",
)
def test_answer_fuzz_inputs_match_model():
    for path in _vectors():
        raw = path.read_bytes()[:65_507]
        for message in (raw, answer(a_record())[:12] + raw[12:]):
            ask()
            take(message)
