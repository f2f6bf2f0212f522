"""A node that holds nothing: when it doubts its watch, and how often it goes to another server."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.fleet.idle import server_leave, watch_idle
from firmware.layouts.bus import LinkState
from firmware.layouts.clock import NEVER
from firmware.layouts.fleet import FLEET, FLEET_VIEW, WatchState
from firmware.layouts.fleet_sites import FLEET_IDLE, FLEET_UNANSWERED
from firmware.layouts.node import CORE
from tests.support.bus import BusBench
from tests.support.fleet import set_fields
from tests.support.segments import CYCLES_PER_MS as MS
from tests.support.segments import NOW
from tests.support.states import around

BENCH = BusBench(server_leave, watch_idle)
LAB = BENCH.lab


@pytest.fixture(autouse=True)
def node():
    prepare()


def prepare(servers=3):
    BENCH.reset()
    BENCH.up()
    BENCH.servers(servers)
    set_fields(LAB.g(FLEET), watch=WatchState.SYNCED, watch_sid=4097, resyncs=4)


def idle(due=NEVER):
    LAB.call(watch_idle, due=due)
    return LAB.g(FLEET)


# -- a watch that shows nothing new ---------------------------------------------------------------
def test_watch_idle_is_made_anew_after_half_a_minute_to_a_minute():
    spans = set()
    for _ in range(8):
        LAB.g(FLEET).idle_at = 0
        spans.add(idle().idle_at - NOW)
    assert all(30_000 * MS <= span < 60_000 * MS for span in spans)
    assert len(spans) == 8, "they are jittered"


@pytest.mark.parametrize(("late", "ended"), [(-1, False), (0, True), (1, True)])
@pytest.mark.parametrize("now", [NOW, 2**63])
def test_watch_idle_ends_what_has_shown_nothing_for_so_long(now, late, ended):
    LAB.g(CORE).now, LAB.g(FLEET).idle_at = now, now - late
    LAB.g(FLEET_VIEW).drained = 1
    fleet = idle()
    assert (fleet.watch == WatchState.OFF, fleet.idle_at == 0) == (ended, ended)
    assert (fleet.error, LAB.g(FLEET_VIEW).drained) == ((FLEET_IDLE.code, 0) if ended else (0, 1))


@pytest.mark.parametrize(
    ("due", "state", "holding"),
    [
        (NOW, WatchState.SYNCED, 0),
        (NEVER - 1, WatchState.SYNCED, 0),
        (NEVER, WatchState.OFF, 0),
        (NEVER, WatchState.CREATING, 0),
        (NEVER, WatchState.SYNCING, 0),
        (NEVER, WatchState.SYNCED, 1),
    ],
)
def test_watch_idle_leaves_a_watch_that_is_of_use(due, state, holding):
    """A claim that is awaited would lose its wait; who holds something renews it."""
    set_fields(LAB.g(FLEET), watch=state, holding=holding, idle_at=NOW - 1)
    fleet = idle(due)
    assert (fleet.watch, fleet.idle_at, fleet.error) == (state, 0, 0)


@settings(max_examples=60, deadline=None)
@given(
    due=st.sampled_from([0, NOW, NEVER - 1, NEVER]),
    state=st.sampled_from(WatchState),
    holding=st.integers(0, 2),
    at=st.one_of(st.just(0), around(NOW)),
)
def test_watch_idle_any_state_matches_the_model(due, state, holding, at):
    prepare()
    set_fields(LAB.g(FLEET), watch=state, holding=holding, idle_at=at)
    idle(due)


# -- another server -------------------------------------------------------------------------------
def leave():
    """Ask for another server; say whether the node went."""
    BENCH.link.state = LinkState.UP
    LAB.call(server_leave, link=BENCH.link.address_, shard=BENCH.shard)
    return BENCH.link.state == LinkState.DOWN


@pytest.mark.parametrize("servers", [1, 3, 8])
def test_server_leave_tries_each_server_and_takes_its_time_then(servers):
    prepare(servers)
    fleet, link = LAB.g(FLEET), BENCH.link
    for count in range(1, servers + 1):
        assert fleet.move_at == 0
        assert leave()
        assert (fleet.left, link.server, link.error) == (
            count, count % servers, FLEET_UNANSWERED.code,
        )  # fmt: skip
    assert NOW + 10_000 * MS <= fleet.move_at < NOW + 20_000 * MS
    assert not leave()
    LAB.g(CORE).now = fleet.move_at + 1
    assert leave()
    assert fleet.left == servers
    assert fleet.move_at >= LAB.g(CORE).now + 10_000 * MS


@pytest.mark.parametrize("now", [NOW, 2**63])
@pytest.mark.parametrize(("late", "goes"), [(-1, False), (0, False), (1, True)])
def test_server_leave_without_a_slot_waits_and_asks_for_a_watch_less_often(now, late, goes):
    LAB.g(CORE).now = now
    fleet = LAB.g(FLEET)
    set_fields(fleet, left=3, move_at=now - late, resync_at=5)
    assert leave() == goes
    if goes:
        assert fleet.resync_at == 5
    else:
        assert now + 1_000 * MS <= fleet.resync_at < now + 2_000 * MS


def test_server_leave_with_a_slot_never_waits():
    set_fields(LAB.g(FLEET), left=3, move_at=NOW + 9, holding=1, resync_at=5)
    assert leave()
    assert LAB.g(FLEET).resync_at == 5


@settings(max_examples=60, deadline=None)
@given(
    servers=st.integers(1, 8),
    share=st.integers(0, 8),
    holding=st.integers(0, 2),
    at=st.one_of(st.just(0), around(NOW)),
)
def test_server_leave_any_state_matches_the_model(servers, share, holding, at):
    prepare(servers)
    set_fields(LAB.g(FLEET), left=min(share, servers), holding=holding, move_at=at)
    leave()
