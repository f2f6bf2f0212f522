"""Neighbours: who gets an entry, how long it holds, what goes out."""

import struct
from typing import Any

from emulator.effects import World, model
from emulator.models.nic.queue import nic_commit, nic_reserve
from firmware.layouts.net import (
    ARP,
    ARP_ENTRIES,
    ARP_LIFE_MS,
    ARP_REFRESH_MS,
    ARP_RETRY_MS,
    NET,
    ArpEntry,
    ArpState,
)
from firmware.layouts.node import CLOCK, CORE, NETWORK


def cycles(w: World, milliseconds: int) -> int:
    """Return a time span in TSC cycles, as a machine word."""
    return int(w.g(CLOCK).tsc_cycles_per_ms) * milliseconds % 2**64


def _entries(w: World) -> list[Any]:
    return [w.g(ARP).entries[n] for n in range(ARP_ENTRIES)]


def _packet(w: World, target_mac: bytes, operation: int, asked_mac: bytes, asked_ip: int) -> bytes:
    network = w.g(NETWORK)
    own = bytes(network.mac)
    body = struct.pack(">HHBBH6s", 1, 0x0800, 6, 4, operation, own)
    body += struct.pack("<I6sI", network.ip, asked_mac, asked_ip)
    return target_mac + own + b"\x08\x06" + body


@model
def arp_find(w: World, ip: int) -> int:
    """The first entry in use with that address."""
    found = (e for e in _entries(w) if e.ip == ip and e.state != ArpState.FREE)
    return next((int(e.address_) for e in found), 0)


@model
def arp_create(w: World, ip: int) -> int:
    """The first of the oldest; free ones count as oldest, router and DNS servers never."""
    network = w.g(NETWORK)
    kept = (network.router, network.dns1, network.dns2)
    free = ArpState.FREE
    candidates = [e for e in _entries(w) if e.state == free or e.ip not in kept]
    chosen = min(candidates, key=lambda e: 0 if e.state == free else e.used)
    chosen.ip, chosen.state = ip, ArpState.ASKING
    chosen.expires = chosen.asked = chosen.used = 0
    return int(chosen.address_)


@model
def arp_ask(w: World, entry: int) -> None:
    """Once a second at most; a request that found no buffer does not count."""
    asked, counters, now = w.view(ArpEntry, entry), w.g(NET).counters, w.g(CORE).now
    if asked.asked and (now - asked.asked) % 2**64 < cycles(w, ARP_RETRY_MS):
        return
    frame, full = nic_reserve(w)
    if full:
        counters.tx_no_buffer += 1
        return
    asked.asked = now
    counters.arp_requests += 1
    w.write(frame, _packet(w, b"\xff" * 6, 1, bytes(6), asked.ip))
    nic_commit(w, 42)


@model
def arp_lookup(w: World, ip: int) -> tuple[int, int]:
    """Known and not run out; asked for again in the second half of its life."""
    now = w.g(CORE).now
    at = arp_find(w, ip) or arp_create(w, ip)
    entry = w.view(ArpEntry, at)
    entry.used = now
    if entry.state == ArpState.KNOWN and now < entry.expires:
        if entry.expires - now < cycles(w, ARP_LIFE_MS - ARP_REFRESH_MS):
            arp_ask(w, at)
        return at, 0
    if entry.state == ArpState.KNOWN:
        entry.state = ArpState.ASKING
    arp_ask(w, at)
    return at, 1


@model
def arp_doubt(w: World) -> None:
    """Known entries end now."""
    for entry in _entries(w):
        if entry.state == ArpState.KNOWN:
            entry.expires = w.g(CORE).now


@model
def arp_input(w: World, packet: int, length: int) -> None:
    """RFC 826, without its "merge" of strangers."""
    counters, network = w.g(NET).counters, w.g(NETWORK)
    if length < 28:
        counters.short_frames += 1
        return
    raw = w.read(packet, 28)
    fixed, operation, sender_mac, sender, target = struct.unpack("<6s2s6sI6xI", raw)
    if fixed != b"\x00\x01\x08\x00\x06\x04" or sender_mac[0] & 1:
        counters.arp_bad += 1
        return
    known = 0
    if sender:
        if sender == network.ip:
            counters.arp_conflicts += 1
            return
        known = arp_find(w, sender)
    if known:
        entry = w.view(ArpEntry, known)
        entry.mac[:] = sender_mac
        entry.expires = cycles(w, ARP_LIFE_MS) + w.g(CORE).now
        entry.state = ArpState.KNOWN
    if operation == b"\x00\x01" and network.configured == 1 and target == network.ip:
        frame, full = nic_reserve(w)
        if full:
            counters.tx_no_buffer += 1
            return
        counters.arp_replies += 1
        w.write(frame, _packet(w, sender_mac, 2, sender_mac, sender))
        nic_commit(w, 42)
    elif not known:
        counters.arp_others += 1
