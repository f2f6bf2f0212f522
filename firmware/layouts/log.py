"""The log: every line that the node can write, declared once, and the ring that holds them.

`firmware/layouts/log_line.py` tells how to add a line.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from firmware.layouts.bus import LinkName
from firmware.layouts.control import ControlResult
from firmware.layouts.enrol import REASONS as ENROL_REASONS
from firmware.layouts.entropy import EntropySource, SourceState
from firmware.layouts.events import Stuck
from firmware.layouts.fleet import PlanMode, RecordKind, SlotState, WatchState
from firmware.layouts.fleet_config import BusAuth
from firmware.layouts.fleet_sites import REASONS as FLEET_REASONS
from firmware.layouts.gateway import GatewayContext, UrlFault
from firmware.layouts.handover import HandoverProblem
from firmware.layouts.json import T_MAX, JsonField, JsonParser
from firmware.layouts.log_line import (
    DEC,
    DECLARED,
    HEX,
    IP,
    MS,
    Kind,
    Level,
    LogCode,
    Render,
    build_templates,
    code,
    fixed,
    known,
    names,
    of,
    texts,
)
from firmware.layouts.policy import OnMalformed
from firmware.layouts.refusal import PlanRefusal
from firmware.layouts.sentences import (
    BUDGET,
    CLASSIFICATIONS,
    CLOSES,
    COMES_NEXT,
    ENDS,
    ENDS_REST,
    GAPS,
    HAPPENED,
    LOST,
    MODES,
    NEXT,
    OTHER_BUDGET,
    OTHER_CLOSE,
    OTHER_STATUS,
    PHASES,
    READY_TEXT,
    REASONS,
    REFUSED_BECAUSE,
    STAGES,
    STATUSES,
    TLS_BECAUSE,
)
from firmware.layouts.sessions import SessionProblem
from firmware.layouts.shard import Evidence, Hold, Phase, ShardContext, ShardFlag, ShardState, Stop
from firmware.layouts.stop import StopReason
from firmware.layouts.survivor import HoldEnd
from firmware.layouts.tcp import TcpState
from firmware.layouts.tls import TlsState
from firmware.layouts.variants import Family, Variant
from toolchain.layout import Data, Global, Struct, enum8, u32, u64
from toolchain.layout.data import constant

if TYPE_CHECKING:
    from toolchain.layout.fields import Field


# -- the lines, by layer --------------------------------------------------------------------------
NIC_FAILED = code("nic.failed", Level.ERROR, error=HEX, pci=HEX)
BOOT_STARTED = code("boot.started", Level.INFO, pci=HEX, ram_kb=DEC, regions=DEC, image_kb=DEC)
BOOT_CLOCK = code("boot.clock", Level.INFO, khz=DEC, spread_ppm=DEC, sources=DEC, unix=DEC)
BOOT_NO_CLOCK = code("boot.no_clock", Level.ERROR, sources=DEC, spread_ppm=DEC, unix=DEC)
BOOT_ACK = code("boot.cached_ack", Level.INFO, address=IP, bytes=DEC)
BOOT_CRASHED = code("boot.crashed", Level.ERROR, vector=DEC, rip=HEX, crashes=DEC, address=HEX)
BOOT_READY = code("boot.ready", Level.INFO, free_pages=DEC, shards=DEC, watchdog=DEC)
BOOT_NO_CONFIG = code("boot.no_config", Level.ERROR, magic=HEX)
BOOT_NO_MEMORY = code("boot.no_memory", Level.ERROR, free_pages=DEC)
CPU_SHARD_FAULT = code("cpu.shard_fault", Level.ERROR, vector=DEC, rip=HEX, address=HEX, error=HEX)
CRYPTO_VARIANT_WRONG = code(
    "crypto.variantWrong", Level.WARN, family=names(Family), variant=names(Variant)
)
CRYPTO_BROKEN = code("crypto.broken", Level.ERROR, family=names(Family))
CRYPTO_HASHES = code("crypto.hashes", Level.INFO, sha256=names(Variant), sha512=names(Variant))
CRYPTO_CHOSEN = code(
    "crypto.chosen",
    Level.INFO,
    aes_gcm=names(Variant),
    x25519=names(Variant),
    p256=names(Variant),
    signatures=names(Variant),
)
TLS_STARTED = code("tls.started", Level.INFO, arenas=DEC, anchors=DEC)
BOOT_WARM = code("boot.warm", Level.INFO, boots=DEC, identified=DEC, since=DEC)
ENTROPY_FAILED = code("entropy.failed", Level.WARN, source=names(EntropySource))
ENTROPY_GATHERED = code(
    "entropy.gathered", Level.INFO,
    rdseed=names(SourceState), rdrand=names(SourceState), virtio_rng=names(SourceState),
)  # fmt: skip
NODE_CRASH_LOOP = code(
    "node.crash_loop", Level.ERROR, crashes=DEC, within_s=DEC, shards_held_until=names(HoldEnd)
)
NODE_RELEASED = code("node.released", Level.WARN, was_held=DEC)
IDENTIFY_SPENT = code("identify.spent", Level.WARN, used=DEC, allowance=DEC, next_in_s=DEC)
_APPLICATION = fixed("application")
"""Where a failure lies that is not the node's: in what the operator provides."""
_SEQUENCE = known(ShardContext.sequence, ShardContext.flags, ShardFlag.SEQ_VALID)
"""SEQ_VALID alone decides whether there is one (decision 12)."""
SESSION_RESTORED = code("lifecycle.sessionRestored", Level.INFO, ageMs=DEC, sequence=_SEQUENCE)
SESSION_IGNORED = code(
    "lifecycle.sessionSnapshotIgnored", Level.WARN, problem=names(SessionProblem), sequence=DEC
)
SESSION_LOAD_FAILED = code(
    "lifecycle.sessionLoadFailed", Level.ERROR, origin=_APPLICATION, timeoutMs=DEC
)
SESSION_SAVED = code("lifecycle.sessionSaved", Level.DEBUG, sequence=_SEQUENCE)
SESSION_SAVE_FAILED = code(
    "lifecycle.sessionSaveFailed",
    Level.ERROR,
    origin=_APPLICATION,
    sequence=_SEQUENCE,
)
IDENTIFY_REFUSED = code(
    "lifecycle.identifyPermitFailed", Level.ERROR, reason=names(Hold), used=DEC, allowance=DEC
)
SHARD_STATE = code(
    "shard.state", Level.INFO, state=names(ShardState), phase=names(Phase), hold=names(Hold)
)
SHARD_RETRY = code(
    "shard.reset", Level.DEBUG,
    reconnects=of(ShardContext.reconnects), sequence=_SEQUENCE,
)  # fmt: skip
SHARD_NO_CLOCK = code(
    "shard.no_clock", Level.ERROR, error=HEX, tcp=names(TcpState), tls=names(TlsState)
)
SHARD_HELD = code("shard.held", Level.WARN, hold=names(Hold), sequence=_SEQUENCE)
EVENTS_SUBSCRIBED = code("events.subscribed", Level.INFO, address=IP, port=DEC, place=DEC)
PUBLISH_REFUSED = code(
    "events.publishRefused", Level.ERROR, slot=DEC, sequence=DEC, status=DEC, error=DEC
)
PUBLISH_STUCK = code("events.publishStuck", Level.WARN, why=names(Stuck), acknowledged=DEC)
PUBLISH_OVERSIZE = code("events.oversize", Level.WARN, bytes=DEC, sequence=DEC)
OWNING_FULL = code("fleet.noRoom", Level.ERROR, slot=DEC, shards=DEC, made=DEC)
PUBLISH_NO_MEMORY = code("events.noMemory", Level.ERROR)
PUBLISHING = code("events.publishing", Level.INFO, outbox_kb=DEC, assemblies=DEC)
EVENTS_ENDED = code("events.ended", Level.INFO, address=IP, port=DEC, sent=DEC, lost=DEC)
SHARD_ATTEMPT = code(
    "lifecycle.attempt", Level.DEBUG,
    attempt=of(ShardContext.attempts), phase=texts(PHASES), mode=texts(MODES), address=IP, port=DEC,
)  # fmt: skip
SHARD_READY = code(
    "lifecycle.ready", Level.INFO,
    ("Shard ", of(ShardContext.shard_id), " ", of(ShardContext.gap, texts(READY_TEXT))),
    durationMs=MS, attempt=of(ShardContext.attempts), mode=texts(MODES),
    shards=of(ShardContext.shard_total), outageMs=of(ShardContext.outage_ms),
    gap=of(ShardContext.gap, texts(GAPS)), known=known(ShardContext.gap_from, ShardContext.gap, 0xFF),
    missingFrom=of(ShardContext.hole_first), missingTo=of(ShardContext.hole_last),
    sequence=_SEQUENCE,
)  # fmt: skip


