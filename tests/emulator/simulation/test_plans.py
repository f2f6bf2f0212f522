from __future__ import annotations

import random

import pytest

from emulator.simulation.clock import NS_PER_S
from emulator.simulation.faults import FaultPlan
from emulator.simulation.host import Host
from emulator.simulation.internet import Internet
from emulator.simulation.plans import CLOSE_CODES, LAST_CODES, random_plan
from emulator.simulation.world import World
from pxe.gateway import GatewayOptions

DURATION_NS = 120 * NS_PER_S


def plan_of(seed: int) -> FaultPlan:
    return random_plan(random.Random(seed), DURATION_NS)


def test_the_seed_decides_and_the_text_carries_all():
    plans = [plan_of(seed) for seed in range(200)]
    assert plans == [plan_of(seed) for seed in range(200)]
    assert [FaultPlan.parse(str(plan)) for plan in plans] == plans
    assert len({str(plan) for plan in plans}) > 180
    actions = {rule.action for plan in plans for rule in plan.rules}
    assert actions == {"drop", "delay", "duplicate", "reorder", "corrupt", "truncate"}
    names = {event.name for plan in plans for event in plan.events}
    assert names == {
        "link-down", "link-up", "gateway-close", "gateway-abort", "gateway-reconnect",
        "gateway-invalid", "gateway-stall", "gateway-release", "gateway-vanish", "gateway-restart",
        "gateway-beat", "gateway-pause", "gateway-read", "gateway-half", "gateway-http", "dns-down", "dns-up",
    }  # fmt: skip


def test_every_close_code_has_its_turn():
    closes = [
        int(event.argument.split()[1])
        for seed in range(2000)
        for event in plan_of(seed).events
        if event.name == "gateway-close"
    ]
    assert set(closes) == {*CLOSE_CODES, *LAST_CODES}


def test_every_event_lies_in_the_run_and_outages_end():
    for seed in range(200):
        events = plan_of(seed).events
        assert list(events) == sorted(events, key=lambda event: event.at_ns)
        downs = sum(event.name == "link-down" for event in events)
        assert downs == sum(event.name == "link-up" for event in events)
        assert all(
            event.at_ns < DURATION_NS
            for event in events
            if event.name not in ("link-up", "gateway-release", "gateway-read", "dns-up")
            and (event.name, event.argument) != ("gateway-http", "0")
        )


@pytest.mark.parametrize("seed", range(10))
def test_an_internet_carries_out_every_plan(seed):
    world = World(seed)
    internet = Internet(world)
    internet.gateway(options=GatewayOptions(shards=16))
    Host(internet.segment, "node", "10.0.0.50", gateway="10.0.0.1")
    internet.segment.set_faults(plan_of(seed))
    world.run_until(DURATION_NS * 2)
    assert world.port("node").link_up
