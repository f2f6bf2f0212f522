"""Encode and decode Ethernet, ARP, IPv4, ICMP, UDP and TCP for the peers on the virtual wire.

Written from the RFCs for this package alone, so that an error in the firmware's own layouts
cannot hide here. Addresses are bytes: 6 for a MAC, 4 for IPv4. Decoders raise `PacketError`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

BROADCAST_MAC = b"\xff" * 6
ZERO_MAC = b"\x00" * 6
BROADCAST_IP = b"\xff" * 4
ZERO_IP = b"\x00" * 4

ETHERTYPE_IPV4 = 0x0800
ETHERTYPE_ARP = 0x0806
ETHERTYPE_VLAN = 0x8100
PROTOCOL_ICMP = 1
PROTOCOL_TCP = 6
PROTOCOL_UDP = 17

FIN, SYN, RST, PSH, ACK, URG = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
_FLAG_NAMES = ((SYN, "SYN"), (FIN, "FIN"), (RST, "RST"), (PSH, "PSH"), (ACK, "ACK"), (URG, "URG"))

ARP_REQUEST, ARP_REPLY = 1, 2
ICMP_ECHO_REPLY, ICMP_ECHO_REQUEST, ICMP_UNREACHABLE = 0, 8, 3

# IPv4 flags and fragment offset share one field, RFC 791 section 3.1.
DONT_FRAGMENT, MORE_FRAGMENTS = 0x4000, 0x2000
OPTION_END, OPTION_NOP, OPTION_MSS, OPTION_SCALE, OPTION_SACK_OK, OPTION_SACK = 0, 1, 2, 3, 4, 5
OPTION_TIMESTAMPS = 8

_ARP = struct.Struct(">HHBBH6s4s6s4s")
_IPV4 = struct.Struct(">BBHHHBBH4s4s")
_UDP = struct.Struct(">HHHH")
_TCP = struct.Struct(">HHIIBBHHH")


class PacketError(ValueError):
    """A packet that its RFC does not allow."""


def mac(text: str) -> bytes:
    """Return the 6 bytes of a MAC address written as `52:54:00:00:00:01`."""
    raw = bytes.fromhex(text.replace(":", "").replace("-", ""))
    if len(raw) != 6:
        raise PacketError(f"{text!r} is no MAC address: write six hex pairs, 52:54:00:00:00:01")
    return raw


def mac_text(raw: bytes) -> str:
    """Write a MAC address as `52:54:00:00:00:01`."""
    return raw.hex(":")


def ip(text: str) -> bytes:
    """Return the 4 bytes of an IPv4 address in dotted notation."""
    parts = text.split(".")
    if len(parts) != 4 or not all(part.isdecimal() and int(part) < 256 for part in parts):
        raise PacketError(f"{text!r} is no IPv4 address: write four numbers, 10.0.0.1")
    return bytes(int(part) for part in parts)


def ip_text(raw: bytes) -> str:
    """Write an IPv4 address in dotted notation."""
    return ".".join(map(str, raw))


def checksum(data: bytes) -> int:
    """Return the internet checksum, RFC 1071.

    The ones' complement sum of 16-bit words is the number modulo 65535, which Python's own
    integers compute faster than a loop; only "all words zero" has the sum 0.
    """
    if len(data) & 1:
        data += b"\x00"
    number = int.from_bytes(data, "big")
    total = number % 0xFFFF
    if total == 0 and number:
        total = 0xFFFF
    return total ^ 0xFFFF


def _pseudo(src: bytes, dst: bytes, protocol: int, length: int) -> bytes:
    return src + dst + struct.pack(">BBH", 0, protocol, length)


@dataclass(slots=True)
class Ethernet:
    """One frame without its check sequence; `vlan` is the tag control field, None untagged."""

    dst: bytes
    src: bytes
    ethertype: int
    payload: bytes
    vlan: int | None = None

    def encode(self) -> bytes:
        """Return the frame; padding to 60 bytes is the port's work."""
        tag = b"" if self.vlan is None else struct.pack(">HH", ETHERTYPE_VLAN, self.vlan)
        return self.dst + self.src + tag + self.ethertype.to_bytes(2, "big") + self.payload

    @classmethod
    def decode(cls, frame: bytes) -> Ethernet:
        """Read one frame, with or without an 802.1Q tag."""
        if len(frame) < 14:
            raise PacketError(f"a frame of {len(frame)} bytes has no Ethernet header (14 bytes)")
        ethertype = frame[12] << 8 | frame[13]
        if ethertype != ETHERTYPE_VLAN:
            return cls(frame[:6], frame[6:12], ethertype, frame[14:])
        if len(frame) < 18:
            raise PacketError(f"a tagged frame of {len(frame)} bytes ends inside its tag")
        tag, ethertype = struct.unpack_from(">HH", frame, 14)
        return cls(frame[:6], frame[6:12], ethertype, frame[18:], tag)


