"""The turn of the links: what came, what is due, and what leaves."""

from firmware.abi import CALLER_SAVED
from firmware.bus.dial import bus_connected, bus_dial, bus_secure
from firmware.bus.lines import bus_lines, bus_readable
from firmware.bus.link import bus_fail
from firmware.bus.send import bus_ping, bus_pong
from firmware.layouts.bus import (
    ATTEMPT_MS,
    IDLE_MS,
    PING_AFTER_MS,
    SILENT_MS,
    WORD_MS,
    BusLink,
    LinkName,
    LinkState,
)
from firmware.layouts.bus_sites import CLOSED, LAME_DUCK, SILENT, TIMEOUT
from firmware.layouts.clock import NEVER
from firmware.layouts.fleet_config import FLEET_CONFIG, FleetConfig
from firmware.layouts.node import CLOCK, NETWORK, Clock, CoreState, Network, core
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import TcpContext, TcpState
from firmware.layouts.tls import TlsContext, TlsState
from firmware.tls.stream import tls_ended
from toolchain.asm import (
    AE,
    AL,
    BE,
    EAX,
    ECX,
    EDX,
    NE,
    R8,
    R8D,
    R12,
    R12D,
    RAX,
    RBP,
    RBX,
    RCX,
    A,
    Asm,
    B,
    C,
    E,
    In,
    Out,
    Reg64,
    routine,
)


@routine(
    inputs=[In(RBP, BusLink, "a link from CONNECT on"), In(RBX, ShardContext, "its workspace")],
    outputs=[Out(EAX, "the error by which the connection is over; 0 = it goes on")],
    clobbers=CALLER_SAVED,
    reads=[
        TcpContext.state, TcpContext.error, TlsContext.state, TlsContext.error,
    ],
    calls=[tls_ended, bus_readable],
    source="firmware/docs/bus.md#ends",
)  # fmt: skip
def bus_over(a: Asm, link: BusLink, shard: ShardContext) -> None:
    """Tell whether TCP or TLS failed, or the server has ended the stream and all of it was read."""
    on, tls_failed, closed = a.label("on"), a.label("tls_failed"), a.label("closed")
    a.mov(EAX, shard.tcp.error)
    a.cmp(shard.tcp.state, TcpState.FAILED)
    with a.if_(E):
        a.ret()
    a.cmp(shard.tcp.state, TcpState.CLOSED)
    a.j(E, closed)
    a.cmp(shard.tls.state, TlsState.FAILED)
    a.j(E, tls_failed)
    a.call(tls_ended)
    with a.if_(C):
        a.cmp(shard.tls.state, TlsState.FAILED)
        a.j(NE, on)
        a.place(tls_failed)
        a.mov(EAX, shard.tls.error)
        a.ret()
    a.call(bus_readable)
    a.test(ECX, ECX)
    a.j(NE, on)
    a.place(closed)
    a.mov(EAX, CLOSED.code)
    a.ret()
    a.place(on)
    a.xor(EAX, EAX)
    a.ret()


def _span(a: Asm, link: BusLink, target: Reg64, times: tuple[int, int]) -> None:
    """Put the time of a link into a register, as cycles. ECX changes."""
    low = {RAX: EAX, RCX: ECX}[target]
    other = EDX
    a.mov(low, times[LinkName.CONTROL])
    a.mov(other, times[LinkName.DATA])
    a.cmp(link.index, LinkName.CONTROL)
    a.cmov(NE, low, other)
    a.imul(target, CLOCK.it.tsc_cycles_per_ms)


