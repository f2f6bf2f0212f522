"""How a link ends and how it comes UP; the one place that decides when the next attempt is due."""

from firmware.abi import CALLER_SAVED
from firmware.crypto.drbg import drbg_u64
from firmware.errors import Layer
from firmware.layouts.bus import (
    BUS_IN,
    REFUSED_MS,
    RETRY_DOUBLINGS,
    RETRY_MAX_MS,
    RETRY_MIN_MS,
    RETRY_SPREAD_MS,
    BusKind,
    BusLink,
    BusMessage,
    LinkState,
)
from firmware.layouts.bus_sites import REFUSALS
from firmware.layouts.fleet_config import FLEET_CONFIG, FleetConfig
from firmware.layouts.log import BUS_DOWN, BUS_REFUSED, BUS_RETRY, BUS_UP
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import TcpContext
from firmware.log import log, log_write
from firmware.tls.transport import tls_abort
from toolchain.asm import (
    AE,
    CL,
    EAX,
    ECX,
    EDI,
    EDX,
    NE,
    R8D,
    R9,
    R9D,
    R12,
    R12D,
    R13,
    R13D,
    RAX,
    RBP,
    RBX,
    A,
    Asm,
    B,
    E,
    In,
    Reg32,
    routine,
)

REFUSED_FROM = (Layer.BUS << 8 | REFUSALS) << 16
REFUSED_TO = (Layer.BUS << 8 | 0xFF) << 16


@routine(
    inputs=[
        In(RBP, BusLink, "the link"),
        In(RBX, ShardContext, "its workspace"),
        In(EDX, int, "why: layer << 24 | site << 16 | detail"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        BusLink.state, BusLink.failures, BusLink.server, BusLink.told, BusLink.index,
        FleetConfig.servers_used, Clock.tsc_cycles_per_ms, CoreState.now,
    ],
    writes=[
        BusLink.state, BusLink.failures, BusLink.server, BusLink.told, BusLink.error,
        BusLink.next_try, BusLink.message_bytes, BusLink.skip, BusLink.aside, BusMessage.kind,
        BusLink.midway, ShardContext.failure,
    ],
    calls=[drbg_u64, log_write, tls_abort],
    saves=[R12, R13],
    source="firmware/docs/bus.md#ends",
)  # fmt: skip
def bus_fail(a: Asm, link: BusLink, shard: ShardContext, error: Reg32) -> None:
    """Reset the connection, say why, and choose server and time of the next attempt."""
    delay = R13
    a.mov(R12D, error)
    a.mov(link.error, error)
    a.mov(link.message_bytes, 0)
    a.mov(link.skip, 0)
    a.mov(link.aside, 0)
    a.mov(BUS_IN.it.kind, BusKind.NONE)

    # 50 to 250 ms, doubled with every attempt in a row; what the operator has to mend waits longer.
    a.call(drbg_u64)
    a.mov(EAX, EAX)
    a.xor(EDX, EDX)
    a.mov(ECX, RETRY_SPREAD_MS)
    a.div(ECX)
    a.add(EDX, RETRY_MIN_MS)
    a.mov(ECX, link.failures)
    a.mov(EAX, RETRY_DOUBLINGS)
    a.cmp(ECX, EAX)
    a.cmov(A, ECX, EAX)
    a.shl(EDX, CL)
    a.mov(EAX, RETRY_MAX_MS)
    a.cmp(EDX, EAX)
    a.cmov(A, EDX, EAX)
    a.mov(EAX, R12D)
    a.sub(EAX, REFUSED_FROM)
    a.cmp(EAX, REFUSED_TO - REFUSED_FROM)
    with a.if_(B), a.block() as others:
        # Other servers of the list may know the login; after the last one the operator is waited for.
        a.mov(EAX, link.server)
        a.inc(EAX)
        a.movzx(ECX, FLEET_CONFIG.it.servers_used)
        a.cmp(EAX, ECX)
        a.leave(B, others)
        a.mov(EDX, REFUSED_MS)
    a.mov(R13D, EDX)
    a.imul(delay, CLOCK.it.tsc_cycles_per_ms)
    a.mov(RAX, delay)
    a.add(RAX, core.now)
    a.mov(link.next_try, RAX)
    a.inc(link.failures)

    # What is told again and again is told in detail only.
    code, chosen = EAX, a.label("chosen")
    a.mov(ECX, R12D)
    a.sub(ECX, REFUSED_FROM)
    a.mov(code, BUS_REFUSED)
    a.cmp(ECX, REFUSED_TO - REFUSED_FROM)
    a.j(B, chosen)
    a.mov(code, BUS_DOWN)
    a.cmp(link.state, LinkState.UP)
    a.j(E, chosen)
    a.cmp(link.told, R12D)
    a.j(NE, chosen)
    a.mov(code, BUS_RETRY)
    a.place(chosen)
    a.mov(link.told, R12D)
    a.movzx(EDX, link.index)
    a.mov(ECX, R12D)
    a.mov(R8D, link.server)
    a.mov(R9, delay)
    a.xor(EDI, EDI)  # a line of the node's own
    a.call(log_write)

    # The next server of the list, this one again when there is no other.
    a.mov(EAX, link.server)
    a.inc(EAX)
    a.movzx(ECX, FLEET_CONFIG.it.servers_used)
    a.cmp(EAX, ECX)
    with a.if_(AE):
        a.xor(EAX, EAX)
    a.mov(link.server, EAX)
    a.mov(link.state, LinkState.DOWN)
    a.mov(link.midway, 0)
    a.call(tls_abort)
    a.mov(shard.failure, 0)  # so that TLS notes the next one
    a.ret()


@routine(
    inputs=[In(RBP, BusLink, "a link in HELLO"), In(RBX, ShardContext, "its workspace")],
    clobbers=CALLER_SAVED,
    reads=[
        BusLink.index, BusLink.version, TcpContext.remote_ip, TcpContext.remote_port, CoreState.now,
    ],
    writes=[
        BusLink.state, BusLink.failures, BusLink.ups, BusLink.told, BusLink.last_rx, BusLink.asked,
    ],
    calls=[log_write],
    source="firmware/docs/bus.md#states",
)  # fmt: skip
def bus_up(a: Asm, link: BusLink, shard: ShardContext) -> None:
    """Take the link into use: PONG has answered our PING, so the login was right."""
    a.mov(link.state, LinkState.UP)
    a.mov(link.failures, 0)
    a.mov(link.told, 0)
    a.mov(link.asked, 0)
    a.mov(RAX, core.now)
    a.mov(link.last_rx, RAX)
    a.inc(link.ups)
    a.movzx(EDX, link.index)
    a.mov(ECX, shard.tcp.remote_ip)
    a.movzx(R8D, shard.tcp.remote_port)
    a.mov(R9D, link.version)
    log(a, BUS_UP)
    a.ret()
