"""What a turn does for the fleet: messages, leases, the shards of held slots, their commands."""

from firmware.abi import CALLER_SAVED
from firmware.events.deliver import publish_next
from firmware.fleet.turn import fleet_next, fleet_tick
from firmware.layouts.bus import BUS, CONTROL, BusLink
from firmware.layouts.clock import NEVER
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC, FleetConfig
from firmware.node.commands import command_take, commands_tick
from firmware.node.fleet_diag import diag_heard
from firmware.node.handover import handover_tick
from firmware.node.handover_answer import handover_answer
from firmware.node.owning import owning_guard, owning_tick
from toolchain.asm import EAX, NE, R12, RAX, A, Asm, Out, Z, routine


@routine(
    outputs=[Out(RAX, "TSC by which it wants to run again; all ones = never")],
    clobbers=CALLER_SAVED,
    reads=[FleetConfig.magic, BusLink.context],
    calls=[
        fleet_next,
        fleet_tick,
        publish_next,
        diag_heard,
        command_take,
        commands_tick,
        handover_answer,
        handover_tick,
        owning_guard,
        owning_tick,
    ],
    saves=[R12],
    source="firmware/docs/fleet.md#turn",
)
def fleet_turn(a: Asm) -> None:
    """Take every message of the control link, then of DATA; leases, shards and subscriptions follow."""
    none = a.label("none")
    a.cmp(FLEET_CONFIG.it.magic, FLEET_MAGIC)
    with a.if_(NE):
        a.place(none)
        a.mov(RAX, NEVER)
        a.ret()
    # There was no memory for the links.
    a.lea(RAX, BUS.it.links.address)
    a.cmp(BusLink.at(RAX, CONTROL * BusLink.SIZE).context, 0)
    a.je(none)
    with a.loop() as messages:
        a.call(fleet_next)
        a.test(EAX, EAX)
        a.leave(Z, messages)
        a.call(handover_answer)
        a.jmp(messages.top)
    a.call(fleet_tick)
    a.mov(R12, RAX)
    # A slot may have been lost to somebody else just now.
    a.call(owning_guard)
    a.call(owning_tick)
    # What anybody may publish comes on the other link, and after the leases.
    with a.loop() as asked:
        a.call(publish_next)
        a.test(EAX, EAX)
        a.leave(Z, asked)
        a.call(diag_heard)
        a.call(command_take)
        a.jmp(asked.top)
    a.call(commands_tick)
    a.call(handover_tick)
    a.cmp(RAX, R12)
    a.cmov(A, RAX, R12)
    a.ret()
