"""A fleet of three nodes over a cluster of three servers, which fails in every way that it may."""

import asyncio
import contextlib
import gc
import os
import signal
from dataclasses import asdict

import pytest

from pxe.hosts import Hosts
from pxe.segment import Segment
from tests.support.fleet_cluster import NODES, SHARDS, SLOTS, FleetCluster

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root: run the tests as root"),
    # nats-py leaves open what it could not use: a paused server's kernel takes connections.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
SERVERS = 3


class Running:
    """The site and the loop in which it lives: booted once for all tests here."""

    def __init__(self, runner, site):
        self.run = lambda scenario: runner.run(scenario(site))


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    with (
        Segment(NODES) as segment,
        Hosts(segment, SERVERS) as hosts,
        segment.inside(),
        asyncio.Runner() as runner,
    ):
        site = FleetCluster(segment, hosts, folder)
        runner.run(site.__aenter__())
        try:
            yield Running(runner, site)
        finally:
            runner.run(site.__aexit__(None, None, None))
            gc.collect()


@contextlib.asynccontextmanager
async def killed(site, leader):
    """The server dies without a word; another one leads; it comes back with its store."""
    await leader.end(signal.SIGKILL)
    try:
        await site.leader(without=leader)
        yield
    finally:
        await leader.start()


@contextlib.asynccontextmanager
async def paused(site, leader):
    """The server stands still until another one leads."""
    leader.send_signal(signal.SIGSTOP)
    try:
        await site.leader(without=leader)
        yield
    finally:
        leader.send_signal(signal.SIGCONT)


@contextlib.asynccontextmanager
async def cut_off(site, leader):
    """The server reaches neither of the two others; every node reaches all three."""
    others = [server.place.host for server in site.cluster.servers if server is not leader]
    with site.hosts.cut([leader.place.host], others):
        await site.leader(without=leader)
        yield


@contextlib.asynccontextmanager
async def deaf(site, leader):
    """The server says on what it likes, and hears neither of the two others."""
    others = [server.place.host for server in site.cluster.servers if server is not leader]
    with site.hosts.cut(others, [leader.place.host], back=False):
        await site.leader(without=leader)
        yield


def judge(outcome, record_property):
    """What holds whatever failed: one owner; nothing twice; nothing missing of a session that goes on."""
    for name, figure in asdict(outcome).items():
        record_property(name, figure)
    assert outcome.overlaps == 0
    assert outcome.doubled == 0
    assert outcome.sent > 0
    assert outcome.lost == 0 or outcome.identified


def test_a_planned_hand_over_loses_nothing_and_doubles_nothing(running, record_property):
    async def scenario(site):
        async with site.judged() as found:
            name = site.held()[0].node
            slots = site.slots_of(name)
            report = await site.ask("drain", name)
            assert report["slots"] == slots
            await site.until(
                lambda: not site.slots_of(name) and site.is_whole(), "its shards at others"
            )
            await site.ask("drain", name, "--undo")
            for slot in slots:
                await site.move(slot, name)
        return found[0], 2 * 2 * len(slots)

    outcome, moved = running.run(scenario)
    judge(outcome, record_property)
    assert (outcome.identified, outcome.resumed, outcome.lost) == (0, moved, 0)


@pytest.mark.parametrize("fault", [killed, paused, cut_off, deaf])
def test_the_fleet_outlives_a_leader_that_is(running, record_property, fault):
    async def scenario(site):
        async with site.judged() as found:
            async with fault(site, await site.leader_of_both()):
                await site.renewed()
            await site.renewed()
        return found[0]

    judge(running.run(scenario), record_property)


@pytest.mark.parametrize("both", [True, False], ids=["is_cut_off", "hears_nothing"])
def test_a_node_without_nats_stops_and_others_take_over(running, record_property, both):
    async def scenario(site):
        async with site.judged() as found:
            victim = site.held()[0].node
            slots, node = site.slots_of(victim), site.nodes[victim]
            after = len(node.lines)
            with site.hosts.cut(site.hosts.addresses, [site.addresses[victim]], back=both):

                def taken():
                    return not site.slots_of(victim) and site.is_whole()

                await site.until(taken, "its shards at others")
            for slot in slots:
                await node.wait_line(f"code=fleet.expired slot={slot} ", 60, after)
            await node.wait_line(r"code=bus\.up link=control", 60, after)
            for slot in slots:
                await site.move(slot, victim)
        return found[0], len(slots)

    outcome, slots = running.run(scenario)
    judge(outcome, record_property)
    # Taken by others, and moved back.
    assert outcome.claimed >= 2 * slots > 0
    assert outcome.resumed + outcome.identified >= 2 * slots * SHARDS // SLOTS
