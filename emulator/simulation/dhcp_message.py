"""DHCP messages: RFC 2131 fields, RFC 2132 options, option overload and RFC 3396 splits.

Options are kept as a list in wire order, so a script can repeat, split, misplace or damage them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from emulator.simulation.packet import ZERO_IP, PacketError

DISCOVER, OFFER, REQUEST, DECLINE, ACK, NAK, RELEASE, INFORM = range(1, 9)

OPT_PAD, OPT_MASK, OPT_ROUTER, OPT_DNS, OPT_HOSTNAME, OPT_MTU = 0, 1, 3, 6, 12, 26
OPT_REQUESTED_IP, OPT_LEASE, OPT_OVERLOAD, OPT_TYPE, OPT_SERVER = 50, 51, 52, 53, 54
OPT_PARAMETERS, OPT_MESSAGE, OPT_MAX_SIZE, OPT_T1, OPT_T2 = 55, 56, 57, 58, 59
OPT_VENDOR_CLASS, OPT_CLIENT_ID, OPT_END = 60, 61, 255

MAGIC = b"\x63\x82\x53\x63"
FLAG_BROADCAST = 0x8000
_HEAD = struct.Struct(">BBBBIHH4s4s4s4s16s64s128s")
_OVERLOAD_FILE, _OVERLOAD_SNAME = 1, 2


@dataclass(slots=True)
class DhcpMessage:
    """One BOOTP packet with DHCP options.

    `sname` and `file` are the raw fields; when option 52 says so they hold options, which
    `encode` packs from `sname_options` and `file_options`. `tail` ends the options, and zeros fill
    the payload up to `minimum` bytes, the 300 that old relays expect.
    """

    op: int
    xid: int
    chaddr: bytes
    options: list[tuple[int, bytes]] = field(default_factory=list)
    ciaddr: bytes = ZERO_IP
    yiaddr: bytes = ZERO_IP
    siaddr: bytes = ZERO_IP
    giaddr: bytes = ZERO_IP
    secs: int = 0
    flags: int = 0
    sname: bytes = b""
    file: bytes = b""
    sname_options: list[tuple[int, bytes]] = field(default_factory=list)
    file_options: list[tuple[int, bytes]] = field(default_factory=list)
    tail: bytes = b"\xff"
    minimum: int = 300

    def option(self, code: int) -> bytes | None:
        """Return an option's value, its parts joined as RFC 3396 says; None when absent."""
        every = self.options + self.file_options + self.sname_options
        parts = [value for number, value in every if number == code]
        return b"".join(parts) if parts else None

    @property
    def kind(self) -> int:
        """The DHCP message type, 0 for plain BOOTP."""
        value = self.option(OPT_TYPE)
        return value[0] if value else 0

    def encode(self) -> bytes:
        """Return the UDP payload."""
        sname = _pack(self.sname_options, 64) if self.sname_options else self.sname
        file = _pack(self.file_options, 128) if self.file_options else self.file
        head = _HEAD.pack(
            self.op, 1, 6, 0, self.xid, self.secs, self.flags,
            self.ciaddr, self.yiaddr, self.siaddr, self.giaddr, self.chaddr, sname, file,
        )  # fmt: skip
        body = b"".join(bytes((code, len(value))) + value for code, value in self.options)
        return (head + MAGIC + body + self.tail).ljust(self.minimum, b"\x00")

    @classmethod
    def decode(cls, data: bytes) -> DhcpMessage:
        """Read a UDP payload.

        Raises:
            PacketError: too short, no magic cookie, or an option that runs past its field.
        """
        if len(data) < _HEAD.size + 4:
            raise PacketError(f"a DHCP message of {len(data)} bytes is shorter than 240")
        op, htype, hlen, _, xid, secs, flags, ci, yi, si, gi, chaddr, sname, file = (
            _HEAD.unpack_from(data)
        )
        if (htype, hlen) != (1, 6) or data[236:240] != MAGIC:
            raise PacketError("a BOOTP message without Ethernet address or DHCP cookie")
        found = cls(op, xid, chaddr[:6], _unpack(data[240:]), ci, yi, si, gi, secs, flags)
        found.sname, found.file = sname, file
        overload = (found.option(OPT_OVERLOAD) or b"\x00")[0]
        if overload & _OVERLOAD_FILE:
            found.file_options = _unpack(file)
        if overload & _OVERLOAD_SNAME:
            found.sname_options = _unpack(sname)
        return found


def _pack(options: list[tuple[int, bytes]], size: int) -> bytes:
    body = b"".join(bytes((code, len(value))) + value for code, value in options) + b"\xff"
    if len(body) > size:
        raise PacketError(f"{len(body)} bytes of options do not fit a field of {size}")
    return body.ljust(size, b"\x00")


def _unpack(data: bytes) -> list[tuple[int, bytes]]:
    out: list[tuple[int, bytes]] = []
    at = 0
    while at < len(data) and data[at] != OPT_END:
        if data[at] == OPT_PAD:
            at += 1
            continue
        if at + 1 >= len(data) or at + 2 + data[at + 1] > len(data):
            raise PacketError(f"DHCP option {data[at]} runs past its field at byte {at}")
        out.append((data[at], data[at + 2 : at + 2 + data[at + 1]]))
        at += 2 + data[at + 1]
    return out


def split_option(code: int, value: bytes, sizes: list[int]) -> list[tuple[int, bytes]]:
    """Cut one option into several of the given sizes, RFC 3396; the rest makes a last part."""
    parts: list[tuple[int, bytes]] = []
    for size in sizes:
        parts.append((code, value[:size]))
        value = value[size:]
    return [*parts, (code, value)] if value else parts