def _evidence(field: Field, kind: Kind = DEC) -> Kind:
    return of(field, kind, ShardContext.evidence)


def _outcome() -> tuple[str | Kind, ...]:
    """Return what happened to the shard, as a sentence without its full stop."""
    return (
        "Shard ", of(ShardContext.shard_id), " ", _evidence(Evidence.lost, texts(LOST)), ". ",
        _evidence(Evidence.end, texts(HAPPENED)),
        _evidence(Evidence.close_code, texts(CLOSES, OTHER_CLOSE)),
        _evidence(Evidence.http_status, texts(STATUSES, OTHER_STATUS)),
        _evidence(Evidence.phase, texts(STAGES)),
        _evidence(Evidence.tls_site, texts(TLS_BECAUSE)),
    )  # fmt: skip


def _record(name: str, level: Level, ending: tuple[str | Kind, ...], **more: Kind) -> LogCode:
    """Declare a record of a failure: seed B's fields, then seed A's evidence, then the sentence."""
    return code(
        name, level, (*_outcome(), ". ", *ending),
        attempt=_evidence(Evidence.attempt), **more,
        closeCode=_evidence(Evidence.close_code),
        reason=_evidence(Evidence.end, texts(REASONS)),
        classification=_evidence(Evidence.classification, texts(CLASSIFICATIONS)),
        error=_evidence(Evidence.error, HEX),
        tcp=_evidence(Evidence.tcp_state, names(TcpState)),
        tls=_evidence(Evidence.tls_state, names(TlsState)),
        stage=_evidence(Evidence.phase, names(Phase)),
        known=known(
            Evidence.sequence, Evidence.sequence_valid, 1, ShardContext.evidence
        ),
    )  # fmt: skip


