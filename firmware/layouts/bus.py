"""NATS as the node speaks it: two connections, and the message that is in hand."""

from __future__ import annotations

import enum

from firmware.layouts.ed25519 import ED25519_BYTES, Ed25519Key
from firmware.layouts.fleet_config import CREDENTIAL_MAX, NAME_MAX, NKEY_PUBLIC_BYTES
from firmware.layouts.text import ESCAPED_MAX
from firmware.limits import RECEIVE_MSS, RING_BYTES, SHARDS_MAX
from toolchain.asm.operands import Region
from toolchain.layout import (
    Global,
    Struct,
    array,
    bytes_,
    enum8,
    enum32,
    nested,
    ptr,
    u8,
    u16,
    u32,
    u64,
)
from toolchain.layout.data import constant


class LinkName(enum.IntEnum):
    """What a link carries: leases, tickets and sessions; events, logs and commands."""

    CONTROL = 0
    DATA = 1


CONTROL, DATA = LinkName
LINKS = len(LinkName)
LINK_SLOTS = (SHARDS_MAX - 1, SHARDS_MAX - 2)
"""The workspace of each link: those slots hold no shard while the node is part of a fleet."""
FLEET_SHARDS_MAX = SHARDS_MAX - LINKS
NONCE_MAX = 64
SIGNATURE_BYTES = 2 * ED25519_BYTES
NODE_NAME_BYTES = len("n0123456789ab")
NODE_TEXT_MAX = NAME_MAX
"""`n` and twelve hexadecimal digits, or what the operator chose."""
INBOX_SID = 1
"""Every link subscribes to its inbox first."""
FIRST_SID = 2
"""Subscriptions of upper layers count from here."""
LINE_MAX = 16 * 1024
"""Bytes of a line: INFO lists every server of a cluster."""
MESSAGE_MAX = RING_BYTES - RECEIVE_MSS
"""Bytes of a message with its line: the window moves by whole segments, so this much always fits."""
SKIPPED_MAX = 64 * 1024 * 1024
"""Bytes of a message that is stepped over: the largest `max_payload` of a server."""
ASIDE_CHUNK = RECEIVE_MSS
"""Bytes that are moved at once behind what was laid aside, which is less than MESSAGE_MAX."""
TOKENS_MAX = 5
"""Of the line before a message: subject, subscription, reply, bytes of headers, bytes of all."""

# Times, milliseconds.
ATTEMPT_MS = 15_000
"""From the dial to PONG; a handshake of TLS alone has ten seconds."""
WORD_MS = 3_000
"""From the dial to the server's first byte: one that stands still takes connections and says nothing."""
PING_AFTER_MS = (1_250, 5_000)
"""Silence on CONTROL and on DATA after which the node asks by PING."""
SILENT_MS = (2_500, 10_000)
"""Silence after which the link is given up."""
RETRY_MIN_MS, RETRY_SPREAD_MS, RETRY_MAX_MS = 50, 201, 2_000
"""The first retry comes after 50 to 250 ms, each further one after twice as long, at most 2 s."""
RETRY_DOUBLINGS = 4
REFUSED_MS = 10_000
"""Between attempts that only the operator can help."""
IDLE_MS = 100
"""How soon a link looks again for an address of the node's own."""

CLUSTER_VERSION_LEAST = 2 << 16 | 9 << 8 | 21
"""An older cluster lets several nodes win one compare-and-swap (nats-server issue 4320)."""


class LinkState(enum.IntEnum):
    """How far a link has come."""

    DOWN = 0
    RESOLVE = 1
    CONNECT = 2
    INFO = 3
    TLS = 4
    HELLO = 5
    """CONNECT, the inbox and PING are sent; PONG is awaited."""
    UP = 6


class Verb(enum.IntEnum):
    """The word that begins a line of the server; from MSG on a message follows."""

    NONE = 0
    PING = 1
    PONG = 2
    OK = 3
    INFO = 4
    ERR = 5
    MSG = 6
    HMSG = 7


class BusKind(enum.IntEnum):
    """What `bus_next` found."""

    NONE = 0
    MESSAGE = 1


