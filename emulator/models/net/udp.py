"""UDP out."""

import struct

from emulator.effects import World, model
from emulator.models.net.answer import net_answer
from emulator.models.net.checksum import checksum
from emulator.models.net.ip import ip_begin, ip_finish, own_address
from emulator.models.nic.queue import nic_reserve
from firmware.layouts.net import NET, UdpHeader
from firmware.layouts.node import NETWORK


def pseudo_sum(source: int, destination: int, protocol: int, length: int) -> int:
    """Return the sum of the pseudo-header, its words as loaded from the wire (RFC 768)."""
    swapped = int.from_bytes(length.to_bytes(2, "big"), "little")
    return source + destination + (protocol << 8) + swapped


@model
def udp_begin(w: World, destination: int) -> tuple[int, int]:
    """Eight bytes after the IPv4 header."""
    payload, refused = ip_begin(w, destination)
    return (0, 1) if refused else (payload + 8, 0)


@model
def udp_to(w: World, hardware: int) -> tuple[int, int]:
    """To an Ethernet address; neighbours play no part."""
    net = w.g(NET)
    frame, full = nic_reserve(w)
    if full:
        net.counters.tx_no_buffer += 1
        return 0, 1
    net.tx_frame = frame
    w.write(frame, w.read(hardware, 6) + bytes(w.g(NETWORK).mac) + b"\x08\x00")
    return frame + 42, 0


@model
def udp_answer(w: World) -> tuple[int, int]:
    """To whoever sent the frame in hand, within the turn's bound."""
    if net_answer(w):
        return 0, 1
    return udp_to(w, w.g(NET).rx_frame + 6)


@model
def udp_finish(
    w: World, destination: int, length: int, source_port: int, destination_port: int
) -> None:
    """Ports and length; a checksum of 0 is sent as all ones."""
    at, total = w.g(NET).tx_frame + 34, length + 8
    w.write(at, struct.pack(">HHHH", source_port & 0xFFFF, destination_port & 0xFFFF, total, 0))
    start = pseudo_sum(own_address(w), destination, 17, total)
    w.view(UdpHeader, at).checksum = checksum(w, start, at, total) or 0xFFFF
    ip_finish(w, destination, total, 17)
