"""Wire headers, the ARP table, DHCP and DNS state, and a counter for every frame that is dropped."""

from __future__ import annotations

import enum

from toolchain.asm import Region
from toolchain.layout import (
    Global,
    Struct,
    array,
    be16,
    be32,
    bytes_,
    enum32,
    nested,
    ptr,
    u8,
    u16,
    u32,
    u64,
)
from toolchain.layout.fields import Field16, Field32

ETHERNET_HEADER = 14
TAG_BYTES = 4
IP_HEADER = 20
UDP_HEADER = 8
PAYLOAD_OFFSET = ETHERNET_HEADER + IP_HEADER
"""Where an IPv4 payload starts in a frame of ours."""
PROTOCOL_ICMP, PROTOCOL_TCP, PROTOCOL_UDP = 1, 6, 17
BROADCAST = 0xFFFF_FFFF
TTL = 64
FIRST_PORT = 49152
"""RFC 6335 6: the dynamic ports."""


def raw16(offset: int, doc: str) -> Field16[int]:
    """Declare an unaligned word that is kept as loaded (checksums)."""
    return Field16(offset, 2, doc, align=1)


def address(offset: int, doc: str) -> Field32[int]:
    """Declare an unaligned IPv4 address, as loaded from the wire."""
    return Field32(offset, 4, doc, align=1)


def swapped(value: int) -> int:
    """Return a 16-bit constant as a little-endian load of its wire bytes shows it."""
    return int.from_bytes(value.to_bytes(2, "big"), "little")


class EtherType(enum.IntEnum):
    """What a frame carries."""

    IPV4 = 0x0800
    ARP = 0x0806
    TAG = 0x8100


class EthernetHeader(Struct):
    """IEEE 802.3."""

    SIZE = ETHERNET_HEADER
    destination = bytes_(0x00, 6, "who shall take it")
    source = bytes_(0x06, 6, "who sent it")
    kind = be16(0x0C, "EtherType")


class Tag(Struct):
    """IEEE 802.1Q, after the addresses."""

    SIZE = 8
    kind = be16(0x00, "EtherType.TAG")
    control = be16(0x02, "priority and VID; VID 0 only tells a priority")
    inner = be16(0x04, "EtherType of what follows")


class ArpPacket(Struct):
    """RFC 826 for IPv4 over Ethernet."""

    SIZE = 28
    hardware = be16(0x00, "1 = Ethernet")
    protocol = be16(0x02, "EtherType.IPV4")
    hardware_bytes = u8(0x04, "6")
    protocol_bytes = u8(0x05, "4")
    operation = be16(0x06, "1 = request, 2 = reply")
    sender_mac = bytes_(0x08, 6, "Ethernet address of the sender")
    sender_ip = address(0x0E, "its IPv4 address")
    target_mac = bytes_(0x12, 6, "unknown in a request")
    target_ip = address(0x18, "who is meant")


class Ipv4Header(Struct):
    """RFC 791."""

    SIZE = IP_HEADER
    version = u8(0x00, "version 4 and header words")
    service = u8(0x01, "DSCP and ECN")
    total = be16(0x02, "bytes of header and payload")
    ident = be16(0x04, "for fragments")
    fragment = be16(0x06, "flags and offset")
    ttl = u8(0x08, "hops left")
    protocol = u8(0x09, "PROTOCOL_*")
    checksum = raw16(0x0A, "of the header")
    source = address(0x0C, "who sent it")
    destination = address(0x10, "whom it is for")


class IcmpHeader(Struct):
    """RFC 792."""

    SIZE = 8
    kind = u8(0x00, "8 = echo request, 0 = echo reply")
    code = u8(0x01, "0")
    checksum = raw16(0x02, "of the message")


class UdpHeader(Struct):
    """RFC 768."""

    SIZE = UDP_HEADER
    source = be16(0x00, "port")
    destination = be16(0x02, "port")
    length = be16(0x04, "bytes of header and payload")
    checksum = raw16(0x06, "0 = none")