_DELAY = {
    "delayMs": _evidence(Evidence.delay_ms),
    "next": _evidence(Evidence.next_step, texts(NEXT)),
}
_NEXT = (_evidence(Evidence.then, texts(COMES_NEXT)), _evidence(Evidence.delay_ms), " ms")
CONNECTION_LOST = _record("lifecycle.connectionLost", Level.WARN, _NEXT, **_DELAY)
CONNECTION_RETRY = _record("lifecycle.retry", Level.WARN, _NEXT, **_DELAY)
_END = (
    _evidence(Evidence.stop, texts(ENDS)),
    _evidence(Evidence.budget_ms, texts(BUDGET, OTHER_BUDGET)),
    _evidence(Evidence.stop, texts(ENDS_REST)),
)
_STOP = {
    "stop": _evidence(Evidence.stop, names(Stop)),
    "reported": _evidence(Evidence.reported, texts(CLASSIFICATIONS)),
    "budgetMs": _evidence(Evidence.budget_ms),
}
CONNECTION_ENDED = _record(
    "lifecycle.connectionEnded",
    Level.ERROR,
    (*_END, _evidence(Evidence.refusal, texts(REFUSED_BECAUSE))),
    **_STOP,
    refusal=_evidence(Evidence.refusal, names(PlanRefusal)),
)
STARTUP_LIMIT = _record(
    "lifecycle.startupLimit",
    Level.WARN,
    (*_END, ". It goes on with the recovery policy"),
    **_STOP,
)
SESSION_RESET = code(
    "lifecycle.sessionReset", Level.WARN,
    (
        "The session of shard ", of(ShardContext.shard_id),
        " can no longer be resumed, so its next connection starts a new session",
    ),
    reason=_evidence(Evidence.end, texts(REASONS)),
)  # fmt: skip
RESHARD_WANTED = code(
    "lifecycle.reshardWanted", Level.WARN, total=DEC, moves_itself=DEC, recommended=DEC
)
RESHARD_RECOMMENDED = code("lifecycle.reshardRecommended", Level.WARN, total=DEC, recommended=DEC)
RESHARDED = code(
    "lifecycle.resharded", Level.WARN, total=DEC, start=DEC, shards=DEC, generation=DEC
)
RESHARD_REFUSED = code(
    "lifecycle.reshardRefused", Level.ERROR, total=DEC, start=DEC, shards=DEC,
    reason=names(PlanRefusal),
)  # fmt: skip
STARTUP_DEADLINE = code("lifecycle.startupDeadline", Level.INFO, budgetMs=DEC, shards=DEC)
STARTUP_DONE = code("lifecycle.allReady", Level.INFO, durationMs=MS, shards=DEC)
LEASE_GRANTED = code("lease.granted", Level.INFO, generation=DEC, left=MS)
LEASE_EXPIRED = code("lease.expired", Level.WARN, generation=DEC, late=MS)
LEASE_BAD_COMMAND = code("lease.bad_command", Level.WARN, length=DEC, reason=names(ControlResult))
_FLEET_REASON = texts({0: "none", **FLEET_REASONS})
FLEET_UNREADABLE = code(
    "fleet.unreadable", Level.WARN, record=names(RecordKind), number=DEC, revision=DEC
)
FLEET_PLAN = code("fleet.plan", Level.INFO, mode=names(PlanMode), epoch=DEC, total=DEC, slots=DEC)
FLEET_WATCH = code(
    "fleet.watch", Level.INFO, state=names(WatchState), number=DEC, reason=_FLEET_REASON
)
FLEET_CLAIMED = code(
    "fleet.claimed", Level.INFO, slot=DEC, generation=DEC, revision=DEC, was=names(SlotState)
)
FLEET_GRANTED = code("fleet.granted", Level.INFO, slot=DEC, generation=DEC, revision=DEC, left=MS)
FLEET_STARTED = code("fleet.started", Level.INFO, slot=DEC, generation=DEC, start=DEC, count=DEC)
FLEET_STOPPING = code("fleet.stopping", Level.INFO, slot=DEC, generation=DEC, reason=_FLEET_REASON)
FLEET_RELEASED = code("fleet.released", Level.INFO, slot=DEC, generation=DEC, confirmed=DEC)
FLEET_LOST = code("fleet.lost", Level.ERROR, slot=DEC, generation=DEC, revision=DEC)
HANDOVER_TAKEN = code("fleet.sessionTaken", Level.INFO, sequence=DEC, generation=DEC, revision=DEC)
HANDOVER_IGNORED = code(
    "fleet.sessionIgnored", Level.WARN, problem=names(HandoverProblem), revision=DEC, generation=DEC
)
HANDOVER_LOST = code("fleet.sessionLost", Level.WARN, generation=DEC, later=DEC)
FLEET_EXPIRED = code(
    "fleet.expired", Level.ERROR, slot=DEC, generation=DEC, late=MS, reason=_FLEET_REASON
)
FLEET_FORGOTTEN = code(
    "fleet.claimForgotten", Level.INFO, slot=DEC, generation=DEC, reason=_FLEET_REASON
)
FLEET_TICKET = code("fleet.ticket", Level.DEBUG, forShard=DEC, key=DEC, waited=MS)
FLEET_TICKET_VOID = code("fleet.ticketVoid", Level.WARN, forShard=DEC, key=DEC)
FLEET_BUDGET_SPENT = code("fleet.budgetSpent", Level.WARN, remaining=DEC, reserve=DEC, total=DEC)
FLEET_CONCURRENCY = code("fleet.maxConcurrencyDiffers", Level.WARN, plan=DEC, service=DEC)
FLEET_FROZEN = code("fleet.clockStoodStill", Level.ERROR, seconds=DEC, held=DEC)
_ENROL_REASON = texts({0: "none", **ENROL_REASONS})
ENROL_WAITING = code(
    "enrol.waiting", Level.WARN, fingerprint=HEX, until=fixed("shardfw_fleet_approve")
)
ENROL_IMPOSSIBLE = code("enrol.impossible", Level.ERROR, reason=_ENROL_REASON)
ENROL_REFUSED = code("enrol.refused", Level.WARN, reason=_ENROL_REASON, refused=DEC)
ENROL_DONE = code("enrol.done", Level.INFO, announced=DEC, refused=DEC)
NODE_STOPPING = code("node.stopping", Level.INFO, reason=names(StopReason), shards=DEC)
NODE_STOPPED = code("node.stopped", Level.INFO, closed=DEC, reset=DEC, left=DEC, took=MS)
NODE_OFF = code("node.off", Level.INFO, acpi=DEC)
NODE_STARTED = code(
    "node.started", Level.INFO, total=DEC, start=DEC, count=DEC, lease_ms=DEC,
    plan=fixed("configuration"),
)  # fmt: skip
_PARSER = ShardContext.gateway.offset + GatewayContext.parser.offset


