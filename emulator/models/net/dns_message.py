"""Reading a DNS answer."""

from emulator.effects import World, model
from emulator.models.net.dns_name import dns_expand, dns_same_name
from firmware.layouts.dns import (
    DNS,
    DNS_ANSWERS_MAX,
    DNS_ENTRIES,
    DNS_FAILED_MS,
    DNS_PASSES_MAX,
    DNS_PORT,
    DNS_TTL_MAX_S,
    DNS_TTL_MIN_S,
    DnsEntry,
    DnsState,
)
from firmware.layouts.node import CLOCK, CORE


def _word(raw: bytes) -> int:
    return int.from_bytes(raw, "big")


@model
def dns_match(w: World, source: int, port: int, own_port: int, id_: int) -> tuple[int, int | None]:
    """RFC 5452: server, both ports and id must all be those of a pending question."""
    for entry in (w.g(DNS).entries[n] for n in range(DNS_ENTRIES)):
        wanted = (entry.state, entry.server, entry.port, entry.id)
        if port == DNS_PORT and wanted == (
            DnsState.PENDING,
            source,
            own_port & 0xFFFF,
            id_ & 0xFFFF,
        ):
            return 0, entry.address_
    return 1, 0


@model
def dns_walk(w: World, message: int, length: int, start: int, count: int) -> tuple[int, int]:
    """The first record of the wanted name that helps: an address, or a CNAME to look for."""
    dns, here = w.g(DNS), start
    malformed, nothing = (3, 0), (2, 0)
    for _ in range(count):
        bad, used, here = dns_expand(w, message, length, here, dns.owner.address)
        if bad:
            return malformed
        dns.owner_len = used
        if here + 10 > length:
            return malformed
        fixed = w.read(message + here, 10)
        behind = here + 10 + _word(fixed[8:])
        if behind > length:
            return malformed
        kind, ttl = _word(fixed[:2]), _word(fixed[4:8])
        ttl = 0 if ttl >> 31 else ttl
        mine = _word(fixed[2:4]) == 1 and dns_same_name(
            w, dns.target.address, dns.target_len, dns.owner.address, dns.owner_len
        )
        if mine and kind == 1 and behind == here + 14:
            if ttl < dns.ttl:
                dns.ttl = ttl
            return 0, w.u32(message + here + 10)
        if mine and kind == 5:
            if ttl < dns.ttl:
                dns.ttl = ttl
            bad, used, _ = dns_expand(w, message, length, here + 10, dns.target.address)
            if bad:
                return malformed
            dns.target_len = used
            return 1, 0
        here = behind
    return nothing


@model
def dns_settle(w: World, entry: int, state: int, duration: int) -> None:
    """Both outcomes are kept, for their time."""
    view = w.view(DnsEntry, entry)
    view.state = state
    view.expires = w.g(CORE).now + duration * w.g(CLOCK).tsc_cycles_per_ms


def _question(w: World, message: int, length: int, address: int) -> int:
    """Return where the records start, or 0 when the question is not the one that was asked."""
    dns = w.g(DNS)
    flags, questions = w.read(message + 2, 2), w.read(message + 4, 2)
    if _word(flags) & 0xF800 != 0x8000 or _word(questions) != 1:
        return 0
    bad, used, after = dns_expand(w, message, length, 12, dns.target.address)
    if bad:
        return 0
    dns.target_len = used
    if after + 4 > length or w.read(message + after, 4) != b"\0\1\0\1":
        return 0
    entry = w.view(DnsEntry, address)
    name, size = entry.name.address, entry.name_len
    return after + 4 if dns_same_name(w, dns.target.address, used, name, size) else 0


@model
def dns_input(w: World, message: int, length: int, source: int, port: int, own_port: int) -> None:
    """Believe only what fits a question; follow at most eight CNAMEs, look at 24 records."""
    dns = w.g(DNS)
    if length < 12:
        dns.strays += 1
        return
    missing, address = dns_match(w, source, port, own_port, w.u16(message))
    if missing or address is None:
        dns.strays += 1
        return
    entry = w.view(DnsEntry, address)
    start = _question(w, message, length, address)
    if not start:
        dns.refused += 1
        return
    dns.answers += 1
    code = w.u8(message + 3) & 15
    if code not in (0, 3):
        entry.retry_at = w.g(CORE).now
        return
    status, found = 2, 0
    if code == 0:
        count = min(_word(w.read(message + 6, 2)), DNS_ANSWERS_MAX)
        dns.ttl = 0xFFFF_FFFF
        for _ in range(DNS_PASSES_MAX):
            status, found = dns_walk(w, message, length, start, count)
            if status != 1:
                break
    if status == 3:
        dns.refused += 1
    elif status == 0:
        entry.address = found
        seconds = min(max(dns.ttl, DNS_TTL_MIN_S), DNS_TTL_MAX_S)
        dns_settle(w, address, DnsState.FOUND, 1000 * seconds)
    else:
        dns_settle(w, address, DnsState.FAILED, DNS_FAILED_MS)
