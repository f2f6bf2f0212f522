"""IPv4 out."""

import struct

from emulator.effects import World, model
from emulator.models.net.arp import arp_lookup
from emulator.models.net.checksum import checksum
from emulator.models.nic.queue import nic_commit, nic_reserve
from firmware.layouts.net import BROADCAST, NET, ArpEntry, Ipv4Header
from firmware.layouts.node import NETWORK


def is_host(ip: int) -> bool:
    """Whether an address can be a host's: not 0, 127, or 224 and above."""
    first = ip & 0xFF
    return 0 < first < 224 and first != 127


@model
def ip_next_hop(w: World, destination: int) -> tuple[int | None, int]:
    """The host when it is on the link or there is no router; a broadcast for a broadcast."""
    network = w.g(NETWORK)
    if destination == BROADCAST:
        return BROADCAST, 0
    if network.configured != 1 or not is_host(destination) or destination == network.ip:
        return None, 1
    mask, host_bits = network.netmask, ~network.netmask & 0xFFFF_FFFF
    if mask and (destination ^ network.ip) & mask == 0:
        everybody = host_bits and destination & host_bits == host_bits
        return (BROADCAST if everybody else destination), 0
    return network.router or destination, 0


@model
def ip_begin(w: World, destination: int) -> tuple[int, int]:
    """Next hop, its MAC, a buffer, the Ethernet header."""
    counters = w.g(NET).counters
    hop, refused = ip_next_hop(w, destination)
    if refused or hop is None:
        counters.tx_no_address += 1
        return 0, 1
    mac = b"\xff" * 6
    if hop != BROADCAST:
        entry, unknown = arp_lookup(w, hop)
        if unknown:
            counters.tx_unresolved += 1
            return 0, 1
        mac = bytes(w.view(ArpEntry, entry).mac)
    frame, full = nic_reserve(w)
    if full:
        counters.tx_no_buffer += 1
        return 0, 1
    w.g(NET).tx_frame = frame
    w.write(frame, mac + bytes(w.g(NETWORK).mac) + b"\x08\x00")
    return frame + 34, 0


def own_address(w: World) -> int:
    """Our address, or 0.0.0.0 before there is one."""
    network = w.g(NETWORK)
    return int(network.ip) if network.configured == 1 else 0


def header_of(
    w: World, total: int, ident: int, fragment: int, protocol: int, ends: tuple[int, int]
) -> bytes:
    """Return an IPv4 header without its checksum."""
    fixed = struct.pack(">BBHHHBBH", 0x45, 0, total, ident, fragment, 64, protocol, 0)
    return fixed + struct.pack("<II", *ends)


@model
def ip_finish(w: World, destination: int, length: int, protocol: int) -> None:
    """A header of 20 bytes, not to be fragmented, ids counting up."""
    net = w.g(NET)
    at = net.tx_frame + 14
    net.ident += 1
    ends = (own_address(w), destination)
    w.write(at, header_of(w, length + 20, net.ident, 0x4000, protocol, ends))
    w.view(Ipv4Header, at).checksum = checksum(w, 0, at, 20)
    nic_commit(w, length + 34)
