"""The bus at boot: names, the number of the boot, workspaces that are no shards'."""

import pytest

from emulator.workspace import workspace_regions
from firmware.bus.setup import bus_setup
from firmware.layouts.bus import BUS
from firmware.layouts.config import CONFIG
from firmware.layouts.crypto import DRBG
from firmware.layouts.fleet_config import FLEET_CONFIG, BusAuth
from firmware.layouts.log import LOG, LOG_RING
from firmware.layouts.node import CORE, NETWORK
from firmware.layouts.shard import ShardContext
from firmware.limits import WORKSPACE_BASE, WORKSPACE_STATE, WORKSPACE_STRIDE
from tests.support.lab import Lab
from tests.support.pages import ready, tables_region

SLOTS = (255, 254)
LAB = Lab(
    bus_setup,
    slots=0,
    semantics=False,
    extra=(tables_region(), *(region for slot in SLOTS for region in workspace_regions(slot))),
)
ROOM = (0x20_0000, 0x80_0000)
MAC = bytes.fromhex("5254009a0b0c")


def prepare(*, node=b"", servers=3, room=ROOM):
    LAB.reset()
    ready(LAB, room)
    LAB.g(DRBG).seeded = 1
    LAB.g(NETWORK).mac[0:6] = MAC
    LAB.g(LOG).head = LAB.g(LOG).tail = 0
    config = LAB.g(FLEET_CONFIG)
    config.node_len, config.servers_used, config.auth = len(node), servers, BusAuth.NKEY
    config.node[0 : len(node)] = node
    LAB.g(CONFIG).gateway_secure = 1


def line():
    return LAB.machine.read(LAB.image.address(LOG_RING), LAB.g(LOG).head).decode().splitlines()[-1]


@pytest.mark.parametrize(
    ("node", "name"), [(b"", b"n5254009a0b0c"), (b"n7", b"n7"), (b"x" * 32, b"x" * 32)]
)
def test_the_node_has_a_name(node, name):
    prepare(node=node)
    LAB.call(bus_setup)
    bus = LAB.g(BUS)
    assert bytes(bus.node)[: bus.node_len] == name


def test_each_boot_has_another_number():
    prepare()
    LAB.call(bus_setup)
    bus = LAB.g(BUS)
    assert bytes(bus.boot_text) == b"%08x" % bus.boot
    first = bus.boot
    prepare()
    LAB.g(DRBG).key[0] = 1
    LAB.call(bus_setup)
    assert LAB.g(BUS).boot != first


def test_the_last_workspaces_are_the_links():
    prepare()
    assert LAB.call(bus_setup).outputs["cf"] == 0
    bus, core = LAB.g(BUS), LAB.g(CORE)
    for index, slot in enumerate(SLOTS):
        link = bus.links[index]
        place = WORKSPACE_BASE + slot * WORKSPACE_STRIDE + WORKSPACE_STATE + 64 * (slot % 16)
        assert (link.context, link.index, link.server) == (place, index, bus.boot % 3)
        shard = LAB.view(ShardContext, place)
        assert (shard.slot, shard.unleased) == (slot, 1)
        assert (core.slots[slot].context, core.slots[slot].flags) == (place, 0)
    assert core.slots_used == 0
    assert f"code=bus.started boot={bus.boot:#x} servers=3 tls=1 login=nkey" in line()


def test_a_list_without_servers_divides_by_nothing():
    prepare(servers=0)
    LAB.call(bus_setup)
    assert [LAB.g(BUS).links[n].server for n in range(2)] == [0, 0]


@pytest.mark.parametrize(("pages", "links"), [(5, 0), (14, 1)])
def test_without_memory_the_links_that_found_none_stay_away(pages, links):
    prepare(room=(0x20_0000, 0x20_0000 + pages * 4096))
    assert LAB.call(bus_setup).outputs["cf"] == 1
    assert [bool(LAB.g(BUS).links[n].context) for n in range(2)] == [n < links for n in range(2)]
    assert "code=bus.no_memory" in line()
