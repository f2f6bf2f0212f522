"""What a node and its shards may tell of themselves over UDP: ready, failed, held."""

from firmware.errors import NIC_RING
from firmware.layouts.entropy import SourceState
from firmware.layouts.gateway import GatewayState
from firmware.layouts.shard import Classification, End, Gap, Hold, Phase, ShardFlag, ShardState
from firmware.layouts.status import AGE_UNKNOWN
from firmware.layouts.stop import StopPhase
from firmware.layouts.tcp import TcpState
from firmware.layouts.tls import TlsState
from firmware.layouts.websocket import WsState
from tests.support.fake_node import FakeShard

NODE = {
    "token_known": 1,
    "now": 10_000_000,
    "cycles_per_ms": 1000,
    "boot_tsc": 4_000_000,
    "turns": 77,
    "global_total": 32,
    "local_start": 8,
    "local_count": 3,
    "ip": 0x0F02000A,  # 10.0.2.15 as loaded from the wire
    "lease_generation": 5,
    "lease_deadline": 12_500_000,
    "log_dropped": 2,
    "commands": 9,
    "commands_bad": 4,
    "stop_phase": StopPhase.DRAINING,
    "entropy_sources": bytes([SourceState.FAILED, SourceState.CREDITED, 0, 0]),
}
READY = FakeShard(
    {
        "state": ShardState.READY,
        "shard_id": 8,
        "flags": ShardFlag.SEQ_VALID | ShardFlag.ESTABLISHED,
        "sequence": 41,
        "attempts": 1,
        "identifies": 1,
        "dispatches": 40,
    },
    {
        "tcp_state": TcpState.ESTABLISHED,
        "tls_state": TlsState.PASS_THROUGH,
        "ws_state": WsState.OPEN,
        "gateway_state": GatewayState.READY,
        "ack_age_ms": 1500,
        "frame_age_ms": 85,
        "latency_ms": 3,
        "heartbeat_interval_ms": 41250,
    },
)
FAILED = FakeShard(
    {
        "state": ShardState.BACKOFF,
        "shard_id": 9,
        "sequence": 0xFFFF_FFFF,
        "reconnects": 2**63,
        "reconnect_deadline": 13_200_000,
        "last_error": NIC_RING.code | 7,
        "hb_misses": 4,
        "evidence": {
            "error": NIC_RING.code,
            "tcp_state": TcpState.FAILED,
            "tls_state": TlsState.FAILED,
            "end": End.TCP_FAILED,
            "phase": Phase.HELLO,
            "close_code": 4009,
            "sequence": 17,
            "sequence_valid": 1,
            "delay_ms": 5000,
            "failed_at": 8_200_000,
            "connected_ms": 61_000,
            "http_status": 503,
            "next_step": 1,
            "classification": Classification.NETWORK,
            "attempt": 2,
            "lost": 1,
        },
        "flags": ShardFlag.ESTABLISHED,
        "disconnected_at": 8_200_000,
        "attempts": 2,
        "gap": Gap.PARTIAL,
        "gap_from": 12,
        "hole_first": 14,
        "hole_last": 17,
    },
    {"tcp_state": TcpState.CLOSED, "ack_age_ms": AGE_UNKNOWN, "frame_age_ms": AGE_UNKNOWN,
     "latency_ms": AGE_UNKNOWN},
)  # fmt: skip
HELD = FakeShard({"state": ShardState.ASSIGNED, "hold": Hold.NO_CLOCK, "shard_id": 10})