class NetCounters(Struct):
    """Why frames were dropped or not sent, and how often; wraps at 2**32."""

    SIZE = 0x80
    short_frames = u32(0x00, "too short for what they claim to be")
    not_for_us = u32(0x04, "other Ethernet addresses, multicast")
    tagged = u32(0x08, "frames of a VLAN")
    other_types = u32(0x0C, "neither IPv4 nor ARP")
    arp_bad = u32(0x10, "no IPv4 over Ethernet, or an impossible sender")
    arp_conflicts = u32(0x14, "somebody else claims our address")
    arp_others = u32(0x18, "not about us and from nobody we talk to")
    ip_headers = u32(0x1C, "version, header length or total length")
    ip_checksums = u32(0x20, "header damaged")
    ip_fragments = u32(0x24, "fragments; never accepted")
    ip_sources = u32(0x28, "impossible senders")
    ip_others = u32(0x2C, "for another address")
    ip_protocols = u32(0x30, "neither ICMP, UDP nor TCP, or not to one address")
    icmp_bad = u32(0x34, "damaged or short")
    icmp_others = u32(0x38, "anything but an echo request")
    udp_bad = u32(0x3C, "length or checksum")
    udp_ports = u32(0x40, "nobody listens")
    dhcp_bad = u32(0x44, "no answer of a DHCP server to us")
    dhcp_others = u32(0x48, "not what we wait for: xid, server, address or state")
    tx_unresolved = u32(0x4C, "next hop not known yet")
    tx_no_buffer = u32(0x50, "no transmit buffer")
    tx_no_address = u32(0x54, "no address of our own, or none to send to")
    arp_requests = u32(0x58, "requests sent")
    arp_replies = u32(0x5C, "replies sent")
    echo_replies = u32(0x60, "pings answered")
    answers_held = u32(0x64, "questions beyond what a turn answers")


ANSWERS_PER_TURN = 16
"""Echo and status replies; the other transmit buffers of a turn are the shards'."""


class NetState(Struct):
    """What the layer remembers between routines."""

    SIZE = 0x100
    tx_frame = ptr(0x00, "the frame between ip_begin and ip_finish")
    rx_frame = ptr(0x08, "the frame that net_input looks at")
    next_check = u64(0x10, "TSC when link and neighbours are looked at")
    ident = u16(0x18, "IPv4 identification of the last packet")
    counters = nested(0x20, NetCounters, "drops by reason")
    answers_at = u64(0xA0, "core.now of the turn that `answers` counts")
    answers = u32(0xA8, "echo and status replies in that turn")


# -- ARP ------------------------------------------------------------------------------------------
ARP_ENTRIES = 16
ARP_LIFE_MS = 60_000
ARP_REFRESH_MS = 30_000
"""An entry of this age is asked for again while it still serves."""
ARP_RETRY_MS = 1000
"""RFC 1122 2.3.2.1: at most one request a second for one address."""
CHECK_MS = 500
"""How often link and the router's entry are looked at."""


class ArpState(enum.IntEnum):
    """Whether an entry may be used."""

    FREE = 0
    ASKING = 1
    KNOWN = 2


class ArpEntry(Struct):
    """One neighbour that we send to. Strangers make no entries."""

    SIZE = 0x28
    ip = u32(0x00, "its address")
    state = enum32(0x04, ArpState, "see ArpState")
    mac = bytes_(0x08, 6, "its Ethernet address, when KNOWN", align=2)
    expires = u64(0x10, "TSC when KNOWN ends")
    asked = u64(0x18, "TSC of the last request; 0 = none yet")
    used = u64(0x20, "TSC of the last use; the oldest goes first")


class ArpTable(Struct):
    """The neighbours."""

    SIZE = ArpEntry.SIZE * ARP_ENTRIES
    entries = array(0x00, ArpEntry, ARP_ENTRIES, "the neighbours, in no order")


# -- DHCP -----------------------------------------------------------------------------------------
DHCP_FIXED = 236
DHCP_OPTIONS_AT = 240
DHCP_MESSAGE = 300
"""Bytes of our messages: what old relays expect at least."""
DHCP_COOKIE = 0x6353_8263
"""99.130.83.99 as loaded."""
DHCP_SERVER_PORT, DHCP_CLIENT_PORT = 67, 68
DHCP_TRIES = 4
"""REQUESTs without an answer before a new DISCOVER."""
DHCP_BACKOFF_MAX = 6
"""The longest wait is 2**6 = 64 s."""
LEASE_MIN_S = 30
LEASE_DEFAULT_S = 3600
LEASE_MAX_S = 1 << 28
RENEW_MIN_MS = 60_000
"""RFC 2131 4.4.5."""


