"""The log: every line that the node can write, declared once, and the ring that holds them.

A line is `t=<ms since boot> level=<level> [shard=<id>] code=<name> key=value ...`. To add one, write

    DHCP_BOUND = code("dhcp.bound", Level.INFO, address=IP, seconds=DEC)

below; values travel in RDX, RCX, R8, R9 in the order of the keys.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from firmware.layouts.gateway import UrlFault
from firmware.layouts.shard import End, Hold, NextStep, Phase, ShardState
from firmware.layouts.stop import StopReason
from firmware.layouts.survivor import HoldEnd, SessionRefusal
from firmware.layouts.tcp import TcpState
from firmware.layouts.tls import TlsState
from toolchain.layout import Data, Global, Struct, enum8, u32, u64
from toolchain.layout.data import constant


class Level(enum.IntEnum):
    """How much a line matters; lines below `LogState.level` are not written."""

    DEBUG = 0
    INFO = 1
    WARN = 2
    ERROR = 3


class Render(enum.IntEnum):
    """How a value becomes text."""

    DEC = 0
    HEX = 1
    IP = 2
    MS = 3
    NAMES = 4
    SHARD = 5


@dataclass(frozen=True)
class Kind:
    """The kind of a field; `names` is the enum of a NAMES field."""

    render: Render
    names: type[enum.IntEnum] | None = None


DEC = Kind(Render.DEC)
"""An unsigned number of 64 bits."""
HEX = Kind(Render.HEX)
"""An unsigned number as 0x and the digits that it needs."""
IP = Kind(Render.IP)
"""An IPv4 address as loaded from the wire."""
MS = Kind(Render.MS)
"""A duration in TSC cycles, written in milliseconds; 0 while the clock is not calibrated."""


def names(of: type[enum.IntEnum]) -> Kind:
    """Return the kind of a field that holds a member of `of` (written as its name, small letters)."""
    return Kind(Render.NAMES, of)


class LogCode(int):
    """A line: its number, name, level and fields."""

    name: str
    level: Level
    fields: tuple[tuple[str, Kind], ...]


CODES: list[LogCode] = []
LINE_MAX = 320
"""Longest possible line in bytes; `code` refuses what could be longer."""
_WIDTHS = {Render.DEC: 20, Render.HEX: 18, Render.IP: 15, Render.MS: 20, Render.NAMES: 32}


def code(name: str, level: Level, **fields: Kind) -> LogCode:
    """Declare a line.

    Args:
        name: What happened, `layer.event`.
        level: How much it matters.
        fields: Key and kind of up to four values.

    Raises:
        ValueError: Too many fields, a used name, or a line that could exceed `LINE_MAX`.
    """
    if len(fields) > 4:
        raise ValueError(f"log code {name} has {len(fields)} fields; four registers carry values")
    if any(c.name == name for c in CODES):
        raise ValueError(f"log code {name} is declared twice; use the first")
    longest = len(f"t= level=error shard= code={name}\n") + 20 + 10
    longest += sum(len(key) + 2 + _WIDTHS[kind.render] for key, kind in fields.items())
    if longest > LINE_MAX:
        raise ValueError(f"log code {name} can be {longest} bytes long; {LINE_MAX} fit")
    made = LogCode(len(CODES))
    made.name, made.level, made.fields = name, level, tuple(fields.items())
    CODES.append(made)
    return made


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
BOOT_WARM = code("boot.warm", Level.INFO, boots=DEC, identified=DEC, since=DEC)
NODE_CRASH_LOOP = code(
    "node.crash_loop", Level.ERROR, crashes=DEC, within_s=DEC, shards_held_until=names(HoldEnd)
)
NODE_RELEASED = code("node.released", Level.WARN, was_held=DEC)
IDENTIFY_SPENT = code("identify.spent", Level.WARN, used=DEC, allowance=DEC, next_in_s=DEC)
SESSION_RESTORED = code("session.restored", Level.INFO, sequence=DEC, age_s=DEC)
SESSION_IGNORED = code("session.ignored", Level.WARN, reason=names(SessionRefusal), sequence=DEC)
SHARD_BACKOFF = code(
    "shard.backoff", Level.WARN, error=HEX, tcp=names(TcpState), tls=names(TlsState), delay_ms=DEC
)
SHARD_STATE = code(
    "shard.state", Level.INFO, state=names(ShardState), phase=names(Phase), hold=names(Hold)
)
SHARD_END = code(
    "shard.end", Level.WARN, end=names(End), phase=names(Phase), close=DEC, next=names(NextStep)
)
SHARD_ATTEMPT = code("shard.attempt", Level.INFO, attempt=DEC, resume=DEC, address=IP, port=DEC)
SHARD_READY = code("shard.ready", Level.INFO, attempt=DEC, resumed=DEC, sequence=DEC, took=MS)
SHARD_RETRY = code("shard.retry", Level.INFO, reconnects=DEC, sequence=DEC)
SHARD_FATAL = code(
    "shard.fatal", Level.ERROR, error=HEX, tcp=names(TcpState), tls=names(TlsState), close=DEC
)
SHARD_NO_CLOCK = code(
    "shard.no_clock", Level.ERROR, error=HEX, tcp=names(TcpState), tls=names(TlsState)
)
SHARD_HELD = code("shard.held", Level.WARN, hold=names(Hold), sequence=DEC)
EVENTS_RAW = code("events.raw", Level.DEBUG, sequence=DEC, bytes=DEC)
EVENTS_SUBSCRIBED = code("events.subscribed", Level.INFO, address=IP, port=DEC, place=DEC)
EVENTS_ENDED = code("events.ended", Level.INFO, address=IP, port=DEC, sent=DEC, lost=DEC)
LEASE_GRANTED = code("lease.granted", Level.INFO, generation=DEC, left=MS)
LEASE_EXPIRED = code("lease.expired", Level.WARN, generation=DEC, late=MS)
LEASE_BAD_COMMAND = code("lease.bad_command", Level.WARN, length=DEC)
NODE_STOPPING = code("node.stopping", Level.INFO, reason=names(StopReason), shards=DEC)
NODE_STOPPED = code("node.stopped", Level.INFO, closed=DEC, reset=DEC, left=DEC, took=MS)
NODE_OFF = code("node.off", Level.INFO, acpi=DEC)
NODE_STARTED = code("node.started", Level.INFO, total=DEC, start=DEC, count=DEC, lease_ms=DEC)
GATEWAY_HELLO = code("gateway.hello", Level.INFO, interval_ms=DEC, resume=DEC, sequence=DEC)
GATEWAY_URL = code("gateway.resume_url_ignored", Level.WARN, reason=names(UrlFault), bytes=DEC)
GATEWAY_SEQUENCE = code("gateway.sequence_lower", Level.WARN, got=DEC, known=DEC)
GATEWAY_RECONNECT = code("gateway.reconnect", Level.INFO, sequence=DEC)
GATEWAY_INVALID = code("gateway.invalid_session", Level.WARN, resumable=DEC, sequence=DEC)
GATEWAY_CLOSED = code("gateway.closed", Level.WARN, close=DEC, flags=HEX, sequence=DEC)
GATEWAY_RATE_LIMITED = code("gateway.rate_limited", Level.WARN, opcode=DEC, retry_ms=DEC)
GATEWAY_ZOMBIE = code("gateway.zombie", Level.WARN, misses=DEC, pending=MS)

DISCOVERY_ASK = code("discovery.ask", Level.INFO, address=IP, port=DEC, redirects=DEC, token=DEC)
DISCOVERY_FOUND = code(
    "discovery.found", Level.INFO, port=DEC, max_concurrency=DEC, remaining=DEC, requests=DEC
)
DISCOVERY_WAIT = code("discovery.wait", Level.WARN, error=HEX, status=DEC, wait_ms=DEC)
DISCOVERY_REFUSED = code("discovery.refused", Level.ERROR, error=HEX, status=DEC)
DISCOVERY_DATE = code("discovery.retry_date", Level.WARN, status=DEC)


# -- the ring -------------------------------------------------------------------------------------
LEVEL_SILENT = 4
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


LOG = Global("log_state", LogState, "positions of the log ring")


def op(kind: Kind, index: int) -> int:
    """Return the template byte that renders value `index` as `kind`."""
    return 0x80 | kind.render << 3 | index


def build_templates(codes: list[LogCode]) -> bytes:
    """Return the template table of the firmware.

    u16 offsets (four prefixes by level, then the codes), then texts ending in 0 in which a byte
    above 0x7F is an `op`; a NAMES op is followed by the u16 offset of its names (value, length,
    text; length 0 ends). A code's text is preceded by its level.
    """
    enums = list(dict.fromkeys(k.names for c in codes for _, k in c.fields if k.names is not None))
    blob = bytearray(2 * (len(Level) + len(codes)))
    at: dict[object, int] = {}
    for names_of in enums:
        at[names_of] = len(blob)
        for member in names_of:
            text = member.name.lower().encode()
            blob += bytes([member, len(text)]) + text
        blob += bytes(2)
    offsets = []
    for level in Level:
        offsets.append(len(blob))
        blob += b"t=" + bytes([op(DEC, 0)]) + f" level={level.name.lower()}".encode()
        blob += bytes([op(Kind(Render.SHARD), 1)]) + b" code=\0"
    for entry in codes:
        offsets.append(len(blob))
        blob += bytes([entry.level]) + entry.name.encode()
        for n, (key, kind) in enumerate(entry.fields):
            blob += f" {key}=".encode() + bytes([op(kind, n + 2)])
            if kind.names is not None:
                blob += at[kind.names].to_bytes(2, "little")
        blob += b"\n\0"
    for n, offset in enumerate(offsets):
        blob[2 * n : 2 * n + 2] = offset.to_bytes(2, "little")
    return bytes(blob)


LOG_TEMPLATES = constant("log_templates", build_templates(CODES), "texts of all log lines", align=2)
