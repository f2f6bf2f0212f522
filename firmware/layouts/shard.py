"""One shard's workspace: the state pages that RBX points at, and the session outside the wipe."""

from __future__ import annotations

import enum

from firmware.layouts.events import EventStream
from firmware.layouts.gateway import GatewayContext
from firmware.layouts.profile import ProfileId
from firmware.layouts.refusal import PlanRefusal
from firmware.layouts.send import Pacer
from firmware.layouts.tcp import TcpContext
from firmware.layouts.tls import TlsContext, TlsKeys
from firmware.layouts.websocket import WebSocketContext
from firmware.limits import RESUME_HOST_MAX, SESSION_ID_MAX
from toolchain.layout import Struct, bytes_, enum8, enum32, flags32, nested, ptr, u8, u16, u32, u64


class ShardState(enum.IntEnum):
    """What the scheduler does next with a shard (seed A)."""

    ASSIGNED = 0
    STARTING = 1
    READY = 2
    BACKOFF = 3
    FATAL = 4


class Phase(enum.IntEnum):
    """How far an attempt has come, while STARTING."""

    NONE = 0
    RESOLVE = 1
    TCP = 2
    TLS = 3
    WS = 4
    HELLO = 5
    PERMIT = 6
    IDENT = 7
    REPLAY = 8


class Hold(enum.IntEnum):
    """Why a shard stays ASSIGNED."""

    NONE = 0
    NEW = 1
    NO_CLOCK = 2
    NO_LEASE = 3
    LEASE_EXPIRED = 4
    STOPPED = 5
    PLAN_CHANGED = 6
    NO_IDENT_BUDGET = 7
    NO_NETWORK = 8
    CRASH_LOOP = 9
    SESSION_LOAD = 10
    NO_TOKEN = 11


class End(enum.IntEnum):
    """Why the last attempt or connection ended."""

    NONE = 0
    CLOSED = 1
    HEARTBEAT_TIMEOUT = 2
    RECONNECT_REQUESTED = 3
    INVALID_SESSION = 4
    PROTOCOL = 5
    NETWORK = 6
    TIMEOUT = 7
    SEND_FAILED = 8
    TCP_FAILED = 9
    TLS_FAILED = 10
    LEASE_EXPIRED = 11
    DEFECT = 12
    CONFIG = 13
    CHALLENGED = 14


class Classification(enum.IntEnum):
    """What kind of error a failure is (seed B)."""

    NONE = 0
    NETWORK = 1
    PROTOCOL = 2
    CLOSED = 3
    AUTHENTICATION = 4
    RATE_LIMIT = 5
    TIMEOUT = 6
    LEASE = 7
    DEFECT = 8


class Stop(enum.IntEnum):
    """Why a shard does not try again."""

    NONE = 0
    REFUSED = 1
    AUTH = 2
    CONFIG = 3
    RESHARD = 4
    PROTOCOL_LIMIT = 5
    STARTUP_ATTEMPTS = 6
    STARTUP_DEADLINE = 7
    SCHEDULE_ENDED = 8
    DEFECT = 9


class NextStep(enum.IntEnum):
    """What the next attempt will do."""

    NONE = 0
    RESUME = 1
    IDENTIFY = 2


class Then(enum.IntEnum):
    """What comes next, as the record says it: the next step, and whether the peer wants a wait."""

    NOTHING = 0
    RESUME = 1
    IDENTIFY = 2
    WAIT_RESUME = 3
    WAIT_IDENTIFY = 4


class Gap(enum.IntEnum):
    """Whether events may be missing after a reconnect."""

    NONE = 0
    REPLAYED = 1
    POSSIBLE = 2
    PARTIAL = 3


class SessionLoad(enum.IntEnum):
    """Whether a saved session may still come."""

    OPEN = 0
    SETTLED = 1


class ShardFlag(enum.IntFlag):
    """Bits of `ShardContext.flags`."""

    SEQ_VALID = 1 << 0
    ESTABLISHED = 1 << 1
    LAST_CLOSE_KNOWN = 1 << 2
    RESUMED = 1 << 3
    NO_CLOCK_LOGGED = 1 << 4
    ACTIVE = 1 << 5
    STARTUP_OVER = 1 << 6
    RESTORED = 1 << 7


SEQUENCE_NONE = 0xFFFF_FFFF
SSES_VALID = 1


