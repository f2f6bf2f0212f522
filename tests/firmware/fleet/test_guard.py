"""Hard stops to the cycle, and an RTC that tells of a pause which the TSC does not know."""

import calendar
import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.environment import Environment
from firmware.fleet.guard import clocks_compare, fleet_guard, fleet_look, leases_end, rtc_glimpse
from firmware.layouts.fleet import FLEET, HELD_MAX, HIDDEN_MS, HeldPhase
from firmware.layouts.fleet_config import FLEET_CONFIG
from firmware.layouts.fleet_sites import FLEET_EXPIRED, FLEET_FROZEN
from firmware.layouts.node import CLOCK, CORE, LEASE
from tests.support.fleet import name_node, set_fields
from tests.support.lab import Lab
from tests.support.rtc import BINARY_24, Rtc
from tests.support.states import MS, NOW, around

LAB = Lab(clocks_compare, fleet_guard, fleet_look, leases_end, rtc_glimpse, slots=0)
OWNED = (HeldPhase.HELD, HeldPhase.RUNNING, HeldPhase.STOPPING)
BEGIN = datetime.datetime(2026, 11, 30, 23, 59, 50)
UNIX = calendar.timegm(BEGIN.timetuple())


@pytest.fixture(autouse=True)
def node():
    prepare()


def prepare():
    LAB.reset()
    name_node(LAB)
    LAB.g(CLOCK).tsc_cycles_per_ms, LAB.g(CORE).now = MS, NOW
    LAB.g(FLEET).rtc_look_at = 2**64 - 1


def hold(place, phase, stop=NOW):
    held = LAB.g(FLEET).held[place]
    set_fields(held, phase=phase, slot=place, hard_stop=stop, generation=7)
    LAB.g(FLEET).holding = HELD_MAX
    return held


def after(seconds):
    return BEGIN + datetime.timedelta(seconds=seconds)


@pytest.mark.parametrize("phase", OWNED)
@pytest.mark.parametrize(("late", "gone"), [(-1, False), (0, True), (1, True)])
def test_fleet_guard_ends_a_lease_at_its_hard_stop(phase, late, gone):
    held = hold(2, phase)
    LAB.call(fleet_guard, Rtc(BEGIN, tsc=NOW + late))
    assert held.phase == (HeldPhase.GONE if gone else phase)
    assert LAB.g(FLEET).expired == gone
    assert LAB.g(LEASE).expired == gone
    if gone:
        assert held.reason == FLEET_EXPIRED.code


def test_fleet_guard_without_a_fleet_looks_at_nothing():
    held = hold(0, HeldPhase.RUNNING)
    LAB.g(FLEET_CONFIG).magic = 0
    found = LAB.call(fleet_guard)
    assert (held.phase, len(found.trace)) == (HeldPhase.RUNNING, 3)


def test_fleet_guard_that_holds_nothing_reads_the_clock_alone():
    LAB.g(FLEET).holding = 0
    LAB.call(fleet_guard, Environment(tsc=[NOW]))
    LAB.g(CLOCK).tsc_cycles_per_ms = 0
    LAB.call(fleet_guard)


def test_fleet_guard_looks_at_the_rtc_every_tenth_of_a_second():
    fleet = LAB.g(FLEET)
    fleet.rtc_look_at = NOW + 1
    LAB.call(fleet_guard, Rtc(BEGIN))
    assert (fleet.rtc_second, fleet.rtc_seen) == (0, 0)
    fleet.rtc_look_at, fleet.rtc_low = NOW, BEGIN.second
    LAB.call(fleet_guard, Rtc(BEGIN))
    assert (fleet.rtc_second, fleet.rtc_tsc) == (UNIX, NOW)
    assert (fleet.rtc_look_at, fleet.rtc_seen) == (NOW + 100 * MS, 1)


def test_fleet_guard_that_holds_something_needs_no_port_in_a_turn_without_a_speaker():
    hold(0, HeldPhase.RUNNING, stop=NOW + 1)
    rtc = Rtc(BEGIN)
    LAB.call(fleet_guard, rtc)
    assert rtc.looks == 0


def test_fleet_look_of_a_node_that_holds_something_is_once_in_a_turn():
    fleet = LAB.g(FLEET)
    held, _ = base()
    rtc = Rtc(after(1), tsc=NOW + 1_000 * MS)
    assert LAB.call(fleet_look, rtc).outputs["cf"] == 1
    assert (fleet.rtc_seen, held.phase) == (1, HeldPhase.RUNNING)
    assert rtc.looks > 0
    assert LAB.call(fleet_look).outputs["cf"] == 0
    LAB.call(fleet_guard, Rtc(after(1), tsc=NOW + 1_000 * MS))
    assert LAB.call(fleet_look, Rtc(after(5), tsc=NOW + 1_000 * MS)).outputs["cf"] == 1
    assert held.phase == HeldPhase.GONE


