"""A shard whose code faulted: FATAL with its evidence, and nothing of another shard changes."""

from emulator.memory import Region
from firmware.errors import CPU_FAULT
from firmware.layouts.cpu import FAULTS
from firmware.layouts.log import LOG, LOG_RING
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.permit import PERMITS
from firmware.layouts.shard import End, Phase, ShardContext, ShardState
from firmware.layouts.tcp import TcpState
from firmware.layouts.tls_arena import TlsArena
from firmware.layouts.tls_pool import TLS_POOL
from firmware.limits import WINDOW_ARENAS
from firmware.shard.defect import shard_defect
from tests.support.lab import Lab

LAB = Lab(
    shard_defect, extra=[Region("arena", WINDOW_ARENAS, TlsArena.SIZE, foreign=True)]
)  # fmt: skip


def test_shard_defect_keeps_evidence_and_stops_the_shard():
    LAB.reset()
    LAB.g(CLOCK).tsc_cycles_per_ms, LAB.g(CORE).now = 1000, 90_000
    LAB.g(PERMITS).max_concurrency = 1
    faults = LAB.g(FAULTS)
    faults.pending, faults.vector, faults.rip = 1, 14, 0x6000_1234
    faults.address, faults.error = 0x7000_4000, 2
    other = LAB.machine.read(LAB.shard(1), ShardContext.SIZE)
    shard = LAB.shard(0)
    context = LAB.view(ShardContext, shard)
    context.state, context.phase, context.shard_id = ShardState.STARTING, Phase.HELLO, 5
    context.tcp.state, context.attempt_deadline = TcpState.ESTABLISHED, 12345
    context.phase_deadline = context.close_deadline = 99
    LAB.call(shard_defect, shard=shard)
    assert (context.state, context.tcp.state) == (ShardState.FATAL, TcpState.CLOSED)
    kept = context.evidence
    assert (kept.end, kept.phase) == (End.DEFECT, Phase.HELLO)
    assert (kept.error, kept.tcp_state) == (CPU_FAULT.code | 14, TcpState.ESTABLISHED)
    assert context.attempt_deadline == context.phase_deadline == context.close_deadline == 0
    assert faults.pending == 0
    assert LAB.machine.read(LAB.image.address(LOG_RING), LAB.g(LOG).head).decode() == (
        "t=90 level=error shard=5 code=cpu.shard_fault vector=14 rip=0x60001234 "
        "address=0x70004000 error=0x2\n"
        "t=90 level=error shard=5 code=lifecycle.connectionEnded attempt=0 stop=defect "
        "reported=defect budgetMs=0 refusal=none closeCode=0 "
        "reason=defect classification=defect error=0x101000e tcp=established tls=idle "
        "stage=hello known=none text=\"Shard 5 could not connect. The node's own code failed before "
        'Hello. The node does not retry what failed by its own fault"\n'
    )
    assert LAB.machine.read(LAB.shard(1, wipe=False), ShardContext.SIZE) == other


def test_its_arena_its_keys_and_its_place_in_the_queue_are_free():
    LAB.reset()
    LAB.g(PERMITS).max_concurrency, LAB.g(CLOCK).tsc_cycles_per_ms = 1, 1000
    pool, first, second = LAB.g(TLS_POOL), LAB.shard(0), LAB.shard(1)
    tls, keys = LAB.view(ShardContext, first).tls, LAB.view(ShardContext, first).tls_keys
    pool.slots[0].address, pool.slots[0].owner = WINDOW_ARENAS, first
    LAB.machine.write(WINDOW_ARENAS, b"secret")
    tls.arena_ptr, keys.send.secret[:] = WINDOW_ARENAS, b"s" * 48
    LAB.call(shard_defect, shard=first)
    assert (pool.slots[0].owner, tls.arena_ptr) == (0, 0)
    assert LAB.machine.read(WINDOW_ARENAS, 6) == bytes(6)
    assert bytes(keys.send.secret) == bytes(48)
    pool.queue[0].shard, pool.queue[1].shard, pool.waiting = first, second, 2
    LAB.call(shard_defect, shard=first)
    assert (pool.waiting, pool.queue[0].shard) == (1, second)
