"""Ask a node about itself and its shards, and read the answer by the declared layouts."""

from __future__ import annotations

import enum
import secrets
import socket
import time
import uuid
from ipaddress import IPv4Address
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from firmware.errors import describe
from firmware.layouts.bus import LinkName, LinkState
from firmware.layouts.enrol import EnrolState
from firmware.layouts.entropy import EntropySource, SourceState
from firmware.layouts.fleet import HeldPhase, PlanMode, WatchState
from firmware.layouts.gateway import GatewayState
from firmware.layouts.observe import ConnectionState, node_latency, node_state, shard_state
from firmware.layouts.owner import Task
from firmware.layouts.sentences import CLASSIFICATIONS, GAPS, NEXT, PHASES, REASONS
from firmware.layouts.shard import ShardContext, ShardFlag, ShardState
from firmware.layouts.status import (
    AGE_UNKNOWN,
    STATUS_REPLY_MAGIC,
    STATUS_REQUEST_MAGIC,
    StatusReply,
)
from firmware.layouts.stop import StopPhase
from firmware.layouts.tcp import TcpState
from firmware.layouts.tls import Group, Suite, TlsState
from firmware.layouts.websocket import WsState
from firmware.layouts.x509 import KeyKind
from toolchain.layout.pack import pack, unpack

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

AT_ONCE = 32
"""Questions that are open at the same time; a node's card has not many more receive buffers."""
ROUND_S = 0.3
"""Wait for answers before what is missing is asked again; seconds."""


class NoAnswerError(RuntimeError):
    """The node did not answer; the text says where and what to do."""


def ask(host: str, port: int, timeout: float = 3.0) -> list[dict[str, Any]]:
    """Ask about every slot and return the answers in the order of the slots, unpacked.

    Args:
        host: The node's address.
        port: Its diagnostics port.
        timeout: Seconds in all.

    Raises:
        NoAnswerError: Not every slot was answered in time.
    """
    deadline = time.monotonic() + timeout
    answers: dict[int, dict[str, Any]] = {}
    wanted, nonces = {0}, dict[int, int]()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as node:
        try:
            node.connect((host, port))
        except OSError as error:
            raise NoAnswerError(f"{host} port {port} cannot be asked: {error.strerror}") from None
        while wanted - answers.keys() and time.monotonic() < deadline:
            try:
                batch = sorted(wanted - answers.keys())[:AT_ONCE]
                for slot in batch:
                    nonce = secrets.randbits(64)
                    nonces[nonce] = slot
                    request = {"magic": STATUS_REQUEST_MAGIC, "slot": slot, "nonce": nonce}
                    node.send(pack(StatusReply, request))
                until = min(deadline, time.monotonic() + ROUND_S)
                _collect(node, until, set(batch), nonces, answers)
                wanted |= {n for reply in answers.values() for n in range(reply["slots_used"])}
            except ConnectionRefusedError:
                # The host says that nobody listens there yet; a node that boots may do so soon.
                time.sleep(max(0.0, min(ROUND_S, deadline - time.monotonic())))
    if wanted - answers.keys():
        missing = ", ".join(map(str, sorted(wanted - answers.keys())))
        raise NoAnswerError(
            f"the node at {host} UDP port {port} did not answer for slot {missing} within "
            f"{timeout:g} s. Check that it has booted, and that the port is [diagnostics] port of "
            "its configuration"
        )
    return [answers[slot] for slot in sorted(answers)]


def _collect(
    node: socket.socket,
    until: float,
    batch: set[int],
    nonces: dict[int, int],
    answers: dict[int, dict[str, Any]],
) -> None:
    """Take answers until those of the batch are there or the time is over."""
    while batch - answers.keys() and (left := until - time.monotonic()) > 0:
        node.settimeout(left)
        try:
            datagram = node.recv(65536)
        except TimeoutError:
            return
        if len(datagram) < StatusReply.SIZE:
            continue
        reply = unpack(StatusReply, datagram)
        slot = nonces.get(reply["nonce"])
        if reply["magic"] != STATUS_REPLY_MAGIC or slot is None or reply["slot"] != slot:
            continue
        answers[slot] = reply


