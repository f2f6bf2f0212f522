"""What a shard becomes whose own code faulted (decision 6)."""

from firmware.abi import CALLER_SAVED
from firmware.errors import CPU_FAULT
from firmware.layouts.cpu import FAULTS, Faults
from firmware.layouts.log import CONNECTION_ENDED, CPU_SHARD_FAULT
from firmware.layouts.node import CoreState, core
from firmware.layouts.shard import End, Evidence, Phase, ShardContext, ShardState, Stop
from firmware.layouts.tcp import TcpContext, TcpState
from firmware.log import log, log_write
from firmware.shard.evidence import copy_evidence
from firmware.shard.permit import permit_release
from firmware.shard.verdict import classify
from firmware.tls.pool import tls_arena_give
from firmware.tls.protect import tls_erase
from toolchain.asm import EAX, EDX, R8, R9, RAX, RBX, RCX, Asm, In, routine


@routine(
    inputs=[In(RBX, ShardContext, "the shard that FAULTS names")],
    clobbers=CALLER_SAVED,
    reads=[
        Faults.vector,
        Faults.rip,
        Faults.address,
        Faults.error,
        CoreState.now,
    ],
    writes=[
        Faults.pending,
        ShardContext.last_error,
        ShardContext.failure,
        ShardContext.state,
        ShardContext.phase,
        ShardContext.disconnected_at,
        ShardContext.connected_at,
        ShardContext.attempt_deadline,
        ShardContext.phase_deadline,
        ShardContext.close_deadline,
        TcpContext.state,
        Evidence.stop,
    ],
    calls=[copy_evidence, permit_release, tls_erase, tls_arena_give, classify, log_write],
    source="firmware/docs/boot.md#faults",
)
def shard_defect(a: Asm, shard: ShardContext) -> None:
    """Make the shard FATAL with its evidence; its half-done work is not trusted with a farewell."""
    a.mov(FAULTS.it.pending, 0)
    a.mov(EAX, FAULTS.it.vector)
    a.or_(EAX, CPU_FAULT.code)
    a.mov(shard.last_error, EAX)
    a.mov(shard.failure, End.DEFECT)
    a.call(copy_evidence)
    a.call(permit_release)
    # Nothing runs this shard again: what it holds of others', and its keys, go now.
    a.call(tls_erase)
    a.call(tls_arena_give)
    a.mov(RAX, core.now)
    a.mov(shard.disconnected_at, RAX)
    a.xor(EAX, EAX)
    a.mov(shard.connected_at, RAX)
    a.mov(shard.attempt_deadline, RAX)
    a.mov(shard.phase_deadline, RAX)
    a.mov(shard.close_deadline, RAX)
    a.mov(shard.phase, Phase.NONE)
    a.mov(shard.tcp.state, TcpState.CLOSED)
    a.mov(shard.state, ShardState.FATAL)
    a.mov(EDX, FAULTS.it.vector)
    a.mov(RCX, FAULTS.it.rip)
    a.mov(R8, FAULTS.it.address)
    a.mov(R9, FAULTS.it.error)
    log(a, CPU_SHARD_FAULT, RBX)
    a.mov(shard.evidence.stop, Stop.DEFECT)
    a.call(classify)
    log(a, CONNECTION_ENDED, RBX)
    a.ret()
