"""NATS as the node speaks it: two connections, and the message that is in hand."""

from __future__ import annotations

import enum

from firmware.layouts.fleet_config import NAME_MAX
from firmware.limits import SHARDS_MAX
from toolchain.layout import Global, Struct, array, bytes_, enum8, enum32, ptr, u8, u16, u32, u64

CONTROL, DATA = 0, 1
"""Index of a link: leases, tickets, sessions and commands; events and logs."""
LINKS = 2
LINK_SLOTS = (SHARDS_MAX - 1, SHARDS_MAX - 2)
"""The workspace of each link: those slots hold no shard while the node is part of a fleet."""
FLEET_SHARDS_MAX = SHARDS_MAX - LINKS
NONCE_MAX = 64
NODE_TEXT_MAX = NAME_MAX
"""`n` and twelve hexadecimal digits, or what the operator chose."""
INBOX_SID = 1
"""Every link subscribes to its inbox first."""
FIRST_SID = 2
"""Subscriptions of upper layers count from here."""
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
    last_rx = u64(0x20, "TSC when bytes came last")
    ping_at = u64(0x28, "TSC when our PING was sent; 0 = none is unanswered")
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
    received = u64(0x50, "messages since boot")
    sent = u64(0x58, "messages since boot")
    nonce = bytes_(0x60, NONCE_MAX, "what INFO asks to sign, ASCII", align=8)


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


class Bus(Struct):
    """Both links and the node's name in subjects."""

    SIZE = 0x80 + LINKS * BusLink.SIZE
    boot = u32(0x00, "random, another one each boot; eight hexadecimal digits in subjects")
    node_len = u8(0x04, "bytes")
    next_deadline = u64(0x08, "TSC when a link next wants to run")
    node = bytes_(0x10, NODE_TEXT_MAX, "the node's name as a token of subjects", align=8)
    boot_text = bytes_(0x30, 8, "`boot` as it is written", align=8)
    links = array(0x80, BusLink, LINKS, "CONTROL, then DATA")


BUS = Global("bus", Bus, "the links to NATS", align=64)
BUS_IN = Global("bus_in", BusMessage, "the message in hand", align=64)
