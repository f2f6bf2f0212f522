"""What an operator asks of nodes."""

from emulator.effects import World, model
from emulator.models.fleet.held import entries, held_stop
from emulator.models.fleet.records import NAME, Text
from emulator.models.fleet.tokens import text_differs
from firmware.layouts.bus import BUS, BUS_IN
from firmware.layouts.fleet import FLEET, FLEET_VIEW, HeldPhase, HeldSlot, Holder, SlotView
from firmware.layouts.fleet_sites import FLEET_ASKED
from firmware.layouts.node import CLOCK, CORE


@model
def node_put(w: World) -> int:
    """Two tokens."""
    view, message = w.g(FLEET_VIEW), w.g(BUS_IN)
    value = Text(w, message.body, message.body_len)
    view.drained = 0
    if not value.starts():
        return 1
    mode = value.word()
    if not value.whole or mode not in (b"open", b"drain"):
        return 1
    if mode == b"drain":
        view.drained = 1
    return 0


@model
def move_put(w: World, slot: int) -> int:
    """Three tokens; only the name counts, not the boot."""
    view, message, bus = w.g(FLEET_VIEW).slots[slot], w.g(BUS_IN), w.g(BUS)
    value = Text(w, message.body, message.body_len)
    view.wish, view.claim_at = Holder.NOBODY, 0
    if not value.starts():
        return 1
    generation, node = value.number(), value.word()
    if not value.whole or not NAME.fullmatch(node):
        return 1
    at = message.body + message.body_len - len(node)
    other = text_differs(w, at, len(node), bus.offset_of("node"), bus.node_len)
    view.wish = Holder.OTHER if other else Holder.MINE
    view.wish_generation = generation
    return 0


@model
def move_wish(w: World, view: int, generation: int) -> int:
    """Nobody, when the generation is another one."""
    slot = w.view(SlotView, view)
    return int(slot.wish) if slot.wish_generation == generation else Holder.NOBODY


@model
def slot_yield(w: World, held: int, reason: int, span: int) -> None:
    """It stops, and is not claimed before the time is over."""
    held_stop(w, held, reason)
    slot = w.view(HeldSlot, held).slot
    until = w.g(CORE).now + span * w.g(CLOCK).tsc_cycles_per_ms
    w.g(FLEET).avoid_until[8 * slot : 8 * slot + 8] = (until % 2**64).to_bytes(8, "little")


@model
def orders_obey(w: World) -> None:
    """What is granted, and neither stops already nor is gone."""
    fleet, view = w.g(FLEET), w.g(FLEET_VIEW)
    for held in entries(w):
        if held.phase not in (HeldPhase.HELD, HeldPhase.RUNNING):
            continue
        give = fleet.closing or view.drained
        if not give:
            wish = move_wish(w, view.slots[held.slot].address_, held.generation)
            give = wish == Holder.OTHER
        if give:
            slot_yield(w, held.address_, FLEET_ASKED.code, 5_000)