class BusLink(Struct):
    """One connection to NATS."""

    SIZE = 0x100
    state = enum32(0x00, LinkState, "how far it has come")
    context = ptr(0x08, "its workspace, a ShardContext that is no shard; 0 = the node has no fleet")
    server = u32(0x10, "index in FleetConfig.servers of the server in use or tried next")
    failures = u32(0x14, "attempts in a row that did not come UP")
    next_try = u64(0x18, "TSC before which it is not dialled")
    last_rx = u64(0x20, "TSC when bytes came last, or when it was dialled")
    denied = u32(0x28, "what the server denied last and stayed; an error; 0 = nothing")
    denials = u32(0x2C, "how often it did, since boot")
    ups = u32(0x30, "times that it came UP; another number = what was subscribed is gone")
    error = u32(0x34, "why it went down last: layer << 24 | site << 16 | detail; 0 = it never did")
    inbox_next = u32(0x38, "number of the last request")
    version = u32(0x3C, "server: major << 16 | minor << 8 | patch; 0 = not known")
    max_payload = u32(0x40, "server: largest headers and body together; bytes")
    clustered = u8(0x44, "server: 1 = it is one of several")
    lame_duck = u8(0x45, "server: 1 = it is about to stop")
    index = u8(0x46, "CONTROL or DATA")
    nonce_len = u8(0x47, "bytes; 0 = INFO had none")
    message_bytes = u32(0x48, "bytes in the ring of the message in hand; 0 = none is")
    skip = u32(
        0x4C, "bytes behind it of a message that does not fit into the ring; they are left out"
    )
    received = u64(0x50, "messages since boot")
    sent = u64(0x58, "messages since boot")
    nonce = bytes_(0x60, NONCE_MAX, "what INFO asks to sign, ASCII", align=8)
    out = ptr(0xA0, "where the text begins that is being written")
    attempt_deadline = u64(0xA8, "TSC when the attempt is given up")
    rx_seen = u32(0xB0, "TcpContext.rcv_nxt when it was looked at last")
    told = u32(0xB4, "error that the log told last; 0 = it came UP since")
    informed = u8(0xB8, "1 = INFO came on this connection")
    tls_required = u8(0xB9, "server: 1 = it talks to nobody without TLS")
    tls_available = u8(0xBA, "server: 1 = it can do TLS")
    headers = u8(0xBB, "server: 1 = messages may have headers")
    wanted = u8(0xBC, "1 = somebody waits for a gap: no publication begins before")
    pong_owed = u8(0xBD, "1 = a PING is not answered yet, for want of room")
    asked = u8(0xBE, "1 = our PING is not answered yet")
    midway = u8(0xBF, "1 = a message of ours has left in part: nothing else may be said")
    aside = u32(
        0xC0, "bytes of a message or line that is put together beside the ring; 0 = none is"
    )


class BusMessage(Struct):
    """The message in hand; pointers lead into the link's ring and hold until `bus_done`."""

    SIZE = 0x50
    subject = ptr(0x00, "first byte")
    reply = ptr(0x08, "first byte")
    header = ptr(0x10, "first byte of the header block, `NATS/1.0...`")
    body = ptr(0x18, "first byte")
    subject_len = u32(0x20, "bytes")
    reply_len = u32(0x24, "bytes; 0 = no answer is wanted")
    header_len = u32(0x28, "bytes; 0 = none")
    body_len = u32(0x2C, "bytes")
    sid = u32(0x30, "subscription")
    inbox = u32(0x34, "with INBOX_SID: number of the request that it answers")
    status = u16(0x38, "of the header's first line; 0 = none")
    kind = enum8(0x3A, BusKind, "whether there is a message in hand")
    unreadable = u32(0x3C, "site: why it has neither header nor body; 0 = it is whole")


class Token(Struct):
    """One word of a line."""

    SIZE = 0x10
    text = ptr(0x00, "first byte")
    length = u32(0x08, "bytes")