def _heard(field: JsonField) -> Kind:
    """Return the kind of a number of the message that the parser holds."""
    return Kind(Render.DEC, offset=_PARSER + JsonParser.values.offset + 4 * field, size=4)


_EVENT = replace(
    _heard(JsonField.T), render=Render.WORD, word=_PARSER + JsonParser.t.offset, room=T_MAX
)
_BYTES = of(GatewayContext.message_bytes, inside=ShardContext.gateway)
GATEWAY_RECEIVE = code("gateway.receive", Level.TRACE, opcode=_heard(JsonField.OP), bytes=_BYTES)
GATEWAY_SEND = code("gateway.send", Level.TRACE, opcode=DEC, bytes=DEC)
_LATENCY = of(GatewayContext.latency_ms, inside=ShardContext.gateway)
GATEWAY_ACK = code("gateway.heartbeatAck", Level.TRACE, durationMs=_LATENCY)
GATEWAY_LATE = code("gateway.heartbeatLate", Level.WARN, durationMs=_LATENCY)
GATEWAY_DISPATCH = code(
    "gateway.dispatch", Level.DEBUG,
    dispatch=_EVENT, sequence=_heard(JsonField.S), bytes=_BYTES,
)  # fmt: skip
EVENTS_RAW = code(
    "events.raw", Level.TRACE,
    dispatch=_EVENT, sequence=_heard(JsonField.S), bytes=_BYTES,
)  # fmt: skip
GATEWAY_UNKNOWN = code("gateway.unknownOpcode", Level.DEBUG, opcode=_heard(JsonField.OP))
GATEWAY_REJECTED = code(
    "gateway.dispatchRejected", Level.WARN,
    dispatch=_EVENT, sequence=_heard(JsonField.S), bytes=_BYTES,
    policy=names(OnMalformed), rejected=of(ShardContext.malformed),
)  # fmt: skip
GATEWAY_HELLO = code("gateway.hello", Level.INFO, interval_ms=DEC, resume=DEC, sequence=_SEQUENCE)
GATEWAY_URL = code("gateway.resume_url_ignored", Level.WARN, reason=names(UrlFault), bytes=DEC)
GATEWAY_SEQUENCE = code("gateway.sequence_lower", Level.WARN, got=DEC, known=DEC)
GATEWAY_RECONNECT = code("gateway.reconnect", Level.INFO, sequence=_SEQUENCE)
GATEWAY_INVALID = code("gateway.invalid_session", Level.WARN, resumable=DEC, sequence=_SEQUENCE)
GATEWAY_CLOSED = code("gateway.closed", Level.WARN, close=DEC, flags=HEX, sequence=_SEQUENCE)
GATEWAY_RATE_LIMITED = code("gateway.rate_limited", Level.WARN, opcode=DEC, retry_ms=DEC)
GATEWAY_ZOMBIE = code("gateway.zombie", Level.WARN, misses=DEC, pending=MS)

