"""What a shard becomes whose own code faulted."""

from emulator.effects import World, model
from emulator.models.log import log
from emulator.models.shard.evidence import copy_evidence
from emulator.models.shard.permit import permit_release
from emulator.models.shard.verdict import classify
from emulator.models.tls.pool import tls_arena_give
from emulator.models.tls.protect import tls_erase
from firmware.errors import CPU_FAULT
from firmware.layouts.cpu import FAULTS
from firmware.layouts.log import CONNECTION_ENDED, CPU_SHARD_FAULT
from firmware.layouts.node import CORE
from firmware.layouts.shard import End, Phase, ShardContext, ShardState, Stop
from firmware.layouts.tcp import TcpState


@model
def shard_defect(w: World, shard: int) -> None:
    """FATAL(DEFECT): evidence first, nothing more is sent, two lines tell what and where."""
    context, faults = w.view(ShardContext, shard), w.g(FAULTS)
    faults.pending = 0
    context.last_error = CPU_FAULT.code | faults.vector
    context.failure = End.DEFECT
    copy_evidence(w, shard)
    permit_release(w, shard)
    tls_erase(w, shard)
    tls_arena_give(w, shard)
    context.disconnected_at = w.g(CORE).now
    context.connected_at = context.attempt_deadline = 0
    context.phase_deadline = context.close_deadline = 0
    context.phase, context.tcp.state = Phase.NONE, TcpState.CLOSED
    context.state = ShardState.FATAL
    log(w, CPU_SHARD_FAULT, shard, faults.vector, faults.rip, faults.address, faults.error)
    context.evidence.stop = Stop.DEFECT
    classify(w, shard)
    log(w, CONNECTION_ENDED, shard)
