"""What an operator asks of nodes: to give every slot back, or one slot to a certain node."""

from firmware.abi import CALLER_SAVED
from firmware.fleet.grammar import CHARS, NAME_CHAR, every_char, format_take, four, small_take
from firmware.fleet.held import SLOT_SHIFT, each_held, held_stop
from firmware.fleet.tokens import TEXT, number_take, text_differs, word_take
from firmware.layouts.bus import BUS, BUS_IN, Bus, BusMessage
from firmware.layouts.fleet import (
    AVOID_MS,
    FLEET,
    FLEET_VIEW,
    Fleet,
    FleetView,
    HeldPhase,
    HeldSlot,
    Holder,
    SlotView,
)
from firmware.layouts.fleet_config import NAME_MAX
from firmware.layouts.fleet_sites import FLEET_ASKED
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from toolchain.asm import (
    AL,
    CF,
    EAX,
    ECX,
    EDX,
    NE,
    R8,
    R11D,
    R12,
    R12D,
    R13,
    R13D,
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
    E,
    In,
    Out,
    Reg32,
    mem8,
    mem32,
    routine,
)

_OPEN, _DRAIN = b"open", b"drain"


@routine(
    outputs=[Out(CF, "1 = it cannot be read")],
    clobbers=CALLER_SAVED,
    reads=[TEXT, BusMessage.body, BusMessage.body_len],
    writes=[FleetView.drained],
    calls=[number_take, word_take],
    source="firmware/docs/fleet.md#orders",
)
def node_put(a: Asm) -> None:
    """Take in hand what this node shall do; a record that cannot be read asks for nothing."""
    bad = a.label("bad")
    a.mov(FLEET_VIEW.it.drained, 0)
    a.mov(RSI, BUS_IN.it.body)
    a.mov(ECX, BUS_IN.it.body_len)
    format_take(a, RSI, ECX, bad)
    a.call(word_take)
    a.j(C, bad)
    a.cmp(RSI, R8)
    a.j(NE, bad)
    with a.block() as drain:
        a.cmp(ECX, len(_OPEN))
        a.leave(NE, drain)
        a.cmp(mem32(RDI, ref=TEXT), four(_OPEN))
        a.j(NE, bad)
        a.clc()
        a.ret()
    a.cmp(ECX, len(_DRAIN))
    a.j(NE, bad)
    a.cmp(mem32(RDI, ref=TEXT), four(_DRAIN[:4]))
    a.j(NE, bad)
    a.cmp(mem8(RDI, 4, ref=TEXT), _DRAIN[4])
    a.j(NE, bad)
    a.mov(FLEET_VIEW.it.drained, 1)
    a.clc()
    a.ret()
    a.place(bad)
    a.stc()
    a.ret()


@routine(
    inputs=[In(EDX, int, "slot, below FLEET_SLOTS_MAX")],
    outputs=[Out(CF, "1 = it cannot be read")],
    clobbers=CALLER_SAVED,
    reads=[TEXT, CHARS, BusMessage.body, BusMessage.body_len, Bus.node_len],
    writes=[SlotView.wish, SlotView.wish_generation, SlotView.claim_at],
    calls=[number_take, word_take, text_differs],
    saves=[R12, R13],
    source="firmware/docs/fleet.md#orders",
)
def move_put(a: Asm, slot: Reg32) -> None:
    """Take in hand whom a slot shall go to; when it is claimed is decided anew."""
    view, generation, bad = SlotView.at(R12), R13D, a.label("bad")
    a.mov(slot, slot)
    a.shl(RDX, SLOT_SHIFT)
    a.lea(R12, FLEET_VIEW.it.slots.address)
    a.add(R12, RDX)
    a.xor(EAX, EAX)
    a.mov(view.wish, AL)  # Holder.NOBODY
    a.mov(view.claim_at, RAX)
    a.mov(RSI, BUS_IN.it.body)
    a.mov(ECX, BUS_IN.it.body_len)
    format_take(a, RSI, ECX, bad)
    small_take(a, bad)
    a.mov(generation, EAX)
    a.call(word_take)
    a.j(C, bad)
    a.cmp(RSI, R8)
    a.j(NE, bad)
    a.cmp(ECX, NAME_MAX)
    a.j(A, bad)
    a.mov(R11D, ECX)
    every_char(a, NAME_CHAR, bad)
    a.mov(RSI, RDI)
    a.lea(RDI, BUS.it.node.address)
    a.movzx(EDX, BUS.it.node_len)
    a.call(text_differs)
    a.mov(EAX, Holder.MINE)
    with a.if_(C):
        a.mov(EAX, Holder.OTHER)
    a.mov(view.wish, AL)
    a.mov(view.wish_generation, generation)
    a.clc()
    a.ret()
    a.place(bad)
    a.stc()
    a.ret()


