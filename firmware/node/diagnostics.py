"""Diagnostics over UDP: read-only, no secret in the answer, never longer than the question."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.control import CONTROL, Control
from firmware.layouts.crypto import DRBG, Drbg
from firmware.layouts.enrol import ENROL, Enrol
from firmware.layouts.gateway import GatewayContext
from firmware.layouts.log import LOG, LogState
from firmware.layouts.node import (
    CLOCK,
    LEASE,
    NETWORK,
    PLAN,
    Clock,
    CoreState,
    Lease,
    Network,
    Plan,
    core,
)
from firmware.layouts.plan import MOVES, Moves
from firmware.layouts.shard import ShardContext
from firmware.layouts.smbios import SERIAL_MAX, SMBIOS, UUID_BYTES, Smbios
from firmware.layouts.status import (
    AGE_UNKNOWN,
    DIAGNOSTICS,
    SHARD_HEAD_BYTES,
    STATUS_REPLY_MAGIC,
    STATUS_REQUEST_MAGIC,
    Diagnostics,
    StatusReply,
)
from firmware.layouts.stop import STOP, Stop
from firmware.layouts.survivor import SURVIVAL, SURVIVOR, Survival, Survivor
from firmware.layouts.tcp import TcpContext
from firmware.layouts.tls import TlsContext
from firmware.layouts.token import TOKEN, BotToken
from firmware.layouts.websocket import WebSocketContext
from firmware.net.udp import udp_answer, udp_finish
from firmware.node.diagnostics_links import describe_links
from firmware.node.fleet_status import describe_fleet
from firmware.node.owner import owner_at, owner_tasks
from firmware.shard.reshard import moves_recent
from toolchain.asm import (
    AL,
    EAX,
    ECX,
    EDX,
    NE,
    R8,
    R8D,
    R9D,
    R12,
    R13,
    R13D,
    R14,
    R14D,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    C,
    In,
    Out,
    Reg32,
    Reg64,
    routine,
)


@routine(
    inputs=[In(RAX, int, "TSC of an event; 0 = it never happened")],
    outputs=[Out(EAX, "milliseconds since then; all ones = never, or no clock")],
    clobbers=[RCX, RDX],
    reads=[CoreState.now, Clock.tsc_cycles_per_ms],
    source="firmware/docs/lifecycle.md#diagnostics",
)
def age_in_ms(a: Asm, since: Reg64) -> None:
    """Turn a TSC stamp into an age."""
    unknown = a.label("unknown")
    a.mov(RCX, since)
    a.test(RCX, RCX)
    a.jz(unknown)
    a.mov(RAX, core.now)
    a.sub(RAX, RCX)
    a.mov(RCX, CLOCK.it.tsc_cycles_per_ms)
    a.test(RCX, RCX)
    a.jz(unknown)
    a.xor(EDX, EDX)
    a.div(RCX)
    # After 49 days an age would begin anew and look like a fresh one: it stays at the longest.
    a.mov(ECX, AGE_UNKNOWN - 1)
    a.cmp(RAX, RCX)
    a.cmov(A, RAX, RCX)
    a.ret()
    a.place(unknown)
    a.mov(EAX, AGE_UNKNOWN)
    a.ret()


@routine(
    inputs=[In(RDI, StatusReply, "where the node part goes; zeroed")],
    clobbers=[RAX, RCX, RDX, RSI],
    reads=[
        CoreState.slots_used,
        CoreState.now,
        CoreState.turns,
        Lease.expired,
        Lease.generation,
        Lease.deadline,
        Clock.tsc_cycles_per_ms,
        Clock.boot_tsc,
        Plan.global_total,
        Plan.local_start,
        Plan.local_count,
        Plan.generation,
        Moves.leaving,
        Moves.recommended,
        Network.ip,
        LogState.dropped,
        Drbg.weak,
        Drbg.sources,
        Diagnostics.bad,
        Control.accepted,
        Control.bad,
        Control.refused,
        Stop.phase,
        ConfigBlob.identify_allowance,
        Survivor.boots,
        Survivor.identified,
        Survival.held,
        Smbios.uuid,
        Smbios.serial,
        BotToken.length,
        Enrol.state,
        Enrol.refused,
        Enrol.error,
        Enrol.digest,
    ],
    writes=[
        StatusReply.slots_used,
        StatusReply.now,
        StatusReply.turns,
        StatusReply.lease_expired,
        StatusReply.lease_generation,
        StatusReply.lease_deadline,
        StatusReply.cycles_per_ms,
        StatusReply.boot_tsc,
        StatusReply.global_total,
        StatusReply.local_start,
        StatusReply.local_count,
        StatusReply.ip,
        StatusReply.log_dropped,
        StatusReply.entropy_weak,
        StatusReply.entropy_sources,
        StatusReply.requests_bad,
        StatusReply.commands,
        StatusReply.commands_bad,
        StatusReply.stop_phase,
        StatusReply.plan_generation,
        StatusReply.plan_moves,
        StatusReply.leaving,
        StatusReply.recommended,
        StatusReply.boots,
        StatusReply.identified,
        StatusReply.identify_allowance,
        StatusReply.crash_hold,
        StatusReply.uuid,
        StatusReply.serial,
        StatusReply.token_known,
        StatusReply.enrol_state,
        StatusReply.enrol_refused,
        StatusReply.enrol_error,
        StatusReply.fingerprint,
    ],
    calls=[moves_recent, describe_links],
    source="firmware/docs/lifecycle.md#diagnostics",
)
def describe_node(a: Asm, reply: StatusReply) -> None:
    """Fill the node part of an answer."""
    # Unrolled: one load and one store per field.
    for source, target in (
        (core.slots_used, reply.slots_used),
        (LEASE.it.expired, reply.lease_expired),
        (PLAN.it.global_total, reply.global_total),
        (PLAN.it.local_start, reply.local_start),
        (PLAN.it.local_count, reply.local_count),
        (NETWORK.it.ip, reply.ip),
        (DRBG.it.weak, reply.entropy_weak),
        (DRBG.it.sources.m32(), reply.entropy_sources.m32()),
        (DIAGNOSTICS.it.bad, reply.requests_bad),
        (CONTROL.it.accepted, reply.commands),
        (STOP.it.phase, reply.stop_phase),
        (PLAN.it.generation, reply.plan_generation),
        (MOVES.it.leaving, reply.leaving),
        (MOVES.it.recommended, reply.recommended),
        (SURVIVOR.it.boots, reply.boots),
        (SURVIVOR.it.identified, reply.identified),
        (CONFIG.it.identify_allowance, reply.identify_allowance),
        (SURVIVAL.it.held, reply.crash_hold),
        (ENROL.it.state, reply.enrol_state),
        (ENROL.it.refused, reply.enrol_refused),
        (ENROL.it.error, reply.enrol_error),
    ):
        a.mov(EAX, source)
        a.mov(target, EAX)
    # Whether there is a token, and nothing more of it.
    a.xor(EAX, EAX)
    a.cmp(TOKEN.it.length, 0)
    a.set(NE, AL)
    a.mov(reply.token_known, EAX)
    a.mov(RAX, ENROL.it.digest.m64())
    a.mov(reply.fingerprint.m64(), RAX)
    a.mov(EAX, CONTROL.it.bad)
    a.add(EAX, CONTROL.it.refused)
    a.mov(reply.commands_bad, EAX)
    for wide, place in (
        (core.now, reply.now),
        (core.turns, reply.turns),
        (LEASE.it.generation, reply.lease_generation),
        (LEASE.it.deadline, reply.lease_deadline),
        (CLOCK.it.tsc_cycles_per_ms, reply.cycles_per_ms),
        (CLOCK.it.boot_tsc, reply.boot_tsc),
        (LOG.it.dropped, reply.log_dropped),
    ):
        a.mov(RAX, wide)
        a.mov(place, RAX)
    machine = SMBIOS.it
    pairs = ((machine.uuid, reply.uuid, UUID_BYTES), (machine.serial, reply.serial, SERIAL_MAX))
    for source_bytes, target_bytes, size in pairs:
        for at in range(0, size, 8):
            a.mov(RAX, source_bytes.m64(at))
            a.mov(target_bytes.m64(at), RAX)
    a.call(moves_recent)
    a.mov(reply.plan_moves, EAX)
    a.call(describe_links)
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(RDI, StatusReply, "where the shard part goes"),
    ],
    clobbers=[RAX, RCX, RDX, RSI],
    reads=[
        TcpContext.state,
        TlsContext.state,
        TlsContext.suite,
        TlsContext.group,
        TlsContext.anchor,
        TlsContext.key_kind,
        WebSocketContext.state,
        GatewayContext.state,
        GatewayContext.heartbeat_interval_ms,
        GatewayContext.latency_ms,
        GatewayContext.last_ack_at,
        GatewayContext.last_frame_at,
    ],
    writes=[
        StatusReply.tcp_state,
        StatusReply.tls_state,
        StatusReply.ws_state,
        StatusReply.gateway_state,
        StatusReply.heartbeat_interval_ms,
        StatusReply.latency_ms,
        StatusReply.ack_age_ms,
        StatusReply.frame_age_ms,
        StatusReply.tls_anchor,
        StatusReply.tls_suite,
        StatusReply.tls_group,
        StatusReply.tls_key,
        StatusReply.tasks,
    ],
    calls=[age_in_ms, owner_tasks],
    saves=[RDI],
    source="firmware/docs/lifecycle.md#diagnostics",
)
def describe_shard(a: Asm, shard: ShardContext, reply: StatusReply) -> None:
    """Fill the shard part: the lifecycle fields and evidence as they are, states, ages."""
    for source, target in (
        (shard.tcp.state, reply.tcp_state),
        (shard.tls.state, reply.tls_state),
        (shard.websocket.state, reply.ws_state),
        (shard.gateway.state, reply.gateway_state),
        (shard.gateway.heartbeat_interval_ms, reply.heartbeat_interval_ms),
        (shard.gateway.latency_ms, reply.latency_ms),
        (shard.tls.key_kind, reply.tls_key),
    ):
        a.mov(EAX, source)
        a.mov(target, EAX)
    a.mov(RAX, shard.tls.anchor)
    a.mov(reply.tls_anchor, RAX)
    a.movzx(EAX, shard.tls.suite)
    a.mov(reply.tls_suite, EAX)
    a.movzx(EAX, shard.tls.group)
    a.mov(reply.tls_group, EAX)
    a.mov(RAX, shard.gateway.last_ack_at)
    a.call(age_in_ms)
    a.mov(reply.ack_age_ms, EAX)
    a.mov(RAX, shard.gateway.last_frame_at)
    a.call(age_in_ms)
    a.mov(reply.frame_age_ms, EAX)

    a.call(owner_tasks)
    a.mov(reply.tasks, EAX)
    a.lea(RSI, shard.state)
    a.lea(RDI, reply.shard.address)
    a.mov(ECX, SHARD_HEAD_BYTES // 8)
    a.rep_movsq()
    a.ret()


@routine(
    inputs=[
        In(RSI, StatusReply, "received UDP payload"),
        In(ECX, int, "its bytes"),
        In(EDX, int, "source address, as on the wire"),
        In(R8D, int, "source port"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        StatusReply.magic,
        StatusReply.slot,
        StatusReply.nonce,
        ConfigBlob.diagnostics_port,
    ],
    writes=[
        StatusReply.magic,
        StatusReply.slot,
        StatusReply.nonce,
        Diagnostics.requests,
        Diagnostics.bad,
    ],
    calls=[udp_answer, udp_finish, describe_node, describe_fleet, describe_shard, owner_at],
    saves=[RBX, R12, R13, R14],
    source="firmware/docs/lifecycle.md#diagnostics",
)
def diagnostics_input(
    a: Asm, request: StatusReply, length: Reg32, source: Reg32, port: Reg32
) -> None:
    """Answer one request about one slot; a bad one is counted and gets nothing."""
    bad, node_only = a.label("bad"), a.label("node_only")
    asked = StatusReply.at(R12)

    # The answer is as long as the smallest request, so the node never amplifies.
    a.cmp(length, StatusReply.SIZE)
    a.j(B, bad)
    a.cmp(request.magic, STATUS_REQUEST_MAGIC)
    a.j(NE, bad)
    a.mov(R12, RSI)
    a.mov(R13D, source)
    a.mov(R14D, port)
    a.call(udp_answer)
    with a.if_(C):
        a.ret()
    a.inc(DIAGNOSTICS.it.requests)
    reply = StatusReply.at(RDI)
    a.mov(R8, RDI)
    a.xor(EAX, EAX)
    a.mov(ECX, StatusReply.SIZE // 8)
    a.rep_stosq()
    a.mov(RDI, R8)
    a.mov(reply.magic, STATUS_REPLY_MAGIC)
    a.mov(RAX, asked.nonce)
    a.mov(reply.nonce, RAX)
    a.mov(EAX, asked.slot)
    a.mov(reply.slot, EAX)
    a.call(describe_node)
    a.call(describe_fleet)
    a.mov(EDX, asked.slot)
    a.call(owner_at)
    a.j(C, node_only)
    a.mov(RBX, RDX)
    a.call(describe_shard)
    a.place(node_only)
    a.mov(EDX, R13D)
    a.mov(ECX, StatusReply.SIZE)
    a.movzx(R8D, CONFIG.it.diagnostics_port)
    a.mov(R9D, R14D)
    a.call(udp_finish)
    a.ret()
    a.place(bad)
    a.inc(DIAGNOSTICS.it.bad)
    a.ret()
