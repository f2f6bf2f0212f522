"""DHCP messages out, byte by byte (RFC 2131 table 5)."""

import struct

from emulator.effects import World, model
from emulator.models.net.arp import cycles
from emulator.models.net.udp import udp_begin, udp_finish
from firmware.layouts.net import BROADCAST, DHCP, DHCP_MESSAGE, DhcpState
from firmware.layouts.node import CORE, NETWORK


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
    mac = bytes(network.mac)
    seconds = min((w.g(CORE).now - dhcp.begun) % 2**64 // cycles(w, 1000), 0xFFFF)
    own = 0 if selecting or requesting else network.ip
    message = bytes((1, 1, 6, 0)) + struct.pack("<I", dhcp.xid) + struct.pack(">HH", seconds, 0)
    message += struct.pack("<IIII", own, 0, 0, 0) + mac.ljust(16 + 64 + 128, b"\x00")
    message += b"\x63\x82\x53\x63" + bytes((53, 1, 1 if selecting else 3))
    message += bytes((61, 7, 1)) + mac + bytes((57, 2)) + (1500).to_bytes(2, "big")
    message += bytes((55, 7, 1, 3, 6, 51, 54, 58, 59))
    if requesting:
        message += struct.pack("<BBIBBI", 50, 4, dhcp.offered, 54, 4, dhcp.server)
    w.write(at, (message + b"\xff").ljust(DHCP_MESSAGE, b"\x00"))
    udp_finish(w, destination, DHCP_MESSAGE, 68, 67)
    return 0
