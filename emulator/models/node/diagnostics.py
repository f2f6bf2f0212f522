"""Diagnostics over UDP."""

from emulator.effects import World, model
from emulator.models.net.udp import udp_answer, udp_finish
from emulator.models.node.diagnostics_links import describe_links
from emulator.models.node.fleet_status import describe_fleet
from emulator.models.node.owner import owner_at, owner_tasks
from emulator.models.shard.reshard import moves_recent
from firmware.layouts.config import CONFIG
from firmware.layouts.control import CONTROL
from firmware.layouts.crypto import DRBG
from firmware.layouts.enrol import ENROL
from firmware.layouts.log import LOG
from firmware.layouts.node import CLOCK, CORE, LEASE, NETWORK, PLAN
from firmware.layouts.plan import MOVES
from firmware.layouts.shard import ShardContext
from firmware.layouts.smbios import SMBIOS
from firmware.layouts.status import (
    AGE_UNKNOWN,
    DIAGNOSTICS,
    SHARD_HEAD_BYTES,
    STATUS_REPLY_MAGIC,
    STATUS_REQUEST_MAGIC,
    StatusReply,
)
from firmware.layouts.stop import STOP
from firmware.layouts.survivor import SURVIVAL, SURVIVOR
from firmware.layouts.token import TOKEN


@model
def age_in_ms(w: World, since: int) -> int:
    """Whole milliseconds; unknown when it never happened or the clock is not calibrated."""
    cycles = w.g(CLOCK).tsc_cycles_per_ms
    if not since or not cycles:
        return AGE_UNKNOWN
    return min(int((w.g(CORE).now - since) % 2**64 // cycles), AGE_UNKNOWN - 1)


@model
def describe_node(w: World, reply: int) -> None:
    """The node part."""
    answer, core, lease, plan = w.view(StatusReply, reply), w.g(CORE), w.g(LEASE), w.g(PLAN)
    answer.slots_used, answer.now, answer.turns = core.slots_used, core.now, core.turns
    answer.lease_expired, answer.lease_generation = lease.expired, lease.generation
    answer.lease_deadline = lease.deadline
    answer.global_total, answer.local_start = plan.global_total, plan.local_start
    answer.local_count, answer.ip = plan.local_count, w.g(NETWORK).ip
    answer.cycles_per_ms, answer.boot_tsc = w.g(CLOCK).tsc_cycles_per_ms, w.g(CLOCK).boot_tsc
    answer.log_dropped, answer.entropy_weak = w.g(LOG).dropped, w.g(DRBG).weak
    answer.entropy_sources[:] = bytes(w.g(DRBG).sources)
    answer.requests_bad = w.g(DIAGNOSTICS).bad
    answer.stop_phase = w.g(STOP).phase
    answer.plan_generation, answer.leaving = plan.generation, w.g(MOVES).leaving
    answer.recommended = w.g(MOVES).recommended
    control = w.g(CONTROL)
    answer.boots, answer.identified = w.g(SURVIVOR).boots, w.g(SURVIVOR).identified
    answer.identify_allowance = w.g(CONFIG).identify_allowance
    answer.crash_hold = w.g(SURVIVAL).held
    answer.commands, answer.commands_bad = control.accepted, control.bad + control.refused
    answer.uuid[:], answer.serial[:] = bytes(w.g(SMBIOS).uuid), bytes(w.g(SMBIOS).serial)
    enrol = w.g(ENROL)
    answer.token_known = int(w.g(TOKEN).length != 0)
    answer.enrol_state, answer.enrol_refused = enrol.state, enrol.refused
    answer.enrol_error, answer.fingerprint[:] = enrol.error, enrol.digest[:8]
    answer.plan_moves = moves_recent(w)
    describe_links(w, reply)


@model
def describe_shard(w: World, shard: int, reply: int) -> None:
    """The shard part: the head of the context as it is, then states and ages."""
    context, answer = w.view(ShardContext, shard), w.view(StatusReply, reply)
    gateway = context.gateway
    answer.tcp_state, answer.tls_state = context.tcp.state, context.tls.state
    tls = context.tls
    answer.tls_suite, answer.tls_group = tls.suite, tls.group
    answer.tls_anchor, answer.tls_key = tls.anchor, tls.key_kind
    answer.ws_state, answer.gateway_state = context.websocket.state, gateway.state
    answer.heartbeat_interval_ms = gateway.heartbeat_interval_ms
    answer.latency_ms = gateway.latency_ms
    answer.ack_age_ms = age_in_ms(w, gateway.last_ack_at)
    answer.frame_age_ms = age_in_ms(w, gateway.last_frame_at)
    answer.tasks = owner_tasks(w, shard)
    answer.shard[:] = w.read(shard, SHARD_HEAD_BYTES)


@model
def diagnostics_input(w: World, request: int, length: int, source: int, port: int) -> None:
    """One request, one answer of the same size; anything else is counted."""
    asked, counters = w.view(StatusReply, request), w.g(DIAGNOSTICS)
    if length < StatusReply.SIZE or asked.magic != STATUS_REQUEST_MAGIC:
        counters.bad += 1
        return
    place, refused = udp_answer(w)
    if refused:
        return
    counters.requests += 1
    slot, nonce = asked.slot, asked.nonce
    w.write(place, bytes(StatusReply.SIZE))
    answer = w.view(StatusReply, place)
    answer.magic, answer.nonce, answer.slot = STATUS_REPLY_MAGIC, nonce, slot
    describe_node(w, place)
    describe_fleet(w, place)
    shard, none = owner_at(w, slot)
    if not none:
        describe_shard(w, shard, place)
    udp_finish(w, source, StatusReply.SIZE, w.g(CONFIG).diagnostics_port, port)
