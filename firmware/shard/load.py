"""How long a shard that has not started waits for a saved session."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.handover import LOAD_WAIT_MS
from firmware.layouts.log import SESSION_LOAD_FAILED
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.plan import MOVES, Moves
from firmware.layouts.policy import STARTUP, SessionProvider, Startup
from firmware.layouts.shard import Hold, SessionLoad, ShardContext, ShardFlag
from firmware.log import log, log_write
from firmware.shard.startup import startup_begin
from toolchain.asm import EAX, EDX, NZ, RAX, RBX, RCX, RDX, A, Asm, B, E, In, Out, routine


@routine(
    inputs=[In(RBX, ShardContext, "a shard in ASSIGNED that may start but for this")],
    outputs=[Out(EAX, "SESSION_LOAD while it waits for a saved session; 0 = it waits no more")],
    clobbers=CALLER_SAVED,
    reads=[
        ConfigBlob.session_provider,
        ConfigBlob.load_timeout_ms,
        ShardContext.load,
        ShardContext.load_deadline,
        ShardContext.flags,
        Moves.wait_ms,
        Startup.deadline,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[ShardContext.load, ShardContext.load_deadline],
    calls=[startup_begin, log_write],
    source="firmware/docs/lifecycle.md#session-load",
)
def session_wait(a: Asm, shard: ShardContext) -> None:
    """Wait within the load's budget, which the startup's end bounds; a move sets its own; then go on."""
    cycles, settled = CLOCK.it.tsc_cycles_per_ms, a.label("settled")
    a.cmp(CONFIG.it.session_provider, SessionProvider.NONE)
    a.j(E, settled)
    a.cmp(shard.load, SessionLoad.SETTLED)
    a.j(E, settled)
    a.cmp(shard.load_deadline, 0)
    with a.if_(E):
        a.cmp(CONFIG.it.load_timeout_ms, 0)
        a.j(E, settled)  # the host has told beforehand that it keeps none
        a.cmp(STARTUP.it.deadline, 0)
        with a.if_(E):
            a.call(startup_begin)
        # max(1 ms, min(load timeout, what is left of the startup))
        a.mov(EAX, CONFIG.it.load_timeout_ms)
        a.imul(RAX, cycles)
        a.xor(EDX, EDX)
        a.mov(RCX, STARTUP.it.deadline)
        a.sub(RCX, core.now)
        a.cmov(B, RCX, RDX)
        a.cmp(RAX, RCX)
        a.cmov(A, RAX, RCX)
        a.mov(RCX, cycles)
        a.cmp(RAX, RCX)
        a.cmov(B, RAX, RCX)
        a.add(RAX, core.now)
        a.mov(shard.load_deadline, RAX)
    a.mov(RAX, shard.load_deadline)
    a.cmp(RAX, core.now)
    with a.if_(A):
        a.mov(EAX, Hold.SESSION_LOAD)
        a.ret()
    a.mov(shard.load, SessionLoad.SETTLED)
    a.mov(EDX, CONFIG.it.load_timeout_ms)
    a.test(shard.flags, ShardFlag.ESTABLISHED)
    with a.if_(NZ):
        a.mov(EDX, MOVES.it.wait_ms)  # it came with a move
    a.cmp(CONFIG.it.session_provider, SessionProvider.BUS)
    with a.if_(E):
        a.mov(EDX, LOAD_WAIT_MS)
    log(a, SESSION_LOAD_FAILED, RBX)
    a.place(settled)
    a.xor(EAX, EAX)
    a.ret()