_LINK = names(LinkName)
BUS_STARTED = code("bus.started", Level.INFO, boot=HEX, servers=DEC, tls=DEC, login=names(BusAuth))
BUS_NO_MEMORY = code("bus.no_memory", Level.ERROR, free_pages=DEC)
BUS_UP = code("bus.up", Level.INFO, link=_LINK, address=IP, port=DEC, version=HEX)
BUS_DOWN = code("bus.down", Level.WARN, link=_LINK, error=HEX, server=DEC, retry=MS)
BUS_RETRY = code("bus.retry", Level.DEBUG, link=_LINK, error=HEX, server=DEC, retry=MS)
BUS_REFUSED = code("bus.refused", Level.ERROR, link=_LINK, error=HEX, server=DEC, retry=MS)
BUS_DENIED = code("bus.denied", Level.WARN, link=_LINK, error=HEX, times=DEC)
BUS_FAULT = code("bus.fault", Level.ERROR, link=_LINK, vector=DEC, rip=HEX, address=HEX)

DISCOVERY_ASK = code("discovery.ask", Level.INFO, address=IP, port=DEC, redirects=DEC, token=DEC)
DISCOVERY_FOUND = code(
    "discovery.found", Level.INFO, port=DEC, max_concurrency=DEC, remaining=DEC, requests=DEC
)
DISCOVERY_WAIT = code("discovery.wait", Level.WARN, error=HEX, status=DEC, wait_ms=DEC)
DISCOVERY_REFUSED = code("discovery.refused", Level.ERROR, error=HEX, status=DEC)
DISCOVERY_DATE = code("discovery.retry_date", Level.WARN, status=DEC)

