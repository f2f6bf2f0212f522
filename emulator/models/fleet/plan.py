"""The value of `ctl.plan`."""

from emulator.effects import World, model
from emulator.models.fleet.records import PLUS, Text, fits
from firmware.layouts.fleet import (
    DURATION_MAX_MS,
    DURATION_MIN_MS,
    FLEET_SLOTS_MAX,
    PlanMode,
    PlanView,
)
from firmware.layouts.permit import PERMITS_MAX
from firmware.layouts.plan import TOTAL_MAX


@model
def plan_record(w: World, text: int, size: int, plan: int) -> int:
    """Seven tokens, then as many ranges as the last of them says."""
    view, value = w.view(PlanView, plan), Text(w, text, size)
    view.mode = PlanMode.UNKNOWN
    if not value.starts():
        return 1
    mode = {b"active": PlanMode.ACTIVE, b"drain": PlanMode.DRAIN}.get(value.word())
    if mode is None:
        return 1
    names = ("epoch", "total", "max_concurrency", "duration_ms", "slots")
    numbers = {name: value.number() for name in names}
    total = numbers["total"]
    if not value.fine() or not 1 <= total <= TOTAL_MAX:
        return 1
    if not 1 <= numbers["max_concurrency"] <= PERMITS_MAX:
        return 1
    if not DURATION_MIN_MS <= numbers["duration_ms"] <= DURATION_MAX_MS:
        return 1
    if not 1 <= numbers["slots"] <= FLEET_SLOTS_MAX:
        return 1
    covered = 0
    for n in range(numbers["slots"]):
        start = value.number(PLUS)
        if not value.fine() or start < covered:
            return 1
        view.ranges[n].start = start
        count = value.number()
        if not value.fine():
            return 1
        view.ranges[n].count = count
        if not fits(start, count, total):
            return 1
        covered = start + count
    if not value.whole:
        return 1
    for name, number in numbers.items():
        setattr(view, name, number)
    view.mode = mode
    return 0
