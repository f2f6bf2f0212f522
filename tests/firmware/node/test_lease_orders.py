"""What an operator may do to the lease: spans within bounds, only with a clock, only while it holds, nothing in a fleet."""

import pytest

from emulator.environment import Environment
from firmware.layouts.control import ControlResult
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.node import CLOCK, CORE, LEASE
from firmware.node.lease_orders import LEASE_MS_MAX, lease_arm, lease_end, lease_renew
from tests.support.lab import Lab
from tests.support.states import MS, NOW

LAB = Lab(lease_arm, lease_renew, lease_end, slots=1)
R = ControlResult
SOON = NOW + 5 * MS


def prepare(*, expired=0, deadline=SOON, cycles=MS):
    LAB.reset()
    LAB.g(CLOCK).tsc_cycles_per_ms, LAB.g(CORE).now = cycles, NOW
    lease = LAB.g(LEASE)
    lease.generation, lease.deadline, lease.expired = 3, deadline, expired
    return lease


def order(routine, **inputs):
    return LAB.call(routine, Environment(tsc=lambda: NOW), **inputs).outputs["eax"]


@pytest.mark.parametrize("routine", [lease_arm, lease_renew])
@pytest.mark.parametrize(
    ("milliseconds", "result"),
    [
        (0, R.ARGUMENT),
        (1, R.DONE),
        (LEASE_MS_MAX, R.DONE),
        (LEASE_MS_MAX + 1, R.ARGUMENT),
        (2**63, R.ARGUMENT),
        (2**63 + 1, R.ARGUMENT),
        (2**64 - 1, R.ARGUMENT),
    ],
)
def test_a_span_is_between_one_millisecond_and_the_most(routine, milliseconds, result):
    lease = prepare()
    assert order(routine, milliseconds=milliseconds) == result
    done = result == R.DONE
    assert lease.deadline == (NOW + milliseconds * MS if done else SOON)
    assert lease.generation == (4 if done and routine is lease_arm else 3)


@pytest.mark.parametrize("routine", [lease_arm, lease_renew])
def test_without_a_clock_no_span_is_granted(routine):
    lease = prepare(cycles=0)
    assert order(routine, milliseconds=7) == R.NO_CLOCK
    assert (lease.generation, lease.deadline) == (3, SOON)


@pytest.mark.parametrize(("expired", "deadline"), [(1, SOON), (0, NOW)])
def test_a_lease_that_is_over_needs_a_grant(expired, deadline):
    """Also one that ran out in this very turn."""
    lease = prepare(expired=expired, deadline=deadline)
    assert order(lease_renew, milliseconds=7) == R.LEASE_OVER
    assert (lease.generation, lease.deadline, lease.expired) == (3, deadline, 1)
    assert order(lease_arm, milliseconds=7) == R.DONE
    assert (lease.generation, lease.deadline, lease.expired) == (4, NOW + 7 * MS, 0)


def test_an_operator_ends_it_once_without_a_clock_too():
    lease = prepare(cycles=0)
    assert order(lease_end) == R.DONE
    assert (lease.generation, lease.deadline, lease.expired) == (3, NOW, 1)
    assert order(lease_end) == R.LEASE_OVER


@pytest.mark.parametrize(
    ("routine", "inputs"),
    [(lease_arm, {"milliseconds": 7}), (lease_renew, {"milliseconds": 7}), (lease_end, {})],
)
@pytest.mark.parametrize(("expired", "deadline"), [(0, SOON), (1, SOON), (0, NOW)])
def test_a_node_of_a_fleet_takes_no_order_about_its_lease(routine, inputs, expired, deadline):
    """Also of one that is over or ran out just now: what follows from that is the turn's to do."""
    lease = prepare(expired=expired, deadline=deadline)
    LAB.g(FLEET_CONFIG).magic = FLEET_MAGIC
    assert order(routine, **inputs) == R.FLEET
    assert (lease.generation, lease.deadline, lease.expired) == (3, deadline, expired)
