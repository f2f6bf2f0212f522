"""The verbs of a listener."""

from emulator.effects import World, model
from emulator.models.events.subscribers import events_subscribe, events_unsubscribe
from firmware.layouts.control import CONTROL, ControlRequest, ControlResult
from firmware.layouts.events import EVENT_SHARDS_ALL
from firmware.layouts.node import CLOCK


@model
def control_subscribe(
    w: World, request: int, length: int, answer: int, room: int
) -> tuple[int, int, int]:
    """All shards, or a run of them; told to the address that the request came from."""
    state, lease_ms = w.g(CONTROL), w.view(ControlRequest, request).argument
    if lease_ms >= 2**32 or length not in (0, 8):
        return ControlResult.ARGUMENT, 0, 0
    first, count = 0, EVENT_SHARDS_ALL
    if length:
        first, count = (w.u32(request + ControlRequest.SIZE + at) for at in (0, 4))
    lost, refused = events_subscribe(w, state.asker, state.asker_port, lease_ms, first, count)
    if refused:
        no_clock = not w.g(CLOCK).tsc_cycles_per_ms
        return (ControlResult.NO_CLOCK if no_clock else ControlResult.LISTENERS_FULL), 0, 0
    return ControlResult.DONE, lost, 0


@model
def control_unsubscribe(
    w: World, request: int, length: int, answer: int, room: int
) -> tuple[int, int, int]:
    """Done, whether there was a place or not."""
    events_unsubscribe(w, w.g(CONTROL).asker, w.g(CONTROL).asker_port)
    return ControlResult.DONE, 0, 0