@pytest.mark.parametrize("what", ["alone", "holds nothing", "no clock"])
def test_fleet_look_of_whom_nothing_depends_on_reads_no_port(what):
    hold(0, HeldPhase.RUNNING)
    if what == "alone":
        LAB.g(FLEET_CONFIG).magic = 0
    elif what == "holds nothing":
        LAB.g(FLEET).holding = 0
    else:
        LAB.g(CLOCK).tsc_cycles_per_ms = 0
    assert LAB.call(fleet_look).outputs["cf"] == 0


def test_leases_end_leaves_claims_and_releases_to_their_own_time():
    entries = [hold(n, phase, stop=0) for n, phase in enumerate(HeldPhase)]
    LAB.call(leases_end, Environment(tsc=[NOW]), reason=FLEET_EXPIRED.code)
    kept = {HeldPhase.NONE, HeldPhase.CLAIMING, HeldPhase.RELEASING}
    assert [held.phase for held in entries] == [
        phase if phase in kept else HeldPhase.GONE for phase in HeldPhase
    ]
    assert LAB.g(FLEET).expired == 3


def test_leases_end_of_a_clock_that_stood_still_ends_everything():
    entries = [hold(n, phase, stop=NOW + 10**12) for n, phase in enumerate(HeldPhase)]
    LAB.call(leases_end, Environment(tsc=[NOW]), reason=FLEET_FROZEN.code)
    assert {held.phase for held in entries} == {HeldPhase.NONE, HeldPhase.GONE}
    assert [held.phase for held in entries].count(HeldPhase.GONE) == 4
    assert LAB.g(LEASE).expired == 1


@settings(max_examples=60, deadline=None)
@given(
    phases=st.lists(st.sampled_from(HeldPhase), min_size=HELD_MAX, max_size=HELD_MAX),
    stops=st.lists(around(NOW, 2**63), min_size=HELD_MAX, max_size=HELD_MAX),
    reason=st.sampled_from([FLEET_EXPIRED, FLEET_FROZEN]),
)
def test_leases_end_any_entries_match_the_model(phases, stops, reason):
    prepare()
    for n, (phase, stop) in enumerate(zip(phases, stops, strict=True)):
        hold(n, phase, stop)
    LAB.call(leases_end, Environment(tsc=[NOW]), reason=reason.code)


def compare(rtc_s, tsc_ms, *, sharp=True, **how):
    """Compare when the RTC has gone on by so much, and the TSC by so much, since the base."""
    now = NOW + tsc_ms * MS
    LAB.g(FLEET).rtc_look_at = now - 100 * MS - (not sharp)
    environment = Rtc(after(rtc_s), now, **how)
    LAB.call(clocks_compare, environment)
    return environment


def low_of(when):
    """What a look at this time leaves in `rtc_low`."""
    return (when.hour << 16 | when.minute << 8 | when.second) + 1


def base(low=None):
    held = hold(0, HeldPhase.RUNNING, stop=2**63)
    fleet = LAB.g(FLEET)
    second = BEGIN.second if low is None else low
    set_fields(fleet, rtc_second=UNIX, rtc_tsc=NOW, rtc_low=low_of(BEGIN.replace(second=second)))
    return held, fleet


@pytest.mark.parametrize(
    ("rtc_s", "tsc_ms", "frozen"),
    [
        (1, 491, False),
        (1, 490, True),
        (2, 1_481, False),
        (2, 1_480, True),
        (2, 0, True),
        (9, 8_411, False),
        (9, 8_410, True),
        (1, 60_000, False),
        (60, 0, True),
        (60, 59_800, False),
        (3_600, 0, True),
        (82_800, 0, True),
        (61, 0, True),
        (29, 29_000, False),
        (2**20 - 1, 2_000, True),
        (2**20 - 1, (2**20 - 1) * 1_000, False),
        (2**20, (2**20) * 1_000, True),
        (-10, 1_000, False),
    ],
)
def test_clocks_compare_half_a_second_that_no_rate_explains_ends_every_lease(rtc_s, tsc_ms, frozen):
    held, fleet = base()
    compare(rtc_s, tsc_ms)
    assert held.phase == (HeldPhase.GONE if frozen else HeldPhase.RUNNING)
    assert fleet.frozen == frozen