class Bus(Struct):
    """Both links and the node's name in subjects."""

    SIZE = 0x100 + LINKS * BusLink.SIZE
    boot = u32(0x00, "random, another one each boot; eight hexadecimal digits in subjects")
    node_len = u8(0x04, "bytes")
    enrolling = u8(0x05, "1 = the node has no token yet: its inboxes begin with `_E.`, not `_I.`")
    node = bytes_(0x10, NODE_TEXT_MAX, "the node's name as a token of subjects", align=8)
    boot_text = bytes_(0x30, 8, "`boot` as it is written", align=8)
    tokens = array(0x40, Token, TOKENS_MAX, "of the line that is being read")
    digits = bytes_(0x90, 0x20, "a number that is being written, to know its length", align=8)
    links = array(0x100, BusLink, LINKS, "CONTROL, then DATA")


class BusAside(Struct):
    """Where a link lays aside what it cannot use before the next record of TLS."""

    SIZE = RING_BYTES
    text = bytes_(0x00, RING_BYTES, "the first bytes that are not read yet", align=8)


class BusAsides(Struct):
    """Those of both links."""

    SIZE = LINKS * BusAside.SIZE
    links = array(0x00, BusAside, LINKS, "CONTROL, then DATA")


class BusLogin(Struct):
    """Work space of a login by nkey; wiped when the signature is made."""

    SIZE = 0x100
    key = nested(0x00, Ed25519Key, "the private key made of the seed")
    signature = bytes_(0x60, SIGNATURE_BYTES, "of the nonce", align=8)


INFO_TEXT = Region("INFO", "one line in the receive ring")
BUS_LINE = Region("a line of NATS", "in the receive ring or aside, bounded by what is readable")

PING_TEXT = constant("bus_text_ping", b"PING\r\n", "asks whether the server is there")
PONG_TEXT = constant("bus_text_pong", b"PONG\r\n", "answers PING")
CONNECT_TEXT = constant(
    "bus_text_connect",
    b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,'
    b'"protocol":1,"lang":"shardfw","name":"',
    "before the node's name",
)
USER_TEXT = constant("bus_text_user", b'","user":"', "before the user's name")
PASSWORD_TEXT = constant("bus_text_password", b'","pass":"', "before the password")
NKEY_TEXT = constant("bus_text_nkey", b'","nkey":"', "before the public key")
SIGNATURE_TEXT = constant("bus_text_signature", b'","sig":"', "before the signature of the nonce")
SUBSCRIBE_TEXT = constant("bus_text_subscribe", b'"}\r\nSUB ', "before the inbox")
INBOX_TEXT = constant("bus_text_inbox", b"_I.", "what every inbox begins with")
ENROL_LETTER = "E"
ENROL_TEXT = constant(
    "bus_text_enrol", f"_{ENROL_LETTER}.".encode(), "instead of that while the node enrols"
)
"""Another name, so that a login that may enrol and nothing else hears no other node's answers."""
INBOX_END_TEXT = constant("bus_text_inbox_end", b"* %d\r\nPING\r\n" % INBOX_SID, "behind the inbox")
FIRST_LETTER = ord("c")
"""Of CONTROL, as a token of its inbox; DATA has the next one."""
INBOX_MAX = INBOX_TEXT.size + NAME_MAX + len(".12345678.c.4294967295")
HELLO_MAX = (
    sum(
        text.size
        for text in (CONNECT_TEXT, USER_TEXT, PASSWORD_TEXT, NKEY_TEXT, SIGNATURE_TEXT,
                     SUBSCRIBE_TEXT, INBOX_END_TEXT)
    )
    + NAME_MAX + 2 * ESCAPED_MAX * CREDENTIAL_MAX + NKEY_PUBLIC_BYTES
    + 4 * (SIGNATURE_BYTES + 2) // 3 + INBOX_MAX
)  # fmt: skip
"""Room that a login is given, whatever it holds."""

BUS_LOGIN = Global("bus_login", BusLogin, "work space of a login by nkey", align=64)
BUS_ASIDE = Global("bus_aside", BusAsides, "what the links have laid aside", align=64)
BUS = Global("bus", Bus, "the links to NATS", align=64)
BUS_IN = Global("bus_in", BusMessage, "the message in hand", align=64)
