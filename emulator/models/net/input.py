"""Frames in: RFC 791, 768 and 1122 as rules on the bytes of one frame."""

import struct

from emulator.effects import World, model
from emulator.models.net.arp import arp_input
from emulator.models.net.checksum import checksum
from emulator.models.net.dhcp import dhcp_input
from emulator.models.net.icmp import icmp_input
from emulator.models.net.ip import is_host
from emulator.models.net.udp import pseudo_sum
from firmware.layouts.net import BROADCAST, NET
from firmware.layouts.nic import NIC
from firmware.layouts.node import NETWORK

Delivered = tuple[int, int, int, int, int, int, int]
NOTHING: Delivered = (0, 0, 0, 0, 0, 0, 0)
TCP, UDP, ICMP = 6, 17, 1


@model
def udp_input(w: World, datagram: int, length: int, source: int, destination: int) -> Delivered:
    """Length and checksum first; then DHCP, then whoever listens on our address."""
    counters, network = w.g(NET).counters, w.g(NETWORK)
    raw = w.read(datagram, length) if length else b""
    if length < 8:
        counters.udp_bad += 1
        return NOTHING
    sender, target, total, given = struct.unpack_from(">HHHH", raw)
    start = pseudo_sum(source, destination, UDP, total)
    bad = not 8 <= total <= length or (
        given and not w.g(NIC).trusted and checksum(w, start, datagram, total)
    )
    if bad:
        counters.udp_bad += 1
    elif target == 68 and sender == 67:
        dhcp_input(w, datagram + 8, total - 8)
    elif target == 68 or network.configured != 1 or destination != network.ip:
        counters.udp_ports += 1
    else:
        return 0, UDP, datagram + 8, total - 8, source, sender, target
    return NOTHING


def _everybody(w: World, destination: int) -> bool:
    network = w.g(NETWORK)
    host_bits = ~network.netmask & 0xFFFF_FFFF
    ours = (destination ^ network.ip) & network.netmask == 0
    return destination == BROADCAST or (ours and destination & host_bits == host_bits)


@model
def ip_input(w: World, packet: int, length: int) -> Delivered:
    """Header sane, whole, undamaged, no fragment, from a host, for us."""
    counters, network = w.g(NET).counters, w.g(NETWORK)
    if length < 20:
        counters.short_frames += 1
        return NOTHING
    first, total, fragment, protocol, source, destination = struct.unpack(
        "<BxHxxHxBxxII", w.read(packet, 20)
    )
    total = int.from_bytes(total.to_bytes(2, "little"), "big")
    fragment = int.from_bytes(fragment.to_bytes(2, "little"), "big")
    words = (first & 15) * 4
    if first >> 4 != 4 or words < 20 or not words <= total <= length:
        counters.ip_headers += 1
        return NOTHING
    if checksum(w, 0, packet, words):
        counters.ip_checksums += 1
        return NOTHING
    if fragment & 0x3FFF:
        counters.ip_fragments += 1
        return NOTHING
    if not is_host(source):
        counters.ip_sources += 1
        return NOTHING
    payload, size = packet + words, total - words
    if network.configured != 1:
        if protocol == UDP:
            return udp_input(w, payload, size, source, destination)
        counters.ip_others += 1
        return NOTHING
    if destination != network.ip:
        if not _everybody(w, destination):
            counters.ip_others += 1
        elif protocol == UDP:
            return udp_input(w, payload, size, source, destination)
        else:
            counters.ip_protocols += 1
        return NOTHING
    if protocol == TCP:
        if w.g(NIC).trusted and size >= 20:
            w.write(payload + 16, b"\x00\x00")
            start = pseudo_sum(source, destination, TCP, size)
            w.write(payload + 16, checksum(w, start, payload, size).to_bytes(2, "little"))
        return 1, TCP, payload, size, source, destination, 0
    if protocol == UDP:
        return udp_input(w, payload, size, source, destination)
    if protocol == ICMP:
        icmp_input(w, payload, size, source)
    else:
        counters.ip_protocols += 1
    return NOTHING


@model
def net_input(w: World, frame: int, length: int) -> Delivered:
    """To our address or to all; untagged or tagged with VID 0; IPv4 or ARP."""
    counters = w.g(NET).counters
    w.g(NET).rx_frame = frame
    raw = w.read(frame, min(length, 18))
    if raw[:6] not in (bytes(w.g(NETWORK).mac), b"\xff" * 6):
        counters.not_for_us += 1
        return NOTHING
    kind, header = raw[12:14], 14
    if kind == b"\x81\x00":
        if length < 18:
            counters.short_frames += 1
            return NOTHING
        if int.from_bytes(raw[14:16], "big") & 0xFFF:
            counters.tagged += 1
            return NOTHING
        kind, header = raw[16:18], 18
    if kind == b"\x08\x00":
        return ip_input(w, frame + header, length - header)
    if kind == b"\x08\x06":
        arp_input(w, frame + header, length - header)
    else:
        counters.other_types += 1
    return NOTHING
