"""What the node's turn calls: both links, guarded, so that a fault in their code costs a link only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmware.abi import CALLER_SAVED
from firmware.bus.link import bus_fail
from firmware.bus.messages import bus_take
from firmware.bus.tick import bus_link_tick
from firmware.cpu.traps import guarded_call
from firmware.layouts.bus import BUS, LINKS, BusKind, BusLink, LinkState
from firmware.layouts.bus_sites import FAULT
from firmware.layouts.clock import NEVER
from firmware.layouts.cpu import FAULTS, Faults
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC, FleetConfig
from firmware.layouts.log import BUS_FAULT
from firmware.layouts.node import CoreState, core
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import TcpContext, TcpState
from firmware.limits import SHARDS_MAX
from firmware.log import log, log_write
from firmware.tcp.timers import tcp_tick
from toolchain.asm import (
    EAX,
    ECX,
    EDX,
    NE,
    R8,
    R9,
    R12,
    R13,
    R13D,
    R14,
    R15,
    RAX,
    RBP,
    RBX,
    RCX,
    Asm,
    B,
    E,
    In,
    Out,
    Z,
    routine,
)

if TYPE_CHECKING:
    from toolchain.asm import Routine

GUARDED = [RBX, RBP, R12, R13, R14, R15]


@routine(
    inputs=[In(RBX, ShardContext, "the workspace that FAULTS names")],
    clobbers=CALLER_SAVED,
    reads=[Faults.vector, Faults.rip, Faults.address, ShardContext.slot, BusLink.index],
    writes=[Faults.pending, TcpContext.state],
    calls=[log_write, bus_fail],
    saves=[RBP],
    source="firmware/docs/boot.md#faults; firmware/docs/bus.md#faults",
)
def bus_defect(a: Asm, shard: ShardContext) -> None:
    """Give a link up whose code faulted: no farewell, a slow retry, and the shards go on."""
    link = BusLink.at(RBP)
    a.mov(FAULTS.it.pending, 0)
    # Every register is junk after a fault, but the workspace says which link it is.
    a.movzx(EAX, shard.slot)
    a.mov(ECX, SHARDS_MAX - 1)
    a.sub(ECX, EAX)
    a.imul(ECX, ECX, BusLink.SIZE)
    a.lea(RBP, BUS.it.links.address)
    a.add(RBP, RCX)
    a.mov(shard.tcp.state, TcpState.CLOSED)
    a.movzx(EDX, link.index)
    a.mov(ECX, FAULTS.it.vector)
    a.mov(R8, FAULTS.it.rip)
    a.mov(R9, FAULTS.it.address)
    log(a, BUS_FAULT)
    a.mov(EDX, FAULTS.it.vector)
    a.or_(EDX, FAULT.code)
    a.call(bus_fail)
    a.ret()


def _guarded(a: Asm, target: Routine) -> None:
    """Call a routine for a link; after a fault in it the link is DOWN. RAX is all ones then."""
    guarded_call(a, target)
    a.cmp(FAULTS.it.pending, 0)
    with a.if_(NE):
        a.call(bus_defect)
        a.mov(RAX, NEVER)


@routine(
    inputs=[In(RBP, BusLink, "the link"), In(RBX, ShardContext, "its workspace")],
    outputs=[Out(RAX, "TSC when it wants to run again")],
    clobbers=CALLER_SAVED,
    reads=[Faults.pending],
    writes=[CoreState.current_shard],
    calls=[bus_link_tick, bus_defect],
    saves=GUARDED,
    guard=True,
    source="firmware/docs/bus.md#faults",
)
def bus_link_turn(a: Asm, link: BusLink, shard: ShardContext) -> None:
    """Tick one link; a fault in it is its own."""
    _guarded(a, bus_link_tick)
    a.ret()


@routine(
    inputs=[In(RBP, BusLink, "the link"), In(RBX, ShardContext, "its workspace")],
    outputs=[Out(RAX, "TSC when its TCP wants to run again")],
    clobbers=CALLER_SAVED,
    reads=[Faults.pending],
    writes=[CoreState.current_shard],
    calls=[tcp_tick, bus_defect],
    saves=GUARDED,
    guard=True,
    source="firmware/docs/bus.md#faults",
)
def bus_link_flush(a: Asm, link: BusLink, shard: ShardContext) -> None:
    """Let one link's TCP send; a fault in it is the link's own."""
    _guarded(a, tcp_tick)
    a.ret()


@routine(
    inputs=[In(RBP, BusLink, "the link"), In(RBX, ShardContext, "its workspace")],
    outputs=[Out(EAX, "BusKind: MESSAGE = one is in BUS_IN, until `bus_done` or the next call")],
    clobbers=CALLER_SAVED,
    reads=[Faults.pending],
    writes=[CoreState.current_shard],
    calls=[bus_take, bus_defect],
    saves=GUARDED,
    guard=True,
    source="firmware/docs/bus.md#messages",
)
def bus_next(a: Asm, link: BusLink, shard: ShardContext) -> None:
    """Take the next whole message; a fault on the way to it costs the link. For the node's code only."""
    guarded_call(a, bus_take)
    a.cmp(FAULTS.it.pending, 0)
    with a.if_(NE):
        a.call(bus_defect)
        a.mov(EAX, BusKind.NONE)
    a.ret()