@pytest.mark.parametrize("begins_ms", range(0, 1_000, 50))
@pytest.mark.parametrize("rate", [0.99, 1.0, 1.01])
@pytest.mark.parametrize("pause_ms", [HIDDEN_MS, 2_000, 7_300])
def test_clocks_compare_no_pause_as_long_as_the_holder_keeps_back_is_missed(
    begins_ms, rate, pause_ms
):
    """Whenever in the second it begins, the first look behind it tells."""
    held, _ = base()
    begins_ms += 9_900
    for at_ms in range(100, begins_ms, 100):
        compare(at_ms // 1_000, round(at_ms * rate))
    assert held.phase == HeldPhase.RUNNING
    compare((begins_ms + pause_ms) // 1_000, round(begins_ms * rate), sharp=False)
    assert held.phase == HeldPhase.GONE


@pytest.mark.parametrize("rate", [0.99, 1.01])
def test_clocks_compare_a_rate_within_its_bound_costs_no_lease(rate):
    held, fleet = base()
    for at_ms in range(100, 120_000, 100):
        compare(at_ms // 1_000, round(at_ms * rate))
    assert (held.phase, fleet.frozen) == (HeldPhase.RUNNING, 0)
    assert fleet.rtc_second > UNIX + 100


@pytest.mark.parametrize("minutes", [1, 2, 59, 60, 61, 23 * 60])
def test_clocks_compare_a_pause_of_whole_minutes_is_seen_in_the_second_in_which_it_ends(minutes):
    """The register of seconds is the same again, and the TSC has not moved."""
    held, fleet = base()
    compare(0, 200)
    assert held.phase == HeldPhase.RUNNING
    LAB.call(fleet_guard, Rtc(after(60 * minutes), NOW + 200 * MS))
    assert (held.phase, fleet.rtc_seen) == (HeldPhase.RUNNING, 0)
    LAB.call(fleet_look, Rtc(after(60 * minutes), NOW + 200 * MS))
    assert (held.phase, fleet.frozen) == (HeldPhase.GONE, 1)


def test_clocks_compare_small_pauses_add_up_over_the_window():
    held, fleet = base()
    compare(10, 9_600)
    assert (fleet.rtc_second, fleet.rtc_tsc) == (UNIX + 10, NOW + 9_900 * MS)
    compare(12, 11_400)
    assert (held.phase, fleet.frozen) == (HeldPhase.RUNNING, 0)
    compare(13, 12_300)
    assert (held.phase, fleet.frozen) == (HeldPhase.GONE, 1)


def test_clocks_compare_dates_the_clocks_by_a_second_that_it_saw_change():
    held, fleet = base()
    compare(9, 9_000)
    assert fleet.rtc_second == UNIX
    compare(10, 10_300, sharp=False)
    assert (fleet.rtc_second, held.phase) == (UNIX, HeldPhase.RUNNING)
    compare(11, 11_000)
    assert (fleet.rtc_second, fleet.rtc_tsc) == (UNIX + 11, NOW + 11_000 * MS)
    compare(7, 31_000)
    assert (fleet.rtc_second, held.phase) == (UNIX + 7, HeldPhase.RUNNING)


def test_clocks_compare_begins_anew_with_the_next_second_after_a_pause():
    held, fleet = base()
    compare(5, 1_000, sharp=False)
    assert (held.phase, fleet.rtc_second) == (HeldPhase.GONE, 0)
    compare(6, 1_400)
    assert (fleet.rtc_second, fleet.rtc_tsc) == (UNIX + 6, NOW + 1_400 * MS)
    compare(7, 2_400)
    assert fleet.frozen == 1


def test_clocks_compare_begins_with_the_first_change_of_the_second():
    fleet = LAB.g(FLEET)
    compare(0, 0)
    assert (fleet.rtc_second, fleet.rtc_low) == (0, low_of(BEGIN))
    compare(0, 100)
    assert fleet.rtc_second == 0
    compare(1, 700, sharp=False)
    assert (fleet.rtc_second, fleet.rtc_tsc) == (UNIX + 1, NOW + 700 * MS)


def test_clocks_compare_judges_from_the_first_change_on_and_anew_after_a_pause():
    """What is claimed before could not be ended by a pause: nothing tells of one."""
    fleet = LAB.g(FLEET)
    for tsc_ms in (0, 100, 700):
        compare(0, tsc_ms)
        assert fleet.rtc_judges == 0
    compare(1, 800)
    assert fleet.rtc_judges == 1
    compare(1, 900)
    assert fleet.rtc_judges == 1
    compare(9, 1_000)
    assert (fleet.frozen, fleet.rtc_judges) == (1, 0)
    compare(9, 1_100)
    assert fleet.rtc_judges == 0
    compare(10, 1_900)
    assert fleet.rtc_judges == 1


@pytest.mark.parametrize("boot", [0, 2**64 - 1_000 * MS])
def test_clocks_compare_expects_nothing_of_an_rtc_that_stands_still(boot):
    fleet = LAB.g(FLEET)
    fleet.rtc_tsc = NOW - 10_000 * MS
    for now, judges in ((boot, 0), (boot + 1_999 * MS, 0), (boot + 2_000 * MS, 1)):
        LAB.call(clocks_compare, Rtc(BEGIN, now % 2**64))
        assert fleet.rtc_judges == judges


def test_clocks_compare_expects_nothing_of_an_rtc_without_a_date():
    _, fleet = base()
    compare(1, 1_000, good=False)
    assert (fleet.rtc_judges, fleet.rtc_second) == (1, UNIX)


def test_clocks_compare_of_the_date_that_it_has_keeps_its_time():
    """It comes again when the date was not to be read in between."""
    _, fleet = base(low=BEGIN.second + 5)
    compare(0, 500)
    assert (fleet.rtc_second, fleet.rtc_tsc) == (UNIX, NOW)


@pytest.mark.parametrize(
    ("now", "late", "dated"), [(2**63, 1, False), (2**63, 0, True), (2**63 - 1, -1, True)]
)
def test_clocks_compare_compares_its_last_look_without_a_sign(now, late, dated):
    _, fleet = base()
    fleet.rtc_tsc, fleet.rtc_look_at = now - 10_000 * MS, now - late - 100 * MS
    LAB.call(clocks_compare, Rtc(after(10), now))
    assert fleet.rtc_second == UNIX + 10 * dated


def test_clocks_compare_of_the_same_second_costs_three_registers():
    base()
    assert compare(0, 100).looks == 3


@pytest.mark.parametrize("how", [{"updating": True}, {"torn": 1}, {"good": False}])
def test_clocks_compare_never_waits_and_believes_no_torn_time(how):
    held, fleet = base()
    environment = compare(8, 0, **how)
    assert (held.phase, fleet.rtc_second, fleet.frozen) == (HeldPhase.RUNNING, UNIX, 0)
    assert environment.looks <= 13
    compare(8, 0)
    assert held.phase == HeldPhase.GONE


@pytest.mark.parametrize("how", [{"updating": True}, {"torn": 1}])
def test_clocks_compare_that_cannot_tell_yet_says_so_until_it_can(how):
    held, fleet = base()
    compare(8, 8_000, **how)
    assert (fleet.rtc_doubt, fleet.rtc_seen) == (1, 0)
    compare(8, 8_000)
    assert (fleet.rtc_doubt, fleet.rtc_seen, held.phase) == (0, 1, HeldPhase.RUNNING)


@pytest.mark.parametrize("how", [{"updating": True}, {"torn": 1}])
def test_clocks_compare_without_a_date_has_nothing_to_doubt(how):
    _, fleet = base()
    fleet.rtc_second = 0
    compare(8, 8_000, **how)
    assert (fleet.rtc_doubt, fleet.rtc_seen) == (0, 1)


def test_clocks_compare_in_an_update_that_changed_nothing_doubts_nothing():
    _, fleet = base()
    compare(0, 100, updating=True)
    assert (fleet.rtc_doubt, fleet.rtc_seen) == (0, 1)


def test_rtc_glimpse_reads_what_it_shows():
    found = LAB.call(rtc_glimpse, Rtc(BEGIN)).outputs
    assert found["cf"] == 0
    assert found["rax"].to_bytes(8, "little") == bytes((50, 59, 23, 30, 11, 26, 20, BINARY_24))


@settings(max_examples=60, deadline=None)
@given(
    rtc_s=st.integers(-40, 40) | st.sampled_from([60, 3_600, 86_400]),
    tsc_ms=st.integers(0, 60_000),
    low=st.integers(0, 59),
    known=st.booleans(),
    sharp=st.booleans(),
    updating=st.booleans(),
    cycles=st.sampled_from([1, MS, 2**32 - 1]),
)
def test_clocks_compare_any_times_match_the_model(
    rtc_s, tsc_ms, low, known, sharp, updating, cycles
):
    prepare()
    _, fleet = base(low)
    LAB.g(CLOCK).tsc_cycles_per_ms = cycles
    if not known:
        fleet.rtc_second = 0
    compare(rtc_s, tsc_ms, sharp=sharp, updating=updating)
