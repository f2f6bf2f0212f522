"""What a boot makes of the kept pages: cold, warm, after one crash, after three."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.memory import Region
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.log import LOG, LOG_RING
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.survivor import SURVIVAL, SURVIVOR, SURVIVOR_BYTES, Survivor
from firmware.limits import KEPT_PAGES, PAGE, RECORD_PAGE, SURVIVOR_PAGE
from firmware.node.survive import survive_begin, survive_release, survive_tick
from tests.support.lab import Lab
from tests.support.token import set_token

LAB = Lab(
    survive_begin,
    survive_release,
    survive_tick,
    extra=[Region("record", RECORD_PAGE, KEPT_PAGES * PAGE)],
)
MS, UNIX = 1_000_000, 1_790_000_000


def boot(*, at=UNIX, token=b"a-token", fleet=b"", crashed=False):
    """Reset the node and let it look at the pages; their contents stay."""
    kept = LAB.machine.read(RECORD_PAGE, KEPT_PAGES * PAGE)
    LAB.reset()
    LAB.machine.write(RECORD_PAGE, kept)
    clock = LAB.g(CLOCK)
    clock.tsc_cycles_per_ms, clock.unix_time, clock.unix_tsc = MS, at, 0
    set_token(LAB, token)
    if fleet:
        LAB.g(FLEET_CONFIG).magic, LAB.g(FLEET_CONFIG).bot[:] = FLEET_MAGIC, fleet.ljust(32, b"\0")
    LAB.g(SURVIVAL).crashed = int(crashed)
    LAB.call(survive_begin)
    return LAB.g(SURVIVOR)


def lines():
    return LAB.machine.read(LAB.image.address(LOG_RING), LAB.g(LOG).head).decode()


@pytest.fixture(autouse=True)
def _power():
    """Power comes: memory holds anything."""
    LAB.machine.write(RECORD_PAGE, bytes(range(256)) * (KEPT_PAGES * PAGE // 256))


def test_a_cold_boot_starts_fresh():
    facts = boot()
    assert (facts.boots, facts.identified, facts.alive_at) == (1, 0, UNIX)
    assert LAB.g(SURVIVAL).taken_over == 0
    rest = LAB.machine.read(SURVIVOR_PAGE + Survivor.SIZE, SURVIVOR_BYTES - Survivor.SIZE)
    assert rest == bytes(len(rest))
    assert lines() == ""


def test_a_warm_boot_goes_on():
    boot()
    LAB.g(SURVIVOR).identified, LAB.g(SURVIVOR).window_at = 7, UNIX - 50
    LAB.g(CORE).now = 3000 * MS
    LAB.call(survive_tick)
    facts = boot(at=UNIX + 9)
    assert (facts.boots, facts.identified, facts.window_at) == (2, 7, UNIX - 50)
    assert (LAB.g(SURVIVAL).taken_over, LAB.g(SURVIVAL).before_at) == (1, UNIX + 3)
    assert f"code=boot.warm boots=2 identified=7 since={UNIX - 50}" in lines()


def test_another_bot_starts_fresh():
    boot()
    LAB.g(SURVIVOR).identified = 7
    facts = boot(token=b"b-token")
    assert (facts.boots, facts.identified) == (1, 0)


def test_a_node_without_a_token_knows_its_bot_by_the_fleet():
    boot(token=b"", fleet=b"b1")
    assert boot(token=b"", fleet=b"b1").boots == 2
    assert boot(token=b"", fleet=b"b2").boots == 1
    assert boot(token=b"").boots == 1


@given(st.integers(0, Survivor.SIZE - 1), st.integers(1, 255))
def test_a_damaged_page_starts_fresh(at, flip):
    boot()
    byte = LAB.machine.read(SURVIVOR_PAGE + at, 1)[0]
    LAB.machine.write(SURVIVOR_PAGE + at, bytes([byte ^ flip]))
    assert boot().boots == 1


@pytest.mark.parametrize(
    ("dates", "held"),
    [
        ((0,), False),
        ((0, 10), False),
        ((0, 10, 20), True),
        ((0, 300, 600), True),
        ((0, 300, 601), False),
        ((0, 500, 900), False),
        ((0, 500, 900, 1100), True),
        ((20, 10, 0), False),  # the clock was set back: nobody knows how long it took
    ],
)
def test_three_crashes_in_ten_minutes_hold_the_node(dates, held):
    boot()
    for at in dates:
        boot(at=UNIX + at, crashed=True)
    assert LAB.g(SURVIVAL).held == int(held)
    text = "code=node.crash_loop crashes=3"
    assert (text in lines()) == held
    if held:
        assert "shards_held_until=power_cycle_or_shardfw_release" in lines()


def test_without_a_date_three_crashes_in_a_row_hold_it():
    for _ in range(3):
        boot(at=0, crashed=True)
    assert LAB.g(SURVIVAL).held == 1


def test_a_reset_without_a_crash_does_not_hold():
    for n in range(3):
        boot(at=UNIX + n, crashed=True)
    boot(at=UNIX + 4)
    assert LAB.g(SURVIVAL).held == 0


def test_a_release_forgets_the_crashes():
    for n in range(3):
        boot(at=UNIX + n, crashed=True)
    core = LAB.g(CORE)
    core.slots_used, core.slots[0].deadline, core.slots_due = 1, 99, 99
    LAB.call(survive_release)
    assert (LAB.g(SURVIVAL).held, core.slots[0].deadline, core.slots_due) == (0, 0, 0)
    assert "code=node.released was_held=1" in lines()
    boot(at=UNIX + 5, crashed=True)
    assert LAB.g(SURVIVAL).held == 0


@pytest.mark.parametrize(("late", "wanted"), [(-1, 5), (0, UNIX), (1, UNIX)])
def test_when_the_date_is_kept_again_is_compared_without_a_sign(late, wanted):
    boot()
    LAB.g(CLOCK).unix_tsc = 2**63
    LAB.g(SURVIVAL).alive_due, LAB.g(CORE).now = 2**63, 2**63 + late
    LAB.g(SURVIVOR).alive_at = 5
    LAB.call(survive_tick)
    assert LAB.g(SURVIVOR).alive_at == wanted


def test_the_date_is_kept_once_a_second():
    boot()
    kept = LAB.view(Survivor, SURVIVOR_PAGE)
    for at_ms, wanted in ((0, 0), (2999, 2), (3998, 2), (3999, 3), (9000, 9)):
        LAB.g(CORE).now = at_ms * MS
        LAB.call(survive_tick)
        assert kept.alive_at == UNIX + wanted