class DhcpState(enum.IntEnum):
    """RFC 2131 figure 5; OFF with a static address."""

    OFF = 0
    SELECTING = 1
    REQUESTING = 2
    BOUND = 3
    RENEWING = 4
    REBINDING = 5


class DhcpType(enum.IntEnum):
    """Option 53."""

    DISCOVER = 1
    OFFER = 2
    REQUEST = 3
    ACK = 5
    NAK = 6


class DhcpMessage(Struct):
    """RFC 2131 section 2."""

    SIZE = DHCP_OPTIONS_AT
    op = u8(0x00, "1 = from us, 2 = to us")
    hardware = u8(0x01, "1 = Ethernet")
    hardware_bytes = u8(0x02, "6")
    hops = u8(0x03, "relays")
    xid = address(0x04, "of the exchange")
    seconds = be16(0x08, "since we began")
    flags = be16(0x0A, "0x8000 = answer by broadcast")
    ciaddr = address(0x0C, "our address when we have one")
    yiaddr = address(0x10, "the address for us")
    siaddr = address(0x14, "next server")
    giaddr = address(0x18, "relay")
    chaddr = bytes_(0x1C, 16, "our Ethernet address")
    sname = bytes_(0x2C, 64, "server name, or options")
    file = bytes_(0x6C, 128, "boot file, or options")
    cookie = address(0xEC, "DHCP_COOKIE")


class DhcpOption(enum.IntEnum):
    """Bits of `DhcpOptions.seen`, in the order of the option table."""

    TYPE = 0
    OVERLOAD = 1
    NETMASK = 2
    ROUTER = 3
    DNS1 = 4
    DNS2 = 5
    SERVER = 6
    LEASE = 7
    T1 = 8
    T2 = 9


class DhcpOptions(Struct):
    """The options of the message at hand; the first valid one of a kind counts."""

    SIZE = 0x30
    seen = u32(0x00, "bits by DhcpOption")
    type = u8(0x04, "DhcpType")
    overload = u8(0x05, "bit 0: options in file; bit 1: in sname")
    netmask = u32(0x08, "option 1")
    router = u32(0x0C, "first of option 3")
    dns1 = u32(0x10, "first of option 6")
    dns2 = u32(0x14, "second of option 6")
    server = u32(0x18, "option 54")
    lease = be32(0x1C, "option 51; seconds")
    t1 = be32(0x20, "option 58; seconds")
    t2 = be32(0x24, "option 59; seconds")


class OptionRow(Struct):
    """How one option is kept."""

    SIZE = 8
    code = u8(0x00, "RFC 2132 number")
    need = u8(0x01, "bytes it must have at least")
    source = u8(0x02, "where in the option the value starts")
    width = u8(0x03, "1 or 4 bytes")
    target = u8(0x04, "offset in DhcpOptions")


class Dhcp(Struct):
    """The client."""

    SIZE = 0x60
    state = enum32(0x00, DhcpState, "see DhcpState")
    xid = u32(0x04, "of the running exchange")
    offered = u32(0x08, "address of the chosen OFFER")
    server = u32(0x0C, "server of the chosen OFFER, or of the lease")
    attempt = u32(0x10, "messages of this state without an answer")
    next_at = u64(0x18, "TSC of the next message")
    t1_at = u64(0x20, "TSC when renewing starts; NEVER = a lease for ever")
    t2_at = u64(0x28, "TSC when rebinding starts")
    expires_at = u64(0x30, "TSC when the address is lost")
    begun = u64(0x38, "TSC when the exchange began")
    acks = u32(0x40, "leases taken")
    naks = u32(0x44, "refusals taken")


NET = Global("net", NetState, "the network layer")
ARP = Global("arp_table", ArpTable, "the neighbours")
DHCP = Global("dhcp", Dhcp, "the DHCP client")
DHCP_OPTIONS = Global("dhcp_options_found", DhcpOptions, "options of the message at hand")
WIRE = Region("a received packet", "bounded by the caller's length")
SUMS = Region("sums", "added by lea; no memory is touched")
OUT = Region("the frame being written", "FRAME_MAX bytes of a transmit buffer")
HARDWARE = Region("an Ethernet address", "six bytes")