@dataclass(slots=True)
class Arp:
    """An ARP packet for IPv4 over Ethernet, RFC 826."""

    operation: int
    sender_mac: bytes
    sender_ip: bytes
    target_mac: bytes
    target_ip: bytes

    def encode(self) -> bytes:
        """Return the 28 bytes."""
        return _ARP.pack(
            1, ETHERTYPE_IPV4, 6, 4, self.operation,
            self.sender_mac, self.sender_ip, self.target_mac, self.target_ip,
        )  # fmt: skip

    @classmethod
    def decode(cls, data: bytes) -> Arp:
        """Read an ARP packet; trailing padding is ignored."""
        if len(data) < _ARP.size:
            raise PacketError(f"an ARP packet of {len(data)} bytes is shorter than 28")
        hardware, protocol, hlen, plen, *rest = _ARP.unpack_from(data)
        if (hardware, protocol, hlen, plen) != (1, ETHERTYPE_IPV4, 6, 4):
            raise PacketError("an ARP packet that is not about IPv4 over Ethernet")
        return cls(*rest)


@dataclass(slots=True)
class Ipv4:
    """An IPv4 packet, RFC 791; `fragment` is the flags and offset field as sent."""

    src: bytes
    dst: bytes
    protocol: int
    payload: bytes
    ttl: int = 64
    ident: int = 0
    fragment: int = DONT_FRAGMENT
    options: bytes = b""
    tos: int = 0

    def encode(self) -> bytes:
        """Return header and payload with a right checksum."""
        options = self.options + bytes(-len(self.options) % 4)
        words = 5 + len(options) // 4
        header = _IPV4.pack(
            0x40 | words, self.tos, words * 4 + len(self.payload), self.ident, self.fragment,
            self.ttl, self.protocol, 0, self.src, self.dst,
        ) + options  # fmt: skip
        return header[:10] + checksum(header).to_bytes(2, "big") + header[12:] + self.payload

    @classmethod
    def decode(cls, data: bytes) -> Ipv4:
        """Read one packet and check its header; bytes after the total length are padding."""
        if len(data) < 20:
            raise PacketError(f"an IPv4 packet of {len(data)} bytes has no header (20 bytes)")
        first, tos, total, ident, fragment, ttl, protocol, _, src, dst = _IPV4.unpack_from(data)
        header = (first & 15) * 4
        if first >> 4 != 4 or header < 20:
            raise PacketError(f"an IPv4 header that starts with 0x{first:02x}")
        if not header <= total <= len(data):
            raise PacketError(f"an IPv4 total length of {total} in {len(data)} bytes")
        if checksum(data[:header]):
            raise PacketError("an IPv4 header with a wrong checksum")
        payload = data[header:total]
        return cls(src, dst, protocol, payload, ttl, ident, fragment, data[20:header], tos)

    def fragments(self, mtu: int) -> list[Ipv4]:
        """Cut the packet for a path of `mtu` bytes (RFC 791 section 3.2)."""
        room = (mtu - 20) & ~7
        pieces = [self.payload[at : at + room] for at in range(0, len(self.payload), room)]
        return [
            Ipv4(
                self.src, self.dst, self.protocol, piece, self.ttl, self.ident,
                index * room // 8 | (MORE_FRAGMENTS if index < len(pieces) - 1 else 0),
            )
            for index, piece in enumerate(pieces)
        ]  # fmt: skip


@dataclass(slots=True)
class Icmp:
    """An ICMP message, RFC 792; `rest` is the second header word."""

    kind: int
    code: int
    rest: bytes
    payload: bytes

    def encode(self) -> bytes:
        """Return the message with a right checksum."""
        body = bytes((self.kind, self.code, 0, 0)) + self.rest + self.payload
        return body[:2] + checksum(body).to_bytes(2, "big") + body[4:]

    @classmethod
    def decode(cls, data: bytes) -> Icmp:
        """Read one message and check its checksum."""
        if len(data) < 8 or checksum(data):
            raise PacketError(f"an ICMP message of {len(data)} bytes is short or damaged")
        return cls(data[0], data[1], data[4:8], data[8:])


@dataclass(slots=True)
class Udp:
    """A UDP datagram, RFC 768."""

    src_port: int
    dst_port: int
    payload: bytes

    def encode(self, src: bytes, dst: bytes, *, checksummed: bool = True) -> bytes:
        """Return the datagram; `checksummed=False` sends the 0 that means "none"."""
        length = 8 + len(self.payload)
        head = _UDP.pack(self.src_port, self.dst_port, length, 0)
        if not checksummed:
            return head + self.payload
        total = checksum(_pseudo(src, dst, PROTOCOL_UDP, length) + head + self.payload) or 0xFFFF
        return head[:6] + total.to_bytes(2, "big") + self.payload

    @classmethod
    def decode(cls, data: bytes, src: bytes, dst: bytes) -> Udp:
        """Read one datagram; a checksum of 0 is accepted as "none"."""
        if len(data) < 8:
            raise PacketError(f"a UDP datagram of {len(data)} bytes has no header (8 bytes)")
        src_port, dst_port, length, given = _UDP.unpack_from(data)
        if not 8 <= length <= len(data):
            raise PacketError(f"a UDP length of {length} in {len(data)} bytes")
        if given and checksum(_pseudo(src, dst, PROTOCOL_UDP, length) + data[:length]):
            raise PacketError("a UDP datagram with a wrong checksum")
        return cls(src_port, dst_port, data[8:length])


