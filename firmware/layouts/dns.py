"""The DNS client: a few names with their addresses, and the message it reads (RFC 1035)."""

from __future__ import annotations

import enum

from toolchain.asm.operands import Region
from toolchain.layout import Global, Struct, array, be16, bytes_, enum32, u16, u32, u64

DNS_PORT = 53
DNS_ENTRIES = 4
DNS_NAME_MAX = 127
"""Longest name that is asked for; its bytes and a length fit one entry."""
DNS_TEXT_MAX = 253
"""RFC 1035 3.1: 255 in wire form."""
DNS_TRIES = 8
DNS_RETRY_MS = 1000
DNS_FAILED_MS = 5000
"""How long a failed name is not asked for again."""
DNS_TTL_MIN_S, DNS_TTL_MAX_S = 5, 3600
DNS_ANSWERS_MAX = 24
DNS_PASSES_MAX = 8
"""CNAMEs in a chain, whatever their order in the answer."""
TYPE_A, TYPE_CNAME, CLASS_IN = 1, 5, 1
RCODE_NAME_ERROR = 3


MESSAGE = Region(
    "a DNS message", "received UDP payload; every offset is checked against its length"
)
NAME = Region("a name", "text with a checked length")


class DnsState(enum.IntEnum):
    """Progress of one name."""

    EMPTY = 0
    PENDING = 1
    FOUND = 2
    FAILED = 3


class DnsEntry(Struct):
    """One name."""

    SIZE = 0xC0
    state = enum32(0x00, DnsState, "progress")
    address = u32(0x04, "as on the wire; counts when FOUND")
    expires = u64(0x08, "TSC after which FOUND or FAILED no longer counts")
    retry_at = u64(0x10, "TSC when a PENDING question is asked again")
    tries = u32(0x18, "questions sent")
    server = u32(0x1C, "server that was asked last, as on the wire")
    id = u16(0x20, "of the last question; random")
    port = u16(0x22, "our UDP port for it; random")
    name_len = u32(0x24, "bytes of name")
    name = bytes_(0x28, 128, "as asked, no terminator")


class Dns(Struct):
    """The cache and the work space of the parser."""

    SIZE = 0x700
    answers = u32(0x00, "messages that were believed")
    refused = u32(0x04, "messages that matched a question but were malformed")
    strays = u32(0x08, "messages that matched no question")
    next_victim = u32(0x0C, "entry that is given up next when all are taken")
    ttl = u32(0x10, "smallest TTL of the chain; seconds")
    target_len = u32(0x14, "bytes of target")
    owner_len = u32(0x18, "bytes of owner")
    entries = array(0x40, DnsEntry, DNS_ENTRIES, "names")
    target = bytes_(0x400, 256, "name whose address is wanted: lower case, dotted")
    owner = bytes_(0x500, 256, "name of the record being looked at")


class DnsHeader(Struct):
    """RFC 1035 4.1.1."""

    SIZE = 12
    id = be16(0, "echoed")
    flags = be16(2, "QR, opcode, AA, TC, RD, RA, RCODE")
    questions = be16(4, "entries in the question section")
    answers = be16(6, "records in the answer section")
    authorities = be16(8, "records in the authority section")
    additionals = be16(10, "records in the additional section")


DNS = Global("dns", Dns, "the DNS client")