@routine(
    outputs=[Out(RAX, "TSC by which the links want to be looked at; all ones = there are none")],
    clobbers=CALLER_SAVED,
    reads=[FleetConfig.magic, BusLink.context],
    calls=[bus_link_turn],
    saves=[RBX, RBP, R12, R13],
    source="firmware/docs/bus.md#turn",
)
def bus_tick(a: Asm) -> None:
    """Take both links as far as they get: dial, log in, keep alive, drop what is dead."""
    link = BusLink.at(RBP)
    a.mov(R12, NEVER)
    with a.block() as none:
        a.cmp(FLEET_CONFIG.it.magic, FLEET_MAGIC)
        a.leave(NE, none)
        a.lea(RBP, BUS.it.links.address)
        a.mov(R13D, LINKS)
        with a.loop() as links:
            a.mov(RBX, link.context)
            a.test(RBX, RBX)
            a.leave(Z, none)
            a.call(bus_link_turn)
            a.cmp(RAX, R12)
            a.cmov(B, R12, RAX)
            a.add(RBP, BusLink.SIZE)
            a.dec(R13D)
            a.again(NE, links)
    a.mov(RAX, R12)
    a.ret()


@routine(
    outputs=[Out(RAX, "TSC by which TCP of the links wants to run; all ones = on a segment only")],
    clobbers=CALLER_SAVED,
    reads=[FleetConfig.magic, BusLink.context, BusLink.state, TcpContext.state, CoreState.now],
    calls=[bus_link_flush],
    saves=[RBX, RBP, R12, R13],
    source="firmware/docs/bus.md#turn",
)
def bus_flush(a: Asm) -> None:
    """Send what was written in this turn, and what TCP owes."""
    link, shard = BusLink.at(RBP), ShardContext.at(RBX)
    a.mov(R12, NEVER)
    with a.block() as none:
        a.cmp(FLEET_CONFIG.it.magic, FLEET_MAGIC)
        a.leave(NE, none)
        a.lea(RBP, BUS.it.links.address)
        a.mov(R13D, LINKS)
        with a.loop() as links:
            a.mov(RBX, link.context)
            a.test(RBX, RBX)
            a.leave(Z, none)
            a.call(bus_link_flush)
            # What failed just now is dealt with at once.
            a.cmp(shard.tcp.state, TcpState.FAILED)
            with a.if_(E):
                a.cmp(link.state, LinkState.DOWN)
                a.cmov(NE, RAX, core.now)
            a.cmp(RAX, R12)
            a.cmov(B, R12, RAX)
            a.add(RBP, BusLink.SIZE)
            a.dec(R13D)
            a.again(NE, links)
    a.mov(RAX, R12)
    a.ret()
