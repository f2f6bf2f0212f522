"""A node that booted without a clock: when it tries again, and what follows success."""

import pytest

from firmware.layouts.config import CONFIG
from firmware.layouts.log import LOG, LOG_RING
from firmware.layouts.node import CLOCK, CORE, LEASE
from firmware.node.clock import RETRY_TURNS, clock_retry
from tests.support.lab import Lab
from tests.support.timers import PORT, Timers

LAB = Lab(clock_retry, slots=0)
NEVER = 2**64 - 1
LATE = 0.1
"""Every window is begun late by a tenth of it: no estimate is believed."""


def node(*, turns=RETRY_TURNS - 1, cycles=0, lease_ms=0, generation=0, expired=0):
    LAB.reset()
    LAB.g(CLOCK).tsc_cycles_per_ms, LAB.g(CLOCK).pm_port = cycles, PORT
    LAB.g(CONFIG).lease_ms = lease_ms
    LAB.g(LEASE).generation, LAB.g(LEASE).expired = generation, expired
    core = LAB.g(CORE)
    core.turns, core.slots_used, core.now = turns, 2, 7
    for n in range(3):
        core.slots[n].deadline = NEVER
    return core


def retry(timers):
    LAB.call(clock_retry, timers)
    return LAB.g(CLOCK).tsc_cycles_per_ms


def lines():
    raw = LAB.machine.read(LAB.image.address(LOG_RING), LAB.g(LOG).head)
    return [line.split(" code=")[1] for line in raw.decode().splitlines()]


def deadlines(core):
    return [core.slots[n].deadline for n in range(3)]


def test_clock_retry_success_is_told_and_every_shard_is_due():
    core = node()
    timers = Timers(2000.0)
    assert retry(timers) == pytest.approx(2_000_000, rel=1e-3)
    (line,) = lines()
    assert line.startswith(f"boot.clock khz={LAB.g(CLOCK).tsc_cycles_per_ms} spread_ppm=")
    assert " sources=3 " in line
    assert deadlines(core) == [0, 0, NEVER], "rows in use"
    assert core.now == int(timers.now * timers.hz) + 1_000_000, "the time after the windows"


def test_clock_retry_failure_changes_nothing_and_says_nothing():
    core = node(lease_ms=60_000)
    assert retry(Timers(2000.0, [LATE])) == 0
    assert (lines(), deadlines(core), core.now) == ([], [NEVER] * 3, 7)
    assert LAB.g(LEASE).generation == 0


@pytest.mark.parametrize("turns", [0, 1, RETRY_TURNS - 2, RETRY_TURNS, 2**64 - 2])
def test_clock_retry_other_turns_do_not_touch_the_timers(turns):
    node(turns=turns)
    timers = Timers(2000.0)
    assert retry(timers) == 0
    assert timers.events == []


@pytest.mark.parametrize("turns", [RETRY_TURNS - 1, 5 * RETRY_TURNS - 1, 2**64 - 1])
def test_clock_retry_every_128th_turn_is_a_try(turns):
    node(turns=turns)
    assert retry(Timers(2000.0)) > 0


def test_clock_retry_leaves_a_good_clock_alone():
    node(cycles=1234)
    timers = Timers(2000.0)
    assert retry(timers) == 1234
    assert timers.events == []


def test_clock_retry_takes_less_than_150_ms_of_a_machine_that_is_always_late():
    node()
    timers = Timers(2000.0, [LATE], step=1e-4)
    assert retry(timers) == 0
    # The bench adds its lateness to each window; the windows themselves take 10 ms each.
    assert timers.now - timers.windows * LATE * 0.01 < 0.150


@pytest.mark.parametrize(
    ("lease_ms", "generation", "expired", "granted"),
    [
        (60_000, 0, 0, True),
        (0, 0, 0, False),
        (60_000, 3, 0, False),
        (60_000, 0, 1, False),
    ],
)
def test_clock_retry_gives_the_grant_of_the_configuration_once(
    lease_ms, generation, expired, granted
):
    """An operator who expired the lease meanwhile is not overruled."""
    core = node(lease_ms=lease_ms, generation=generation, expired=expired)
    cycles = retry(Timers(2000.0))
    lease = LAB.g(LEASE)
    assert lease.generation == generation + granted
    assert lease.expired == expired
    if granted:
        assert lease.deadline == core.now + 60_000 * cycles
        assert lines()[1] == "lease.granted generation=1 left=60000"
