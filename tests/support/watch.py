"""A watch in a lab: as it is while it shows records, and as it is when it has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmware.layouts.bus import BUS, CONTROL, LinkState
from firmware.layouts.fleet import FLEET, FLEET_VIEW, WatchState
from firmware.layouts.node import CLOCK, CORE
from tests.support.fleet import name_node
from tests.support.states import MS, NOW

if TYPE_CHECKING:
    from tests.support.lab import Lab


def begin(lab: Lab) -> None:
    """Let a node have a link and a watch that has shown nothing yet."""
    lab.reset()
    name_node(lab)
    lab.g(CLOCK).tsc_cycles_per_ms, lab.g(CORE).now = MS, NOW
    link = lab.g(BUS).links[CONTROL]
    link.state, link.ups = LinkState.UP, 1
    fleet = lab.g(FLEET)
    fleet.ups, fleet.watch, fleet.heard_at = 1, WatchState.SYNCING, NOW


def ended(lab: Lab) -> int | None:
    """Return the site of the watch's end; None while it lives."""
    fleet, view = lab.g(FLEET), lab.g(FLEET_VIEW)
    if fleet.watch != WatchState.OFF:
        return None
    assert (view.plan.revision, view.slots[0].revision, view.slots[0].state) == (0, 0, 0)
    assert (fleet.consumer_seq, fleet.watch_inbox) == (0, 0)
    return int(fleet.error)
