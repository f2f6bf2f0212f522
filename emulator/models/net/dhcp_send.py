"""DHCP messages out, byte by byte (RFC 2131 table 5)."""

import struct

from emulator.effects import World, model
from emulator.models.net.arp import cycles
from emulator.models.net.udp import udp_begin, udp_finish
from firmware.layouts.net import BROADCAST, DHCP, DHCP_MESSAGE, DhcpState
from firmware.layouts.node import CORE, NETWORK


def form(
    kind: int = 0,
    xid: int = 0,
    seconds: int = 0,
    own: int = 0,
    mac: bytes = bytes(6),
    wanted: tuple[int, int] | None = None,
) -> bytes:
    """Return a message of 300 bytes; `wanted` is the address and the server of an offer."""
    head = bytes((1, 1, 6, 0)) + struct.pack("<I", xid) + struct.pack(">HH", seconds, 0)
    head += struct.pack("<IIII", own, 0, 0, 0) + mac.ljust(16 + 64 + 128, b"\x00")
    options = b"\x63\x82\x53\x63" + bytes((53, 1, kind, 61, 7, 1)) + mac
    options += bytes((57, 2)) + (1500).to_bytes(2, "big") + bytes((55, 7, 1, 3, 6, 51, 54, 58, 59))
    if wanted is not None:
        options += struct.pack("<BBIBBI", 50, 4, wanted[0], 54, 4, wanted[1])
    return (head + options + b"\xff").ljust(DHCP_MESSAGE, b"\x00")


@model
def dhcp_send(w: World) -> int:
    """DISCOVER when selecting, else REQUEST; to the server itself only when renewing."""
    dhcp, network = w.g(DHCP), w.g(NETWORK)
    renewing = dhcp.state == DhcpState.RENEWING
    destination = dhcp.server if renewing else BROADCAST
    at, refused = udp_begin(w, destination)
    if refused:
        return 1
    selecting, requesting = dhcp.state == DhcpState.SELECTING, dhcp.state == DhcpState.REQUESTING
    seconds = min((w.g(CORE).now - dhcp.begun) % 2**64 // cycles(w, 1000), 0xFFFF)
    own = 0 if selecting or requesting else network.ip
    w.write(at, form())  # the empty form is laid down first
    if requesting:
        w.write(at, form(wanted=(0, 0)))
    wanted = (dhcp.offered, dhcp.server) if requesting else None
    kind = 1 if selecting else 3
    w.write(at, form(kind, dhcp.xid, seconds, own, bytes(network.mac), wanted))
    udp_finish(w, destination, DHCP_MESSAGE, 68, 67)
    return 0