@dataclass(slots=True)
class Tcp:
    """A TCP segment, RFC 9293 section 3.1; `options` as they stand in the header."""

    src_port: int
    dst_port: int
    seq: int
    ack: int
    flags: int
    window: int
    payload: bytes = b""
    options: bytes = b""
    urgent: int = 0

    def encode(self, src: bytes, dst: bytes) -> bytes:
        """Return the segment with a right checksum."""
        options = self.options + bytes(-len(self.options) % 4)
        head = _TCP.pack(
            self.src_port, self.dst_port, self.seq & 0xFFFFFFFF, self.ack & 0xFFFFFFFF,
            (5 + len(options) // 4) << 4, self.flags, self.window, 0, self.urgent,
        ) + options  # fmt: skip
        length = len(head) + len(self.payload)
        total = checksum(_pseudo(src, dst, PROTOCOL_TCP, length) + head + self.payload)
        return head[:16] + total.to_bytes(2, "big") + head[18:] + self.payload

    @classmethod
    def decode(cls, data: bytes, src: bytes, dst: bytes) -> Tcp:
        """Read one segment and check its checksum."""
        if len(data) < 20:
            raise PacketError(f"a TCP segment of {len(data)} bytes has no header (20 bytes)")
        src_port, dst_port, seq, ack, offset, flags, window, _, urgent = _TCP.unpack_from(data)
        header = (offset >> 4) * 4
        if not 20 <= header <= len(data):
            raise PacketError(f"a TCP data offset of {header} in {len(data)} bytes")
        if checksum(_pseudo(src, dst, PROTOCOL_TCP, len(data)) + data):
            raise PacketError("a TCP segment with a wrong checksum")
        return cls(
            src_port, dst_port, seq, ack, flags & 0x3F, window,
            data[header:], data[20:header], urgent,
        )  # fmt: skip

    @property
    def length(self) -> int:
        """Sequence space that the segment takes: payload, SYN and FIN."""
        return len(self.payload) + bool(self.flags & SYN) + bool(self.flags & FIN)

    def __str__(self) -> str:
        names = "|".join(name for bit, name in _FLAG_NAMES if self.flags & bit) or "none"
        return (
            f"{self.src_port}>{self.dst_port} {names} seq={self.seq} ack={self.ack} "
            f"win={self.window} len={len(self.payload)}"
        )


@dataclass(slots=True)
class TcpOptions:
    """What the options of one segment say; None and empty mean absent."""

    mss: int | None = None
    scale: int | None = None
    sack_ok: bool = False
    sack: tuple[tuple[int, int], ...] = ()
    timestamps: tuple[int, int] | None = None
    order: tuple[int, ...] = ()

    def encode(self) -> bytes:
        """Return the option bytes, MSS first, padded with NOPs to whole words."""
        out = b""
        if self.mss is not None:
            out += struct.pack(">BBH", OPTION_MSS, 4, self.mss)
        if self.sack_ok:
            out += bytes((OPTION_SACK_OK, 2))
        if self.scale is not None:
            out += bytes((OPTION_SCALE, 3, self.scale))
        if self.timestamps is not None:
            out += struct.pack(">BBII", OPTION_TIMESTAMPS, 10, *self.timestamps)
        if self.sack:
            out += bytes((OPTION_SACK, 2 + 8 * len(self.sack)))
            out += b"".join(struct.pack(">II", *block) for block in self.sack)
        return out + bytes((OPTION_NOP,)) * (-len(out) % 4)

    @classmethod
    def decode(cls, data: bytes) -> TcpOptions:
        """Read option bytes.

        Raises:
            PacketError: an option of length 0 or 1, or one that runs past the header.
        """
        found = cls()
        order: list[int] = []
        at = 0
        while at < len(data) and data[at] != OPTION_END:
            kind = data[at]
            if kind == OPTION_NOP:
                at += 1
                continue
            length = data[at + 1] if at + 1 < len(data) else 0
            if length < 2 or at + length > len(data):
                raise PacketError(f"TCP option {kind} has length {length} at byte {at}")
            found._take(kind, data[at + 2 : at + length])
            order.append(kind)
            at += length
        found.order = tuple(order)
        return found

    def _take(self, kind: int, body: bytes) -> None:
        if kind == OPTION_MSS and len(body) == 2:
            self.mss = int.from_bytes(body, "big")
        elif kind == OPTION_SCALE and len(body) == 1:
            self.scale = min(body[0], 14)
        elif kind == OPTION_SACK_OK:
            self.sack_ok = True
        elif kind == OPTION_TIMESTAMPS and len(body) == 8:
            self.timestamps = struct.unpack(">II", body)
        elif kind == OPTION_SACK and len(body) % 8 == 0:
            self.sack = tuple(struct.iter_unpack(">II", body))
