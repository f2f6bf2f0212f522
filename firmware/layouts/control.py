"""The control datagrams: authenticated commands, each with an answer that is never longer.

A request is a `ControlRequest`, its payload, padding, and a tag in the last 32 bytes; an answer a
`ControlReply`, its payload, and a tag. A tag is HMAC-SHA-256 over everything before it.
"""

from __future__ import annotations

import enum

from firmware.layouts.crypto import SHA256_DIGEST_BYTES
from toolchain.asm.operands import Region
from toolchain.layout import Global, Struct, bytes_, u16, u32, u64

CONTROL_REQUEST_MAGIC = 0x3151_4353
"""`SCQ1` in memory order."""
CONTROL_REPLY_MAGIC = 0x3152_4353
"""`SCR1` in memory order."""
CONTROL_VERSION = 1
CONTROL_LEAST, CONTROL_MOST = 0x80, 1400
"""Bytes of a request. The least holds every refusal; the most fits in one frame everywhere."""
CONTROL_TAG_BYTES = SHA256_DIGEST_BYTES
CONTROL_TRIES_PER_TURN = 8
"""Tags that are computed in one turn: heartbeats come before what strangers send."""


class ControlVerb(enum.IntEnum):
    """What a request asks for. A new verb is a member here and a row in the tables of handlers."""

    PING = 0
    LEASE_ARM = 1
    LEASE_RENEW = 2
    LEASE_EXPIRE = 3
    SEND = 4
    SUBSCRIBE = 5
    UNSUBSCRIBE = 6
    STOP = 7
    NODE_RELEASE = 8
    SESSION_OFFER = 9
    SESSION_TAKE = 10
    OWNER = 11
    PLAN = 12


class ControlResult(enum.IntEnum):
    """What became of an authenticated request."""

    DONE = 0
    BOOT = 1
    """It names another boot's nonce; nothing was done. The answer holds this boot's."""
    REPLAYED = 2
    """Its counter is not above the last one; nothing was done. The answer holds the last one."""
    VERSION = 3
    VERB = 4
    ARGUMENT = 5
    NO_CLOCK = 6
    LEASE_OVER = 7
    SEND_NOT_READY = 8
    SEND_RATE_LIMITED = 9
    SEND_TOO_LARGE = 10
    SEND_BAD_OP = 11
    SEND_BAD_BODY = 12
    """From SEND_NOT_READY on in the order of SendResult."""
    SEND_ORDER = 13
    """A part that does not follow the one before: another send began meanwhile."""
    LISTENERS_FULL = 14
    SESSION_UNWANTED = 15
    """The shard does not wait for a saved session."""
    SESSION_LIVE = 16
    """The shard may still use its session."""
    PLAN_REFUSED = 17
    """The value is a PlanRefusal."""
    FLEET = 18
    """It is a node of a fleet: leases of its slots decide, never an order to it alone."""


class ControlRequest(Struct):
    """The head of a request. The payload follows; the datagram's last 32 bytes are the tag."""

    SIZE = 0x28
    magic = u32(0x00, "CONTROL_REQUEST_MAGIC")
    version = u16(0x04, "CONTROL_VERSION")
    verb = u16(0x06, "ControlVerb")
    counter = u64(0x08, "above every earlier one; the sender's Unix time in microseconds")
    boot = u64(0x10, "nonce of the boot that is meant; 0 = not known yet")
    argument = u64(0x18, "what the verb says; 0 = none")
    slot = u32(0x20, "the shard of verbs about one, as the verb says: its slot or its number")
    length = u32(0x24, "bytes of payload")


class ControlReply(Struct):
    """The head of an answer. The payload follows, and right behind it the tag."""

    SIZE = 0x30
    magic = u32(0x00, "CONTROL_REPLY_MAGIC")
    version = u16(0x04, "CONTROL_VERSION of the node")
    result = u16(0x06, "ControlResult")
    counter = u64(0x08, "echoed")
    boot = u64(0x10, "nonce of this boot")
    last = u64(0x18, "the last counter that was accepted")
    value = u64(0x20, "what the verb says; 0 = nothing")
    length = u32(0x28, "bytes of payload")


CONTROL_REPLY_FRAME = ControlReply.SIZE + CONTROL_TAG_BYTES
"""Bytes of an answer without payload."""
CONTROL_FRAME = ControlRequest.SIZE + CONTROL_TAG_BYTES
"""Bytes of a request without payload and padding."""


class Control(Struct):
    """State of the channel; it lives as long as the boot."""

    SIZE = 0x680
    boot = u64(0x00, "random nonce of this boot; 0 = not drawn yet")
    last = u64(0x08, "the last counter that was accepted")
    accepted = u32(0x10, "authenticated requests of this boot with a new counter")
    bad = u32(0x14, "requests without an answer: length, tag, or no key configured")
    refused = u32(0x18, "authenticated requests that no handler saw: boot, counter, verb, lengths")
    held = u32(0x1C, "requests passed over because the turn had looked at enough")
    tries_at = u64(0x20, "TSC of the turn that `tries` counts")
    tries = u32(0x28, "tags computed in that turn")
    stored_length = u32(0x2C, "bytes of `stored`; 0 = none")
    asker = u32(0x30, "address that the request in hand came from, as on the wire")
    asker_port = u32(0x34, "its UDP port")
    tag = bytes_(0x40, CONTROL_TAG_BYTES, "tag of the last accepted request", align=8)
    made = bytes_(0x60, CONTROL_TAG_BYTES, "tag that the request in hand should have", align=8)
    refusal = bytes_(0x80, CONTROL_REPLY_FRAME, "the answer to a request that was refused", align=8)
    stored = bytes_(0x100, CONTROL_MOST, "the answer to the last accepted request", align=8)


CONTROL = Global("control", Control, "state of the control channel", align=64)
CONTROL_DATAGRAM = Region("a control datagram", "received UDP payload, bounded by its length")
CONTROL_PAYLOAD = Region("the payload of a control request", "bounded by ControlRequest.length")
CONTROL_ANSWER = Region("the payload of a control answer", "bounded by the room a handler is told")
