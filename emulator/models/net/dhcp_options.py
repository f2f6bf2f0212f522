"""DHCP messages in."""

import struct

from emulator.effects import World, model
from firmware.layouts.net import DHCP_OPTIONS
from firmware.layouts.node import NETWORK

COOKIE = b"\x63\x82\x53\x63"
# Bit in `seen`: field, code, least length, where in the option, width.
KEPT = (
    ("type", 53, 1, 0, 1),
    ("overload", 52, 1, 0, 1),
    ("netmask", 1, 4, 0, 4),
    ("router", 3, 4, 0, 4),
    ("dns1", 6, 4, 0, 4),
    ("dns2", 6, 8, 4, 4),
    ("server", 54, 4, 0, 4),
    ("lease", 51, 4, 0, 4),
    ("t1", 58, 4, 0, 4),
    ("t2", 59, 4, 0, 4),
)


def _split(field: bytes) -> list[tuple[int, bytes]]:
    found = []
    while field and field[0] != 255:
        if field[0] == 0:
            field = field[1:]
            continue
        if len(field) < 2 or 2 + field[1] > len(field):
            break
        found.append((field[0], field[2 : 2 + field[1]]))
        field = field[2 + field[1] :]
    return found


@model
def dhcp_options(w: World, options: int, length: int) -> None:
    """The first of each kind that is long enough is kept, as it stands on the wire."""
    found = w.g(DHCP_OPTIONS)
    for code, value in _split(w.read(options, length) if length else b""):
        for bit, (name, wanted, need, at, width) in enumerate(KEPT):
            if code == wanted and len(value) >= need and not found.seen >> bit & 1:
                found.seen |= 1 << bit
                w.write(found.offset_of(name), value[at : at + width])


@model
def dhcp_parse(w: World, message: int, length: int) -> int:
    """A BOOTREPLY to our Ethernet address, with the cookie; option fields in RFC 2131's order."""
    if length < 240:
        return 1
    head = w.read(message, 240)
    op, hardware, size, mac = struct.unpack_from("<BBB25x6s", head)
    if (op, hardware, size) != (2, 1, 6) or head[236:] != COOKIE or mac != bytes(w.g(NETWORK).mac):
        return 1
    w.g(DHCP_OPTIONS).wipe()
    dhcp_options(w, message + 240, length - 240)
    overload = w.g(DHCP_OPTIONS)
    if overload.overload & 1:
        dhcp_options(w, message + 108, 128)
    if overload.overload & 2:
        dhcp_options(w, message + 44, 64)
    return 0
