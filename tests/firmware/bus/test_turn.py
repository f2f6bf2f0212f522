"""Faults of a link's code, messages that nobody reads, and links that TCP has given up."""

import pytest

from firmware.bus.turn import bus_link_flush, bus_link_turn, bus_next
from firmware.layouts.bus import BUS, LinkState
from firmware.layouts.bus_sites import FAULT
from firmware.layouts.clock import NEVER
from firmware.layouts.cpu import FAULTS
from firmware.layouts.node import CORE
from firmware.layouts.tcp import TcpState
from tests.support.bus import BusBench
from tests.support.segments import ms

BENCH = BusBench(bus_link_turn, bus_link_flush, bus_next, semantics=False)
PAGE_FAULT = 14


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()
    # The links of a node have the last two slots.
    BENCH.context.slot = 255
    faults = BENCH.lab.g(FAULTS)
    faults.pending, faults.vector, faults.rip, faults.address = 0, PAGE_FAULT, 0x6000_1234, 0x10


@pytest.mark.parametrize(
    ("routine", "register", "given"),
    [(bus_link_turn, "rax", NEVER), (bus_link_flush, "rax", NEVER), (bus_next, "eax", 0)],
    ids=["tick", "flush", "next"],
)
def test_a_fault_costs_the_link_and_nothing_else(routine, register, given):
    BENCH.up()
    BENCH.lab.g(FAULTS).pending = 1
    assert BENCH.bus(routine)[register] == given
    link = BENCH.link
    assert (link.state, link.error) == (LinkState.DOWN, FAULT.code | PAGE_FAULT)
    assert (link.next_try, BENCH.tcp.state) == (ms(10_000), TcpState.CLOSED)
    assert (BENCH.lab.g(FAULTS).pending, BENCH.lab.g(CORE).current_shard) == (0, 0)
    assert BENCH.sent() == []  # no farewell
    assert BENCH.lines() == [
        f"bus.fault link=control vector={PAGE_FAULT:d} rip=0x60001234 address=0x10",
        f"bus.refused link=control error={FAULT.code | PAGE_FAULT:#x} server=0 retry=10000",
    ]


def test_data_is_told_from_control_by_its_slot():
    bus = BENCH.lab.g(BUS)
    other = bus.links[1]
    BENCH.up()
    BENCH.context.slot, BENCH.lab.g(FAULTS).pending = 254, 1
    # The tick is CONTROL's; the workspace that faulted says which link is given up.
    BENCH.bus(bus_link_turn)
    assert (other.error, bus.links[0].error) == (FAULT.code | PAGE_FAULT, 0)