class Session(Struct):
    """What a Resume needs; lies outside the nine items that a reset wipes (seed A)."""

    SIZE = 0x200
    valid = u32(0x00, "SSES_VALID (1) when resumable, anything else not")
    session_id_len = u32(0x04, "bytes of session_id; 0 = none")
    resume_host_len = u32(0x08, "bytes of resume_host; 0 = dial the base host")
    resume_port = u16(0x0C, "TCP port of the resume host")
    unanswered_resumes = u16(
        0x0E, "Resumes in a row without RESUMED; dropped at three (decision 21)"
    )
    session_id = bytes_(0x10, SESSION_ID_MAX, "opaque, as READY gave it, no terminator")
    resume_host = bytes_(
        0x110, RESUME_HOST_MAX, "host of resume_gateway_url, no scheme, no terminator"
    )


class Evidence(Struct):
    """Why the last connection failed, copied before the wipe (decision 16)."""

    SIZE = 0x40
    error = u32(0x00, "last_error at the failure: layer << 24 | site << 16 | detail")
    tcp_state = u32(0x04, "TcpState at the failure")
    tls_state = u32(0x08, "TlsState at the failure")
    end = enum8(0x0C, End, "why it ended")
    phase = enum8(0x0D, Phase, "how far the attempt had come")
    close_code = u16(0x0E, "WebSocket close code; 0 = none")
    sequence = u32(0x10, "last Gateway s")
    delay_ms = u32(0x14, "delay until the next attempt; milliseconds")
    failed_at = u64(0x18, "TSC of the failure; 0 = no failure yet")
    connected_ms = u32(0x20, "how long the connection was READY; milliseconds")
    http_status = u16(0x24, "status of a refused upgrade; 0 = none")
    next_step = enum8(0x26, NextStep, "what the next attempt will do")
    lost = u8(0x27, "1 = the connection had been READY; 0 = an attempt failed")
    attempt = u32(0x28, "number of the attempt that ended")
    classification = enum8(0x2C, Classification, "what kind of error it is")
    stop = enum8(0x2D, Stop, "why there is no next attempt; NONE = there is one")
    then = enum8(0x2E, Then, "what comes next, as the record says it")
    established = u8(0x2F, "1 = the shard had been READY before")
    required_wait_ms = u32(0x30, "what the peer asked to wait; milliseconds; 0 = nothing")
    protocol_failures = u8(0x34, "protocol failures in a row without health between")
    recovery_step = u8(0x35, "step of the recovery policy that gave the delay")
    reported = enum8(0x36, Classification, "what the end is reported as; by its deadline another")
    sequence_valid = u8(0x37, "1 = `sequence` counts, as SEQ_VALID said")
    budget_ms = u32(0x38, "budget of the startup whose limit was met; milliseconds; 0 = none was")
    refusal = enum8(
        0x3C, PlanRefusal, "with the stop RESHARD: why the node does not move by itself"
    )
    tls_site = u8(0x3D, "number of the site when TLS failed; 0 = it did not")