@routine(
    inputs=[
        In(RSI, SlotView, "a slot"),
        In(ECX, int, "generation of the lease that it has"),
    ],
    outputs=[Out(EAX, "Holder: who shall have it next; NOBODY = nobody in particular")],
    reads=[SlotView.wish, SlotView.wish_generation],
    source="firmware/docs/fleet.md#orders",
)
def move_wish(a: Asm, view: SlotView, generation: Reg32) -> None:
    """Tell whom a slot shall go to, while that counts: any claim makes another generation."""
    a.xor(EAX, EAX)
    a.cmp(view.wish_generation, generation)
    with a.if_(E):
        a.movzx(EAX, view.wish)
    a.ret()


@routine(
    inputs=[
        In(RBX, HeldSlot, "a slot in HELD or RUNNING"),
        In(EDX, int, "site code: why"),
        In(ECX, int, "milliseconds for which it is left to others"),
    ],
    clobbers=CALLER_SAVED,
    reads=[HeldSlot.slot, CoreState.now, Clock.tsc_cycles_per_ms],
    writes=[Fleet.avoid_until],
    calls=[held_stop],
    saves=[R12],
    source="firmware/docs/fleet.md#release",
)
def slot_yield(a: Asm, held: HeldSlot, reason: Reg32, span: Reg32) -> None:
    """Stop a slot that somebody else shall have, and leave it to others for a while."""
    a.mov(R12D, span)
    a.call(held_stop)
    a.mov(RAX, CLOCK.it.tsc_cycles_per_ms)
    a.imul(RAX, R12)
    a.add(RAX, core.now)
    a.movzx(ECX, held.slot)
    a.lea(RDX, FLEET.address)
    a.mov(Fleet.at(RDX).avoid_until.m64(index=RCX, scale=8), RAX)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[
        Fleet.closing,
        FleetView.drained,
        HeldSlot.phase,
        HeldSlot.slot,
        HeldSlot.generation,
    ],
    calls=[move_wish, slot_yield],
    saves=[RBX, R12],
    source="firmware/docs/fleet.md#orders",
)
def orders_obey(a: Asm) -> None:
    """Give back what somebody else shall have: all of it in a drain or a stop, a slot by a move."""
    held = HeldSlot.at(RBX)
    with each_held(a) as following:
        give = a.label("give")
        a.cmp(held.phase, HeldPhase.HELD)
        a.j(B, following)
        a.cmp(held.phase, HeldPhase.RUNNING)
        a.j(A, following)
        a.cmp(FLEET.it.closing, 0)
        a.j(NE, give)
        a.cmp(FLEET_VIEW.it.drained, 0)
        a.j(NE, give)
        a.movzx(EAX, held.slot)
        a.shl(EAX, SLOT_SHIFT)
        a.lea(RSI, FLEET_VIEW.it.slots.address)
        a.add(RSI, RAX)
        a.mov(ECX, held.generation)
        a.call(move_wish)
        a.cmp(EAX, Holder.OTHER)
        a.j(NE, following)
        a.place(give)
        a.mov(EDX, FLEET_ASKED.code)
        a.mov(ECX, AVOID_MS)
        a.call(slot_yield)
    a.ret()
