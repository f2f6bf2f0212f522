"""The fields of a shard that invariants look at, read from memory in one go after every turn."""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from typing import Any

from firmware.layouts.events import EventStream
from firmware.layouts.gateway import GatewayContext
from firmware.layouts.shard import SSES_VALID, Session, ShardContext, ShardFlag
from firmware.layouts.tcp import TcpContext

_HEAD = (
    "state", "flags", "sequence", "phase", "hold", "profile", "slot", "reconnects", "reconnect_deadline",
    "session_ptr", "shard_id", "shard_total", "tx_base", "ring_base", "attempt_deadline",
    "phase_deadline", "close_deadline", "connected_at", "disconnected_at", "attempts",
    "hb_misses", "resumes", "identifies", "last_error", "failure", "plan_generation", "dispatches",
    "recovery_step",
)  # fmt: skip
_EVIDENCE = (
    "error", "tcp_state", "tls_state", "end", "phase", "close_code", "delay_ms", "failed_at",
    "stop", "required_wait_ms",
)  # fmt: skip
_TCP = ("state", "remote_ip", "local_port")
_SESSION = ("valid", "session_id_len", "resume_host_len", "unanswered_resumes")
_GATEWAY = (
    "state", "heartbeat_interval_ms", "hb_next", "hb_sent_at", "flags", "seq_acked", "beats",
)  # fmt: skip
_SIZES = {1: "B", 2: "H", 4: "I", 8: "Q"}
HEAD_BYTES = ShardContext.tcp.offset + TcpContext.SIZE
GATEWAY_AT = ShardContext.gateway.offset
GATEWAY_BYTES = GatewayContext.beats.offset + GatewayContext.beats.size
SESSION_AT = ShardContext.session.offset
SESSION_BYTES = Session.session_id.offset + 64
"""Enough of a session to tell two of them apart."""


@dataclass(frozen=True, slots=True)
class ShardRow:
    """One shard at the end of a turn; names and units are those of the firmware's layouts."""

    state: int
    flags: int
    sequence: int
    phase: int
    hold: int
    profile: int
    slot: int
    reconnects: int
    reconnect_deadline: int
    session_ptr: int
    shard_id: int
    shard_total: int
    tx_base: int
    ring_base: int
    attempt_deadline: int
    phase_deadline: int
    close_deadline: int
    connected_at: int
    disconnected_at: int
    attempts: int
    hb_misses: int
    resumes: int
    identifies: int
    last_error: int
    failure: int
    plan_generation: int
    dispatches: int
    recovery_step: int
    evidence_error: int
    evidence_tcp_state: int
    evidence_tls_state: int
    evidence_end: int
    evidence_phase: int
    evidence_close_code: int
    evidence_delay_ms: int
    evidence_failed_at: int
    evidence_stop: int
    evidence_required_wait_ms: int
    held: int
    fence: int
    tcp_state: int
    tcp_remote_ip: int
    tcp_local_port: int
    gateway_state: int
    gateway_heartbeat_interval_ms: int
    gateway_hb_next: int
    gateway_hb_sent_at: int
    gateway_flags: int
    gateway_seq_acked: int
    gateway_beats: int
    session_valid: int
    session_id_len: int
    session_resume_host_len: int
    session_unanswered_resumes: int
    session_id: bytes

    @property
    def life(self) -> tuple[int, int, int]:
        """What another shard, or the same one under another lease, has otherwise."""
        return self.plan_generation, self.fence, self.shard_id

    @property
    def resumable(self) -> bool:
        """Whether a Resume is allowed: an object, a valid session, a valid sequence."""
        return bool(
            self.session_ptr
            and self.session_valid == SSES_VALID
            and self.flags & ShardFlag.SEQ_VALID
        )


def _readers() -> tuple[struct.Struct, struct.Struct, struct.Struct]:
    """Build what unpacks the head with TCP, the gateway's workspace, and the session."""
    parts = [(getattr(ShardContext, name), 0) for name in _HEAD]
    parts += [
        (getattr(ShardContext.evidence.item, n), ShardContext.evidence.offset) for n in _EVIDENCE
    ]
    parts += [(ShardContext.held, 0), (EventStream.fence, ShardContext.events.offset)]
    parts += [(getattr(TcpContext, n), ShardContext.tcp.offset) for n in _TCP]
    session = [(getattr(Session, name), 0) for name in _SESSION]
    gateway = [(getattr(GatewayContext, name), 0) for name in _GATEWAY]
    return unpacker(parts), unpacker(gateway), unpacker(session)


def unpacker(parts: list[tuple[object, int]]) -> struct.Struct:
    """Return what unpacks fields, each with what is added to its offset, in the order of memory."""
    text, end = "<", 0
    for field, base in parts:
        at, size = base + field.offset, field.size  # type: ignore[attr-defined]  # layout fields
        if at < end:
            raise ValueError(
                f"{field!r} is listed after a field that lies behind it; sort the list"
            )
        text += f"{at - end}x{_SIZES[size]}"
        end = at + size
    return struct.Struct(text)


_READ_HEAD, _READ_GATEWAY, _READ_SESSION = _readers()
_NUMBERS = [each.name for each in fields(ShardRow)][:-1]


def read_row(head: bytes, gateway: bytes, session: bytes) -> ShardRow:
    """Read a row from memory.

    Args:
        head: the first HEAD_BYTES of a ShardContext.
        gateway: the first GATEWAY_BYTES of its GatewayContext.
        session: the SESSION_BYTES of its session.
    """
    numbers = (
        *_READ_HEAD.unpack_from(head),
        *_READ_GATEWAY.unpack_from(gateway),
        *_READ_SESSION.unpack_from(session),
    )
    named: dict[str, Any] = dict(zip(_NUMBERS, numbers, strict=True))
    return ShardRow(**named, session_id=session[Session.session_id.offset :])