CODES = tuple(DECLARED)
"""Every line of the node, by its number."""


# -- the ring -------------------------------------------------------------------------------------
LEVEL_SILENT = 5
"""Above every level: nothing is written."""
LOG_RING_BYTES = 64 * 1024
"""Two lines of every shard at once, which is what a full node says when its link comes back."""
LOG_RING = Data("log_ring", LOG_RING_BYTES, doc="lines that wait for the serial port")


class LogState(Struct):
    """Positions of the log ring. They count bytes since boot; the ring index is the low bits."""

    SIZE = 0x20
    head = u64(0x00, "bytes put in")
    tail = u64(0x08, "bytes sent")
    dropped = u64(0x10, "lines that found the ring full")
    burst = u32(0x18, "bytes that the serial port takes when its holding register is empty")
    level = enum8(0x1C, Level, "lowest level that is written")


class LogOnBus(Struct):
    """How far the lines have gone to the bus."""

    SIZE = 0x20
    told = u64(0x00, "position in the ring of the next line that goes to the bus")
    lines = u64(0x08, "lines that went")
    lost = u64(0x10, "times that the ring ran ahead: what lay between did not go")


LOG = Global("log_state", LogState, "positions of the log ring")


LOG_ON_BUS = Global("log_on_bus", LogOnBus, "lines that go to the bus")
LOG_TEMPLATES = constant("log_templates", build_templates(CODES), "texts of all log lines", align=2)