@routine(
    inputs=[In(RBP, BusLink, "a link that is UP"), In(RBX, ShardContext, "its workspace")],
    outputs=[
        Out(EAX, "the error by which the link is over; 0 = it goes on"),
        Out(R8, "TSC when it wants to be looked at again; 0 when it is over"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        BusLink.index, BusLink.last_rx, BusLink.rx_seen, BusLink.asked, BusLink.pong_owed,
        BusLink.lame_duck, FleetConfig.servers_used, TcpContext.rcv_nxt, CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[BusLink.last_rx, BusLink.rx_seen, BusLink.asked],
    calls=[bus_ping, bus_pong],
    source="firmware/docs/bus.md#keepalive",
)  # fmt: skip
def bus_keep(a: Asm, link: BusLink, shard: ShardContext) -> None:
    """Answer what is owed, ask a server that says nothing, give up one that answers nothing."""
    over, on = a.label("over"), a.label("on")
    a.mov(EAX, shard.tcp.rcv_nxt)
    a.cmp(EAX, link.rx_seen)
    with a.if_(NE):
        a.mov(link.rx_seen, EAX)
        a.mov(link.asked, 0)
        a.mov(RCX, core.now)
        a.mov(link.last_rx, RCX)
    a.cmp(link.pong_owed, 0)
    with a.if_(NE):
        a.call(bus_pong)
    a.cmp(link.lame_duck, 0)
    with a.if_(NE):
        a.mov(EAX, LAME_DUCK.code)
        a.cmp(FLEET_CONFIG.it.servers_used, 1)
        a.j(A, over)
    _span(a, link, RCX, SILENT_MS)
    a.add(RCX, link.last_rx)
    a.mov(EAX, SILENT.code)
    a.cmp(RCX, core.now)
    a.j(BE, over)
    a.cmp(link.asked, 0)
    with a.if_(E):
        _span(a, link, RAX, PING_AFTER_MS)
        a.add(RAX, link.last_rx)
        a.mov(R8, RAX)
        a.cmp(RAX, core.now)
        a.j(A, on)
        a.call(bus_ping)
    _span(a, link, RCX, SILENT_MS)
    a.add(RCX, link.last_rx)
    a.mov(R8, RCX)
    a.place(on)
    a.xor(EAX, EAX)
    a.ret()
    a.place(over)
    a.xor(R8D, R8D)
    a.ret()


@routine(
    inputs=[In(RBP, BusLink, "the link"), In(RBX, ShardContext, "its workspace")],
    outputs=[Out(RAX, "TSC when it wants to run again; all ones = not before a frame")],
    clobbers=CALLER_SAVED,
    reads=[
        BusLink.state, BusLink.next_try, BusLink.attempt_deadline, BusLink.rx_seen, BusLink.last_rx,
        TcpContext.rcv_nxt, Clock.tsc_cycles_per_ms, CoreState.now, Network.configured,
    ],
    writes=[
        BusLink.state, BusLink.attempt_deadline, BusLink.informed, BusLink.pong_owed, BusLink.asked,
    ],
    calls=[bus_dial, bus_connected, bus_secure, bus_lines, bus_over, bus_keep, bus_fail],
    saves=[R12],
    source="firmware/docs/bus.md#states",
)  # fmt: skip
def bus_link_tick(a: Asm, link: BusLink, shard: ShardContext) -> None:
    """Take a link as far as it gets in this turn."""
    run, down, fail, moved, keep = map(a.label, ("run", "down", "fail", "moved", "keep"))
    a.cmp(link.state, LinkState.DOWN)
    a.j(NE, run)
    a.mov(RAX, NEVER)
    a.cmp(CLOCK.it.tsc_cycles_per_ms, 0)
    with a.if_(E):
        a.ret()
    a.mov(RAX, link.next_try)
    a.cmp(RAX, core.now)
    with a.if_(A):
        a.ret()
    a.cmp(NETWORK.it.configured, 0)
    with a.if_(E):
        a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, IDLE_MS)
        a.add(RAX, core.now)
        a.ret()
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, ATTEMPT_MS)
    a.add(RAX, core.now)
    a.mov(link.attempt_deadline, RAX)
    a.xor(EAX, EAX)
    for field in (link.informed, link.pong_owed, link.asked):  # unrolled: three marks
        a.mov(field, AL)
    a.mov(link.state, LinkState.RESOLVE)

    # Every step may let the next one begin; states only go on, so this ends.
    a.place(run)
    handlers = {
        LinkState.RESOLVE: bus_dial, LinkState.CONNECT: bus_connected, LinkState.TLS: bus_secure,
    }  # fmt: skip
    with a.loop() as steps:
        a.mov(R12D, link.state)
        for state, handler in handlers.items():  # unrolled: three states
            other = a.label(f"not_{state.name}")
            a.cmp(R12D, state)
            a.j(NE, other)
            a.call(handler)
            a.jmp(moved)
            a.place(other)
        a.call(bus_lines)
        a.place(moved)
        a.mov(EAX, link.state)
        a.cmp(EAX, LinkState.DOWN)
        a.j(E, down)
        a.cmp(EAX, R12D)
        a.again(NE, steps)

    a.cmp(EAX, LinkState.CONNECT)
    with a.if_(AE):
        a.call(bus_over)
        a.mov(EDX, EAX)
        a.test(EAX, EAX)
        a.j(NE, fail)
        a.cmp(link.state, LinkState.UP)
        a.j(E, keep)
    a.mov(EDX, TIMEOUT.code)
    a.mov(RAX, link.attempt_deadline)
    # The server has less time for its first byte: the next one may be well.
    with a.block() as spoken:
        a.mov(ECX, link.state)
        a.cmp(ECX, LinkState.CONNECT)
        a.leave(B, spoken)
        with a.block() as dialled:
            a.leave(E, dialled)
            a.cmp(ECX, LinkState.TLS)
            a.leave(A, spoken)
            a.mov(ECX, shard.tcp.rcv_nxt)
            a.cmp(ECX, link.rx_seen)
            a.leave(NE, spoken)
        a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, WORD_MS)
        a.add(RCX, link.last_rx)
        a.cmp(RCX, RAX)
        a.cmov(B, RAX, RCX)
    a.cmp(RAX, core.now)
    a.j(BE, fail)
    a.ret()
    a.place(keep)
    a.call(bus_keep)
    a.mov(EDX, EAX)
    a.test(EAX, EAX)
    a.j(NE, fail)
    a.mov(RAX, R8)
    a.ret()
    a.place(fail)
    a.call(bus_fail)
    a.place(down)
    a.mov(RAX, link.next_try)
    a.ret()
