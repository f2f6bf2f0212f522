"""The Gateway context of one shard: envelope parser, heartbeat, handshake (Discord's words)."""

from __future__ import annotations

import enum

from firmware.errors import Layer, site
from firmware.layouts.json import JsonParser
from firmware.limits import OUTBOUND_PAYLOAD_MAX
from toolchain.layout import Struct, bytes_, enum32, flags32, nested, u32, u64

LATE_ACK_MS = 10_000
"""A heartbeat ACK that took longer is warned about (case E9)."""


class GatewayState(enum.IntEnum):
    """Progress of the Gateway session on this connection."""

    IDLE = 0
    WAIT_HELLO = 1
    WAIT_READY = 2
    WAIT_RESUMED = 3
    READY = 4
    ANSWER = 5


class GatewayFlag(enum.IntFlag):
    """Bits of `GatewayContext.flags`."""

    ACK_PENDING = 1 << 0
    BEAT_OWED = 1 << 1
    TICKET_WAIT = 1 << 2
    """Identify could leave, but the fleet's ticket is not ours yet."""


class Op(enum.IntEnum):
    """Gateway opcodes that this node sends or acts on."""

    DISPATCH = 0
    HEARTBEAT = 1
    IDENTIFY = 2
    RESUME = 6
    RECONNECT = 7
    INVALID_SESSION = 9
    HELLO = 10
    HEARTBEAT_ACK = 11


class UrlFault(enum.IntEnum):
    """Why a URL is not used."""

    ABSENT = 1
    TOO_LONG = 2
    SCHEME = 3
    HOST = 4
    PORT = 5
    TARGET = 6
    FOREIGN = 7
    SECURITY = 8


OPS_KNOWN = Op.HEARTBEAT_ACK + 1
INTERVAL_MIN_MS, INTERVAL_MAX_MS = 1_000, 2_147_483_647
CLOSE_KEEPING_SESSION = 4000
"""Close code that leaves the session alive at the server (decision 24)."""
CLOSE_DESTROYING_SESSION = 1000
LATENCY_UNKNOWN = 0xFFFF_FFFF
OUTBOUND_OFFSET = 0x400


class GatewayContext(Struct):
    """Discord workspace of one shard."""

    SIZE = 0x1400
    state = enum32(0x00, GatewayState, "see GatewayState; ANSWER = Hello taken, nothing sent yet")
    heartbeat_interval_ms = u32(0x04, "from Hello; 0 before it")
    interval_cycles = u64(0x08, "the interval in TSC cycles")
    hb_next = u64(0x10, "TSC of the next scheduled heartbeat; 0 before Hello")
    hb_sent_at = u64(0x18, "TSC of the heartbeat whose ACK is pending")
    last_ack_at = u64(0x20, "TSC of the last ACK; 0 = none")
    last_frame_at = u64(0x28, "TSC of the last part of a message; 0 = none")
    latency_ms = u32(0x30, "last heartbeat to its ACK; LATENCY_UNKNOWN (all ones) = not measured")
    flags = flags32(0x34, GatewayFlag, "see GatewayFlag")
    seq_acked = u32(0x38, "sequence completely parsed and handed on (decision 23)")
    unknown_ops = u32(0x3C, "messages with an opcode that means nothing here")
    beats = u32(0x40, "heartbeats sent")
    acks = u32(0x44, "ACKs of pending heartbeats")
    seq_lower = u32(0x48, "replayed dispatches below the known sequence")
    message_bytes = u32(0x4C, "bytes of the message so far")
    parser = nested(0x80, JsonParser, "the message that arrives")
    outbound = bytes_(
        OUTBOUND_OFFSET, OUTBOUND_PAYLOAD_MAX, "the payload that is being written", align=16
    )


_G = Layer.GATEWAY
OP_MISSING = site(_G, 1, "op_missing", "op is not an unsigned integer")
SECOND_HELLO = site(_G, 2, "second_hello", "Hello after Hello")
HELLO_INTERVAL = site(_G, 3, "hello_interval", "heartbeat_interval is not 1000..2147483647")
SEQUENCE_FORM = site(_G, 4, "sequence_form", "s of a dispatch is not an integer below 2**32")
EVENT_NAME = site(_G, 5, "event_name", "t of a dispatch is not a string")
DISPATCH_EARLY = site(_G, 6, "dispatch_early", "a dispatch before READY while identifying")
READY_UNEXPECTED = site(_G, 7, "ready_unexpected", "READY when none was awaited")
RESUMED_UNEXPECTED = site(_G, 8, "resumed_unexpected", "RESUMED when none was awaited")
READY_SESSION = site(_G, 9, "ready_session", "session_id is missing, too long or not plain ASCII")
READY_SHARD = site(_G, 10, "ready_shard", "READY is for another shard, or names none")
SEQUENCE_BACK = site(_G, 11, "sequence_back", "s of a dispatch is lower than one before")
DISPATCH_MALFORMED = site(
    _G, 12, "dispatch_malformed", "a dispatch that the node has to read and cannot"
)
HELLO_TIMEOUT = site(_G, 16, "hello_timeout", "no Hello within 10 s of the upgrade")
RESUME_TIMEOUT = site(_G, 17, "resume_timeout", "no RESUMED within 20 s of the Resume")
ZOMBIE = site(_G, 18, "zombie", "a heartbeat was not acknowledged within one interval")
RECONNECT = site(_G, 19, "reconnect", "the server asked for a reconnect (op 7)")
SESSION_INVALID = site(_G, 20, "session_invalid", "op 9; detail: 1 = the session may be resumed")
BEAT_UNSENT = site(_G, 21, "beat_unsent", "a heartbeat found no room within one interval")