class ShardContext(Struct):
    """The head of a workspace: lifecycle fields, then one context per layer. RBX points here."""

    SIZE = 0x2C00
    # Seed A's fields (decision 12).
    state = enum32(0x00, ShardState, "what the scheduler does next")
    flags = flags32(0x04, ShardFlag, "see ShardFlag")
    sequence = u32(0x08, "last Gateway s; counts only with SEQ_VALID; all ones after a wipe")
    phase = enum8(0x0C, Phase, "progress while STARTING")
    hold = enum8(0x0D, Hold, "why ASSIGNED")
    profile = enum8(0x0E, ProfileId, "the service")
    slot = u8(0x0F, "index in the slot table")
    reconnects = u64(0x10, "backoffs entered since boot, wraps at 2**64")
    reconnect_deadline = u64(0x18, "TSC; 0 = schedule the normal backoff now")
    session_ptr = ptr(0x20, "Session; 0 = none")
    # Identity and memory.
    shard_id = u32(0x28, "global shard number")
    shard_total = u32(0x2C, "global total")
    tx_base = ptr(0x30, "transmit buffer, TX_BYTES long")
    ring_base = ptr(0x38, "receive ring, RING_BYTES long, mapped twice in a row")
    # Progress.
    attempt_deadline = u64(0x40, "TSC when the attempt is given up; 0 = unset")
    phase_deadline = u64(0x48, "TSC when Hello or RESUMED is overdue; 0 = unset")
    close_deadline = u64(0x50, "TSC when a closing connection is reset; 0 = unset")
    connected_at = u64(0x58, "TSC of READY or RESUMED; 0 = not connected")
    disconnected_at = u64(0x60, "TSC of the failure; 0 = connected")
    attempts = u32(0x68, "attempts since boot")
    recovery_attempts = u32(0x6C, "attempts after the first READY (decision 17)")
    hb_misses = u32(0x70, "heartbeats whose ACK never came; cumulative")
    resumes = u32(0x74, "RESUMED received")
    identifies = u32(0x78, "Identify sent")
    last_error = u32(0x7C, "layer << 24 | site << 16 | detail; set before a state changes")
    failure = u32(0x80, "End that a layer asks the lifecycle to act on; 0 = none")
    failure_close = u16(0x84, "close code to send with it; 0 = none")
    peer_close = u16(0x86, "close code that the peer sent; 0 = none")
    failure_flags = u32(0x88, "see FailureFlag")
    plan_generation = u32(0x8C, "Plan.generation that made the shard")
    dispatches = u64(0x90, "op 0 received since boot")
    bytes_received = u64(0x98, "payload bytes since boot")
    attempt_started = u64(0xA0, "TSC when the attempt began to dial")
    permit_since = u64(0xA8, "TSC when the shard began to wait for its permit")
    recovery_step = u8(0xB0, "backoffs of the recovery policy since the last health, 0..31")
    protocol_failures = u8(0xB1, "protocol failures in a row without health between")
    resumable_invalid = u8(0xB2, "op 9 true in a row without READY or RESUMED")
    outage_ms = u32(0xB4, "from the loss to the next READY; the last one; milliseconds")
    required_wait_ms = u32(0xB8, "what the peer asked to wait, set with `failure`; 0 = nothing")
    gap_from = u32(0xBC, "last sequence before the last loss; counts unless `gap` is NONE")
    evidence = nested(0xC0, Evidence, "the last failure")
    rate_limited_at = u64(0x100, "TSC of the last close with 4008; 0 = none")
    connection = u32(0x108, "generation: dials so far; what belongs to another is dropped")
    gap = enum8(0x10C, Gap, "whether events may be missing since the last reconnect")
    unleased = u8(0x10D, "1 = a connection of the node's own: no lease silences it")
    hard_stop = u64(0x128, "TSC from which nothing leaves, in a fleet; 0 = none")
    load = enum8(0x2D0, SessionLoad, "whether a saved session may still come")
    saved = u8(0x2D1, "1 = the provider has the session, or nobody waits for it any more")
    held = u8(0x2D3, "place in `Fleet.held` + 1 of the slot that it belongs to; 0 = none")
    leaving = u8(0x2D2, "Leaving: whether it gives its place up")
    load_deadline = u64(0x2D8, "TSC until which a saved session is waited for; 0 = not yet")
    save_deadline = u64(0x2F0, "TSC until which the session of a shard that left waits to be taken")
    restored_endpoint = bytes_(0x2E0, 16, "digest of where a restored session belongs", align=8)
    malformed = u32(0x110, "dispatches since boot that could not be read")
    hole_first = u32(
        0x120, "first sequence that may be missing since the last loss; 0 = none, or not known"
    )
    hole_last = u32(0x124, "last one of them; 0 = not known")
    user_id = u64(0x118, "the bot's own user id, from READY; 0 = not known, or no session")
    events = nested(0x300, EventStream, "what subscribers of raw dispatches are being told")
    # Layers, each wiped as a whole on reset.
    tcp = nested(0x400, TcpContext, "TCP page: control block and reliable queue")
    tls = nested(0x800, TlsContext, "TLS workspace")
    websocket = nested(0x880, WebSocketContext, "WebSocket workspace")
    gateway = nested(0xC00, GatewayContext, "Discord workspace: parser, heartbeat")
    # Outside that run; the keys are erased by themselves.
    session = nested(0x2000, Session, "what session_ptr points at when a session exists")
    tls_keys = nested(0x2200, TlsKeys, "secrets of the connection; erased with it")
    pacer = nested(0x2B00, Pacer, "what the application sent in the last minute")


class FailureFlag(enum.IntFlag):
    """Bits of `ShardContext.failure_flags`: what the failure asks beyond a reconnect."""

    RESET_SESSION = 1 << 0
    FATAL = 1 << 1
    WAIT = 1 << 2
    RESHARD = 1 << 3
    ANOMALY = 1 << 4
    RESET_IN_REPLAY = 1 << 5
    CONFIG = 1 << 6
    UNTAKEN = 1 << 7
    """The stream had no room for the shard's dispatches, or did not take one: the Resume does not count."""
