"""The DNS client."""

from emulator.effects import World, model
from emulator.models.crypto.drbg import drbg_u64
from emulator.models.net.dns_message import dns_settle
from emulator.models.net.dns_name import dns_parse_quad
from emulator.models.net.udp import udp_begin, udp_finish
from firmware.layouts.clock import NEVER
from firmware.layouts.dns import (
    DNS,
    DNS_ENTRIES,
    DNS_FAILED_MS,
    DNS_NAME_MAX,
    DNS_PORT,
    DNS_RETRY_MS,
    DNS_TRIES,
    DnsEntry,
    DnsState,
)
from firmware.layouts.node import CLOCK, CORE, NETWORK

FOUND, PENDING, FAILED = 0, 1, 2


@model
def dns_find(w: World, name: int, length: int) -> tuple[int, int]:
    """An entry that is in use and has exactly this name."""
    wanted = w.read(name, length)
    for entry in (w.g(DNS).entries[n] for n in range(DNS_ENTRIES)):
        if entry.state and entry.name_len == length and entry.name[0:length] == wanted:
            return 0, entry.address_
    return 1, 0


@model
def dns_take(w: World) -> tuple[int, int]:
    """Round robin over the entries that nobody waits for."""
    dns = w.g(DNS)
    for _ in range(DNS_ENTRIES):
        entry = dns.entries[dns.next_victim % DNS_ENTRIES]
        dns.next_victim += 1
        if entry.state != DnsState.PENDING:
            return 0, entry.address_
    return 1, 0


@model
def dns_ask(w: World, entry: int) -> None:
    """Type A, class IN, recursion desired; servers take turns."""
    asked, network = w.view(DnsEntry, entry), w.g(NETWORK)
    servers = [s for s in (network.dns1, network.dns2) if s] or [0]
    asked.server = servers[asked.tries % 2 % len(servers)]
    asked.tries += 1
    asked.state = DnsState.PENDING
    asked.retry_at = w.g(CORE).now + DNS_RETRY_MS * w.g(CLOCK).tsc_cycles_per_ms
    random = drbg_u64(w)
    asked.id = random
    asked.port = random >> 32 | 0xC000
    place, refused = udp_begin(w, asked.server)
    if refused:
        return
    labels = asked.name[0 : asked.name_len].split(b".")
    name = b"".join(bytes([len(x)]) + x for x in labels)
    header = asked.id.to_bytes(2, "little") + b"\1\0\0\1\0\0\0\0\0\0"
    question = header + name + b"\0\0\1\0\1"
    w.write(place, question)
    udp_finish(w, asked.server, len(question), asked.port, DNS_PORT)


@model
def dns_resolve(w: World, name: int, length: int) -> tuple[int, int]:
    """Quads at once; cached answers for their TTL; otherwise a question goes out."""
    unusual, address = dns_parse_quad(w, name, length)
    if not unusual:
        return FOUND, address
    network = w.g(NETWORK)
    if not 1 <= length <= DNS_NAME_MAX or not network.dns1 | network.dns2:
        return FAILED, 0
    missing, place = dns_find(w, name, length)
    if missing:
        full, place = dns_take(w)
        if full:
            return PENDING, 0
        entry = w.view(DnsEntry, place)
        entry.name_len = length
        entry.name[0:length] = w.read(name, length)
    else:
        entry = w.view(DnsEntry, place)
        if entry.state == DnsState.PENDING:
            return PENDING, 0
        if w.g(CORE).now < entry.expires:
            found = entry.state == DnsState.FOUND
            return (FOUND, entry.address) if found else (FAILED, 0)
    entry.tries = 0
    dns_ask(w, place)
    return PENDING, 0


@model
def dns_tick(w: World) -> int:
    """One question a second, eight in all."""
    soonest = NEVER
    for entry in (w.g(DNS).entries[n] for n in range(DNS_ENTRIES)):
        if entry.state != DnsState.PENDING:
            continue
        if w.g(CORE).now >= entry.retry_at:
            if entry.tries >= DNS_TRIES:
                dns_settle(w, entry.address_, DnsState.FAILED, DNS_FAILED_MS)
                continue
            dns_ask(w, entry.address_)
        soonest = min(soonest, entry.retry_at)
    return soonest
