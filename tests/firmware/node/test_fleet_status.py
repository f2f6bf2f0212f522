"""What diagnostics say of the fleet, and that a node alone says nothing of it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.layouts.fleet import FLEET, FLEET_VIEW, HELD_MAX, HeldPhase, PlanMode, WatchState
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.fleet_sites import FLEET_GAP
from firmware.layouts.handover import HANDOVER
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.status import StatusReply
from firmware.node.fleet_status import describe_fleet
from tests.support.fleet import set_fields
from tests.support.lab import Lab
from tests.support.states import MS, NOW, around
from toolchain.layout.pack import unpack

LAB = Lab(describe_fleet, slots=0)
SESSIONS = {
    "taken": "taken", "saved": "saves", "refused": "refused", "late": "late", "lost": "lost",
    "ignored": "ignored",
}  # fmt: skip
"""Names of the answer, and of the counters."""


def prepare():
    LAB.reset()
    LAB.g(CLOCK).tsc_cycles_per_ms, LAB.g(CORE).now = MS, NOW
    LAB.g(FLEET_CONFIG).magic = FLEET_MAGIC


def describe():
    at = LAB.put(bytes(StatusReply.SIZE), first=True)
    LAB.call(describe_fleet, reply=at)
    reply = unpack(StatusReply, LAB.machine.read(at, StatusReply.SIZE))
    return reply, reply["fleet_held"]


def test_describe_fleet_shows_plan_watch_and_slots():
    prepare()
    fleet = LAB.g(FLEET)
    set_fields(fleet, watch=WatchState.SYNCED, closing=1, error=FLEET_GAP.code)
    set_fields(LAB.g(FLEET_VIEW).plan, mode=PlanMode.DRAIN, epoch=70_000)
    set_fields(
        fleet.held[7], phase=HeldPhase.STOPPING, slot=63, shards=254, generation=9,
        hard_stop=NOW + 1_500 * MS,
    )  # fmt: skip
    for n, name in enumerate(SESSIONS.values()):
        setattr(LAB.g(HANDOVER), name, 400 + n)
    reply, places = describe()
    assert [reply["sessions_" + name] for name in SESSIONS] == [400, 401, 402, 403, 404, 405]
    assert (reply["fleet_watch"], reply["fleet_plan"]) == (WatchState.SYNCED, PlanMode.DRAIN)
    assert (reply["fleet_closing"], reply["fleet_epoch"]) == (1, 70_000)
    assert reply["fleet_error"] == FLEET_GAP.code
    assert not any(any(place.values()) for place in places[:7])
    assert places[7] == {
        "phase": HeldPhase.STOPPING, "slot": 63, "shards": 254, "generation": 9, "left_ms": 1_500,
    }  # fmt: skip


def test_describe_fleet_of_a_node_alone_is_zero():
    prepare()
    LAB.g(FLEET_CONFIG).magic, LAB.g(FLEET).watch = 0, WatchState.SYNCED
    LAB.g(HANDOVER).taken = 1
    reply, _ = describe()
    assert not any(
        reply[name] for name in reply
        if name.startswith(("fleet", "sessions")) and name != "fleet_held"
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    phases=st.lists(st.sampled_from(HeldPhase), min_size=HELD_MAX, max_size=HELD_MAX),
    stops=st.lists(around(NOW, 2**63), min_size=HELD_MAX, max_size=HELD_MAX),
    cycles=st.sampled_from([0, 1, MS]),
)
def test_describe_fleet_any_places_match_the_model(phases, stops, cycles):
    prepare()
    LAB.g(CLOCK).tsc_cycles_per_ms = cycles
    for n, (phase, stop) in enumerate(zip(phases, stops, strict=True)):
        set_fields(LAB.g(FLEET).held[n], phase=phase, hard_stop=stop, slot=n, generation=n)
    describe()
