"""From the boot's facts to a node: plan, lease, card, network, workspaces."""

import pytest

from emulator.environment import Environment
from emulator.memory import Region
from firmware.layouts.boot import BOOT
from firmware.layouts.config import CONFIG
from firmware.layouts.crypto import Drbg
from firmware.layouts.log import LOG, LOG_RING
from firmware.layouts.memory import MEMORY
from firmware.layouts.nic import NIC, NicState
from firmware.layouts.node import CLOCK, CORE, LEASE, NETWORK, PLAN
from firmware.layouts.permit import PERMITS, PERMITS_MAX
from firmware.layouts.profile import ProfileId
from firmware.layouts.shard import Hold, ShardContext, ShardState
from firmware.limits import (
    KEPT_PAGES,
    PAGE,
    RECORD_PAGE,
    SHARDS_MAX,
    WORKSPACE_BASE,
    WORKSPACE_STATE,
    WORKSPACE_STRIDE,
)
from firmware.node.main import node_init, slot_add
from tests.support.lab import Lab
from tests.support.nic import DMA_PHYSICAL, PCI_ADDRESS, NicBench
from tests.support.pages import ready, tables_region
from tests.support.states import MS, NOW

LAB = Lab(
    node_init,
    slot_add,
    slots=3,
    extra=(tables_region(), Region("record", RECORD_PAGE, KEPT_PAGES * PAGE)),
)
ROOM = (0x20_0000, 0x80_0000)


NO_CARD = 0x00F8


def prepare(*, count=1, lease_ms=0, pci=NO_CARD, room=ROOM):
    bench = NicBench(LAB)
    ready(LAB, room)
    LAB.g(MEMORY).dma_physical = DMA_PHYSICAL
    LAB.g(CLOCK).tsc_cycles_per_ms = MS
    LAB.g(BOOT).nic_function = pci
    config = LAB.g(CONFIG)
    config.global_total, config.local_start, config.local_count = 64, 16, count
    config.max_concurrency, config.lease_ms = 4, lease_ms
    config.dhcp, config.static_ip, config.static_netmask = 0, 0x0200000A, 0x00FFFFFF
    LAB.machine.write(LAB.image.address("drbg"), bytes(Drbg.SIZE))
    return bench


def environment(bench):
    outside = bench.environment()
    return Environment(
        tsc=lambda: NOW,
        random=((True, n * 0x0123_4567_89AB_CDEF % 2**64) for n in range(1, 200)),
        on_cpuid=lambda _leaf, _subleaf: (0, 0, 1 << 30, 0),
        on_port_in=outside.on_port_in,
        on_port_out=outside.on_port_out,
        on_mmio_read=outside.on_mmio_read,
        on_mmio_write=outside.on_mmio_write,
    )


def start(bench):
    return LAB.call(node_init, environment(bench)).outputs["eax"]


def lines():
    raw = LAB.machine.read(LAB.image.address(LOG_RING), LAB.g(LOG).head)
    return raw.decode().splitlines()


@pytest.mark.parametrize("profile", ProfileId)
def test_node_init_gives_each_shard_the_profile(profile):
    bench = prepare(pci=PCI_ADDRESS)
    LAB.g(CONFIG).profile = profile
    assert start(bench) == 1
    assert LAB.view(ShardContext, LAB.g(CORE).slots[0].context).profile == profile


def test_node_init_makes_a_node():
    assert start(prepare(pci=PCI_ADDRESS)) == 1
    plan = LAB.g(PLAN)
    assert (plan.global_total, plan.local_start, plan.local_count) == (64, 16, 1)
    assert LAB.g(PERMITS).max_concurrency == 4
    assert LAB.g(NIC).state == NicState.READY
    assert (LAB.g(NETWORK).ip, LAB.g(NETWORK).configured) == (0x0200000A, 1)
    assert LAB.g(LEASE).deadline == 0
    told = "code=node.started total=64 start=16 count=1 lease_ms=0 plan=configuration"
    assert lines()[-1].endswith(told)


def test_node_init_shards_have_identity_session_and_coloured_places():
    start(prepare(count=2))
    core = LAB.g(CORE)
    for n in range(2):
        context = LAB.view(ShardContext, core.slots[n].context)
        base = WORKSPACE_BASE + n * WORKSPACE_STRIDE + WORKSPACE_STATE
        assert context.address_ == base + 64 * n
        assert (context.shard_id, context.shard_total, context.slot) == (16 + n, 64, n)
        assert (context.state, context.hold) == (ShardState.ASSIGNED, Hold.NEW)
        assert context.session_ptr == context.session.address_
        assert core.slots[n].flags == 1


@pytest.mark.parametrize(
    ("asked", "keys"),
    [(0, 1), (1, 1), (PERMITS_MAX, PERMITS_MAX), (PERMITS_MAX + 1, 1), (2**32 - 1, 1)],
)
def test_node_init_keys_of_a_damaged_image_stay_within_the_table(asked, keys):
    bench = prepare(count=0)
    LAB.g(CONFIG).max_concurrency = asked
    start(bench)
    assert LAB.g(PERMITS).max_concurrency == keys


def test_node_init_grants_the_configured_lease():
    start(prepare(lease_ms=60_000, count=0))
    lease = LAB.g(LEASE)
    assert (lease.generation, lease.deadline) == (1, NOW + 60_000 * MS)


def test_node_init_without_a_clock_the_grant_waits_for_it():
    bench = prepare(lease_ms=60_000, count=0)
    LAB.g(CLOCK).tsc_cycles_per_ms = 0
    start(bench)
    lease = LAB.g(LEASE)
    assert (lease.generation, lease.deadline, lease.expired) == (0, 0, 0)


def test_node_init_without_its_card_says_so_and_lives():
    assert start(prepare(count=0)) == 0
    assert LAB.g(NIC).state != NicState.READY
    assert any("code=nic.failed" in line and "pci=0xf8" in line for line in lines())


def test_node_init_stops_at_the_memory_there_is():
    # A page table and not quite ten pages; the plan asks for more than the table has rows.
    few = (0x20_0000, 0x20_0000 + 9 * 4096)
    assert start(prepare(count=SHARDS_MAX + 1, room=few)) == 0
    assert LAB.g(CORE).slots_used == 0