def _name(kind: type[enum.IntEnum], value: int) -> str:
    """Return the name of a member; a number that no member has is shown as it is."""
    return kind(value).name if value in set(kind) else f"unknown({int(value)})"


def _known(milliseconds: int) -> int | None:
    return None if milliseconds == AGE_UNKNOWN else milliseconds


def _left_ms(deadline: int, reply: dict[str, Any]) -> int | None:
    """Return milliseconds until a TSC deadline, negative when it has passed; None without one."""
    if deadline == 0 or reply["cycles_per_ms"] == 0:
        return None
    return int(deadline - reply["now"]) // int(reply["cycles_per_ms"])


def _since_ms(stamp: int, reply: dict[str, Any]) -> int | None:
    """Return milliseconds since a TSC stamp; None without one."""
    left = _left_ms(stamp, reply)
    return None if left is None else -left


def ready_ms(reply: dict[str, Any]) -> int | None:
    """Return when the slot's shard became READY, in milliseconds since boot; None while it is not."""
    connected_at = unpack(ShardContext, reply["shard"], partial=True)["connected_at"]
    if connected_at == 0 or reply["cycles_per_ms"] == 0:
        return None
    return int(connected_at - reply["boot_tsc"]) // int(reply["cycles_per_ms"])


def link_reports(reply: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what an answer says of each link to NATS; empty for a node without a fleet."""
    if not reply["fleet"]:
        return []
    return [
        {
            "link": name.name.lower(),
            "state": _name(LinkState, link["state"]),
            "server": f"{_address(link['ip'])}:{link['port']}" if link["ip"] else None,
            "version": _version(link["version"]),
            "connections": link["ups"],
            "failures": link["failures"],
            "denied": link["denials"],
            "last_error": link["error"],
            "last_error_text": describe(link["error"]),
        }
        for name, link in zip(LinkName, reply["links"], strict=True)
    ]


def _address(ip: int) -> str:
    return str(IPv4Address(ip.to_bytes(4, "little")))


def _version(packed: int) -> str | None:
    """Return major.minor.patch; None for none."""
    return ".".join(str(packed >> shift & 0xFF) for shift in (16, 8, 0)) if packed else None


def node_report(reply: dict[str, Any]) -> dict[str, Any]:
    """Return what an answer says of the node, in the stable keys of `shardfw status --json`."""
    return {
        "ip": _address(reply["ip"]) if reply["ip"] else None,
        "global_total": reply["global_total"],
        "local_start": reply["local_start"],
        "local_count": reply["local_count"],
        "uptime_ms": _since_ms(reply["boot_tsc"], reply),
        "turns": reply["turns"],
        "tsc_cycles_per_ms": reply["cycles_per_ms"],
        "lease_generation": reply["lease_generation"],
        "lease_deadline": reply["lease_deadline"],
        "lease_left_ms": _left_ms(reply["lease_deadline"], reply),
        "lease_expired": bool(reply["lease_expired"]),
        "entropy": "weak" if reply["entropy_weak"] else "strong",
        "entropy_sources": {
            source.name.lower(): _name(SourceState, reply["entropy_sources"][source]).lower()
            for source in EntropySource
        },
        "log_dropped": reply["log_dropped"],
        "requests_bad": reply["requests_bad"],
        "stop": _name(StopPhase, reply["stop_phase"]),
        "commands": reply["commands"],
        "commands_bad": reply["commands_bad"],
        "boots": reply["boots"],
        "identified": reply["identified"],
        "identify_allowance": reply["identify_allowance"],
        "crash_hold": bool(reply["crash_hold"]),
        "plan_generation": reply["plan_generation"],
        "plan_moves": reply["plan_moves"],
        "leaving": reply["leaving"],
        "recommended_shards": reply["recommended"] or None,
        "hold": None if reply["token_known"] else "NO_TOKEN",
        "enrol": _enrol(reply),
        "fleet": fleet_report(reply),
        "uuid": str(uuid.UUID(bytes=reply["uuid"])) if any(reply["uuid"]) else None,
        "serial": reply["serial"].rstrip(b"\0").decode("ascii", "replace") or None,
        "links": link_reports(reply),
    }


def _enrol(reply: dict[str, Any]) -> dict[str, Any] | None:
    """Return how far the node is with getting its token; None when it is in the image."""
    if reply["enrol_state"] == EnrolState.OFF:
        return None
    digest = int.from_bytes(reply["fingerprint"], "big")
    return {
        "state": _name(EnrolState, reply["enrol_state"]).lower(),
        "fingerprint": f"{digest:#x}" if digest else None,
        "refused": reply["enrol_refused"],
        "last_error": describe(reply["enrol_error"]) if reply["enrol_error"] else None,
    }


def fleet_report(reply: dict[str, Any]) -> dict[str, Any] | None:
    """Return what an answer says of the node's fleet; None when it is part of none."""
    if not reply["fleet"]:
        return None
    return {
        "watch": _name(WatchState, reply["fleet_watch"]).lower(),
        "watch_ended_by": describe(reply["fleet_error"]),
        "plan": _name(PlanMode, reply["fleet_plan"]).lower(),
        "epoch": reply["fleet_epoch"],
        "closing": bool(reply["fleet_closing"]),
        "held": [
            {
                "slot": place["slot"],
                "phase": _name(HeldPhase, place["phase"]).lower(),
                "generation": place["generation"],
                "shards": place["shards"],
                "left_ms": place["left_ms"],
            }
            for place in reply["fleet_held"]
            if place["phase"]
        ],
        "sessions": {
            name: reply["sessions_" + name]
            for name in ("taken", "saved", "refused", "late", "lost", "ignored")
        },
    }


def has_shard(reply: dict[str, Any]) -> bool:
    """Say whether a slot holds a shard: after a move a slot may be free."""
    return bool(reply["slot"] < reply["slots_used"] and any(reply["shard"]))


def observe_node(shards: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what the reports of all shards say of the node as a whole."""
    states = [ConnectionState(shard["connection"]) for shard in shards]
    latencies = [shard["latency_ms"] for shard in shards]
    return {
        "connection": node_state(states).value,
        "latency_ms": node_latency(list(zip(states, latencies, strict=True))),
    }


def _tls(reply: dict[str, Any], anchors: Mapping[int, str]) -> dict[str, Any] | None:
    """Return what is agreed on with the server, and whether its chain is good; None before that."""
    if not reply["tls_suite"]:
        return None
    judged = reply["tls_state"] in (TlsState.CONNECTED, TlsState.ENDED)
    anchor = reply["tls_anchor"] if judged else 0
    return {
        "protocol": "TLS 1.3",
        "suite": f"TLS_{_name(Suite, reply['tls_suite'])}",
        "group": _name(Group, reply["tls_group"]).lower() if reply["tls_group"] else None,
        "chain": "verified" if anchor else "pending",
        "key": _name(KeyKind, reply["tls_key"]) if anchor else None,
        "anchor": anchors.get(anchor) if anchor else None,
        "anchor_hash": f"{anchor:016x}" if anchor else None,
    }


def shard_report(
    reply: dict[str, Any], anchors: Mapping[int, str] = MappingProxyType({})
) -> dict[str, Any]:
    """Return what an answer says of its slot's shard, in the stable keys of the JSON output.

    Args:
        reply: The answer, unpacked.
        anchors: What to call an anchor, by the hash of its name.
    """
    head = unpack(ShardContext, reply["shard"], partial=True)
    flags = ShardFlag(head["flags"])
    known = ShardFlag.SEQ_VALID in flags
    connection = shard_state(
        head["state"], head["hold"], flags, closing=head["close_deadline"] != 0
    )
    return {
        "shard": head["shard_id"],
        "slot": reply["slot"],
        "state": _of(head["state"]),
        "connection": connection.value,
        "phase": _of(head["phase"]),
        "hold": _of(head["hold"]),
        "reconnects": head["reconnects"],
        "reconnect_deadline": head["reconnect_deadline"],
        "reconnect_in_ms": _left_ms(head["reconnect_deadline"], reply),
        "last_error": head["last_error"],
        "last_error_text": describe(head["last_error"]),
        "lease_generation": reply["lease_generation"],
        "lease_deadline": reply["lease_deadline"],
        "lease_left_ms": _left_ms(reply["lease_deadline"], reply),
        "tcp_state": _name(TcpState, reply["tcp_state"]),
        "tls_state": _name(TlsState, reply["tls_state"]),
        "tls": _tls(reply, anchors),
        "websocket_state": _name(WsState, reply["ws_state"]),
        "gateway_state": _name(GatewayState, reply["gateway_state"]),
        "heartbeat_misses": head["hb_misses"],
        "heartbeat_interval_ms": reply["heartbeat_interval_ms"] or None,
        "latency_ms": _known(reply["latency_ms"]),
        "ack_age_ms": _known(reply["ack_age_ms"]),
        "frame_age_ms": _known(reply["frame_age_ms"]),
        "sequence": head["sequence"] if known else None,
        "attempts": head["attempts"],
        "recovery_attempts": head["recovery_attempts"],
        "identifies": head["identifies"],
        "resumes": head["resumes"],
        "dispatches": head["dispatches"],
        "dispatches_malformed": head["malformed"],
        "bytes_received": head["bytes_received"],
        "profile": _of(head["profile"]).lower(),
        "connection_number": head["connection"],
        "recovery": _recovery(head),
        "recovering": ShardFlag.ESTABLISHED in flags and head["disconnected_at"] != 0,
        "outage_ms": _since_ms(head["disconnected_at"], reply)
        if head["disconnected_at"]
        else head["outage_ms"] or None,
        "gap": GAPS[head["gap"]],
        "gap_from": head["gap_from"] if head["gap"] else None,
        "missing_first": head["hole_first"] or None,
        "missing_last": head["hole_last"] or None,
        "protocol_failures": head["protocol_failures"],
        "owner": {
            "user_id": str(head["user_id"]) if head["user_id"] else None,
            "drain": _name(StopPhase, reply["stop_phase"]),
            "tasks": [task.name.lower() for task in Task if reply["tasks"] & task and task.name],
        },
        "last_failure": _evidence(head["evidence"], reply),
    }


def _recovery(head: dict[str, Any]) -> dict[str, Any] | None:
    """Return phase, attempt and delay of what goes on; None when READY, held or ended."""
    if head["state"] not in (ShardState.STARTING, ShardState.BACKOFF):
        return None
    waits = head["state"] == ShardState.BACKOFF
    return {
        "phase": PHASES[bool(head["flags"] & ShardFlag.ESTABLISHED)],
        "attempt": head["attempts"],
        "retry_delay_ms": head["evidence"]["delay_ms"] if waits else None,
    }


def _of(value: int) -> str:
    return value.name if isinstance(value, enum.Enum) else f"unknown({value})"


def _evidence(evidence: dict[str, Any], reply: dict[str, Any]) -> dict[str, Any] | None:
    """Return why the last attempt or connection ended; None when none has."""
    if evidence["failed_at"] == 0:
        return None
    return {
        "ago_ms": _since_ms(evidence["failed_at"], reply),
        "end": _of(evidence["end"]),
        "reason": REASONS.get(evidence["end"]),
        "classification": CLASSIFICATIONS.get(evidence["classification"]),
        "stop": _of(evidence["stop"]) if evidence["stop"] else None,
        "refusal": _of(evidence["refusal"]).lower() if evidence["refusal"] else None,
        "attempt": evidence["attempt"],
        "lost": bool(evidence["lost"]),
        "required_wait_ms": evidence["required_wait_ms"],
        "phase": _of(evidence["phase"]),
        "error": evidence["error"],
        "error_text": describe(evidence["error"]),
        "tcp_state": _name(TcpState, evidence["tcp_state"]),
        "tls_state": _name(TlsState, evidence["tls_state"]),
        "close_code": evidence["close_code"] or None,
        "http_status": evidence["http_status"] or None,
        "sequence": evidence["sequence"] if evidence["sequence_valid"] else None,
        "connected_ms": evidence["connected_ms"],
        "delay_ms": evidence["delay_ms"],
        "next_step": NEXT[evidence["next_step"]] if evidence["next_step"] else None,
    }
