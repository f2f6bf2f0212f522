"""The diagnostics datagrams: a padded request, an answer that is never longer (decision 30)."""

from __future__ import annotations

from firmware.layouts.bus import LINKS, LinkState
from firmware.layouts.enrol import FINGERPRINT_BYTES
from firmware.layouts.fleet import HELD_MAX
from firmware.layouts.smbios import SERIAL_MAX, UUID_BYTES
from toolchain.layout import Global, Struct, array, bytes_, enum32, u8, u16, u32, u64

STATUS_REQUEST_MAGIC = 0x3151_4653
"""`SFQ1` in memory order."""
STATUS_REPLY_MAGIC = 0x3152_4653
"""`SFR1` in memory order."""
SHARD_HEAD_BYTES = 0x140
"""The lifecycle fields and the evidence at the start of ShardContext, sent as they are."""
AGE_UNKNOWN = 0xFFFF_FFFF


class StatusLink(Struct):
    """What an answer says of one link to NATS."""

    SIZE = 0x20
    state = enum32(0x00, LinkState, "how far it has come")
    error = u32(0x04, "why it went down last; 0 = it never did")
    ip = u32(0x08, "address of the server in use or tried last, as on the wire; 0 = none yet")
    port = u16(0x0C, "its port")
    version = u32(0x10, "as in BusLink; 0 = not known")
    ups = u32(0x14, "times that it came UP")
    failures = u32(0x18, "attempts in a row that did not come UP")
    denials = u32(0x1C, "what the server denied and stayed, since boot")


class HeldStatus(Struct):
    """What an answer says of one slot of the plan that the node has."""

    SIZE = 0x0C
    phase = u8(0x00, "HeldPhase; NONE = no slot")
    slot = u8(0x01, "which slot of the plan")
    shards = u8(0x02, "rows that exist for it")
    generation = u32(0x04, "of the grant")
    left_ms = u32(
        0x08, "until its hard stop; milliseconds; 0 = it has passed, or nothing is granted"
    )


class StatusReply(Struct):
    """Answer about the node and one slot. A request has this size, magic, nonce and slot filled."""

    SIZE = 0x370
    magic = u32(0x000, "STATUS_REQUEST_MAGIC or STATUS_REPLY_MAGIC")
    slot = u32(0x004, "index in the slot table")
    nonce = u64(0x008, "echoed")
    slots_used = u32(0x010, "rows in use; a slot beyond them answers with the node part alone")
    lease_expired = u32(0x014, "1 = all shard traffic is stopped")
    lease_generation = u64(0x018, "grant number")
    lease_deadline = u64(0x020, "TSC; 0 = enforcement off")
    now = u64(0x028, "TSC of the turn")
    cycles_per_ms = u64(0x030, "TSC cycles per millisecond; 0 = not calibrated")
    boot_tsc = u64(0x038, "TSC at the first instruction")
    turns = u64(0x040, "passes of the scheduler")
    global_total = u32(0x048, "shards of the whole bot")
    local_start = u32(0x04C, "first shard of this node")
    local_count = u32(0x050, "shards of this node")
    ip = u32(0x054, "our address, as on the wire")
    log_dropped = u64(0x058, "lines that found the log ring full")
    entropy_weak = u32(0x060, "1 = no hardware entropy was found")
    requests_bad = u32(0x064, "diagnostics requests that were refused")
    commands = u32(0x068, "control requests that were accepted")
    commands_bad = u32(
        0x06C, "control requests that were forged, damaged, old, of another boot or unknown"
    )
    boots = u32(0x070, "boots since power came")
    identified = u32(0x074, "Identifies sent in this window of the allowance, over resets")
    identify_allowance = u32(0x078, "how many it allows; 0 = no bound")
    crash_hold = u32(0x07C, "1 = held: three crashes in ten minutes")
    shard = bytes_(0x080, SHARD_HEAD_BYTES, "head of the slot's ShardContext", align=8)
    tcp_state = u32(0x1C0, "TcpState now")
    tls_state = u32(0x1C4, "TlsState now")
    ws_state = u32(0x1C8, "WsState now")
    gateway_state = u32(0x1CC, "GatewayState now")
    ack_age_ms = u32(0x1D0, "since the last heartbeat ACK; all ones = none yet")
    frame_age_ms = u32(0x1D4, "since the last Gateway message; all ones = none yet")
    heartbeat_interval_ms = u32(0x1D8, "from Hello; 0 = none yet")
    latency_ms = u32(0x1DC, "last heartbeat round trip; all ones = unknown")
    stop_phase = u32(0x1E0, "StopPhase of the node")
    tasks = u32(0x1E4, "Task bits of the shard: what still runs for it")
    plan_generation = u32(0x1E8, "counts the plans of this boot, from 1")
    plan_moves = u32(0x1EC, "moves in the last hour")
    leaving = u32(0x1F0, "shards that give their place up")
    recommended = u32(0x1F4, "as in Moves")
    tls_anchor = u64(0x1F8, "as in TlsContext; 0 = plain, or nothing is verified yet")
    tls_suite = u32(0x200, "Suite; 0 = none yet")
    tls_group = u32(0x204, "Group; 0 = none yet")
    tls_key = u32(0x208, "KeyKind of the server; counts with the anchor")
    entropy_sources = bytes_(0x20C, 4, "SourceState of each EntropySource", align=4)
    fleet = u32(0x210, "1 = the node is part of a fleet; then `links` and what it holds count")
    links = array(0x218, StatusLink, LINKS, "CONTROL, then DATA")
    uuid = bytes_(0x280, UUID_BYTES, "as in Smbios; zeros = not known", align=8)
    serial = bytes_(0x290, SERIAL_MAX, "as in Smbios, then zeros", align=8)
    token_known = u32(0x2D0, "1 = the node has the bot's token; without it no shard starts")
    enrol_state = u32(0x2D4, "EnrolState")
    enrol_refused = u32(0x2D8, "answers to its announcements that were refused")
    enrol_error = u32(0x2DC, "why the last one was, or why it cannot enrol; 0 = none was")
    fingerprint = bytes_(0x2E0, FINGERPRINT_BYTES, "of the key pair of this boot", align=8)
    fleet_watch = u8(0x2E8, "WatchState")
    fleet_plan = u8(0x2E9, "PlanMode of the newest plan")
    fleet_closing = u8(0x2EA, "1 = it claims nothing any more")
    fleet_epoch = u32(0x2EC, "of the newest plan")
    fleet_error = u32(0x2F0, "why the last watch ended; an error")
    fleet_held = array(0x2F4, HeldStatus, HELD_MAX, "what the node has")
    sessions_taken = u32(0x354, "sessions taken from the store of the fleet")
    sessions_saved = u32(0x358, "records of sessions written there")
    sessions_refused = u32(0x35C, "writes of them that were refused")
    sessions_late = u32(0x360, "requests for them that nobody answered in time")
    sessions_lost = u32(0x364, "shards whose record a later lease has written")
    sessions_ignored = u32(0x368, "records whose session was not taken")


class Diagnostics(Struct):
    """Counters of the diagnostics service."""

    SIZE = 0x10
    requests = u32(0x00, "answered")
    bad = u32(0x04, "refused: too short, wrong magic")


DIAGNOSTICS = Global("diagnostics", Diagnostics, "counters of the diagnostics service")
