"""The outbox at boot: mapped twice, and nothing of it on a node that does not publish."""

import pytest

from emulator.memory import Region
from firmware.events.setup import publish_begin
from firmware.layouts.bus import BUS, DATA
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.outbox import ASSEMBLIES, OUTBOX
from firmware.limits import ASSEMBLY_BYTES, OUTBOX_BYTES, PAGE, WINDOW_ASSEMBLY, WINDOW_OUTBOX
from tests.support.lab import Lab
from tests.support.pages import ready, tables_region, walk

BYTES = OUTBOX_BYTES + ASSEMBLIES * ASSEMBLY_BYTES
LAB = Lab(
    publish_begin,
    extra=[
        tables_region(),
        Region("outbox", WINDOW_OUTBOX, OUTBOX_BYTES),
        Region("assemblies", WINDOW_ASSEMBLY, ASSEMBLIES * ASSEMBLY_BYTES),
    ],
    semantics=False,
)


def begin(*, magic=FLEET_MAGIC, publish=1, room=BYTES + 0x10_0000, context=0x7000_0000):
    ready(LAB, (0x10_0000, 0x10_0000 + room))
    LAB.g(OUTBOX).wipe()
    config = LAB.g(FLEET_CONFIG)
    LAB.machine.write(config.offset_of("magic"), magic.to_bytes(4, "little"))
    LAB.machine.write(config.offset_of("publish"), bytes([publish]))
    LAB.g(BUS).links[DATA].context = context
    return LAB.call(publish_begin).outputs["cf"]


def test_ring_is_mapped_twice_and_buffers_follow_each_other():
    assert begin() == 0
    for at in (0, PAGE, OUTBOX_BYTES - PAGE):
        assert walk(LAB, WINDOW_OUTBOX + at) == walk(LAB, WINDOW_OUTBOX + OUTBOX_BYTES + at)
    box = LAB.g(OUTBOX)
    assert box.base == WINDOW_OUTBOX
    places = [box.assemblies[n].bytes_at for n in range(ASSEMBLIES)]
    assert places == [WINDOW_ASSEMBLY + n * ASSEMBLY_BYTES for n in range(ASSEMBLIES)]


@pytest.mark.parametrize(("magic", "publish"), [(0, 1), (FLEET_MAGIC, 0), (FLEET_MAGIC + 1, 1)])
def test_node_that_does_not_publish_has_none(magic, publish):
    assert begin(magic=magic, publish=publish) == 0
    assert LAB.g(OUTBOX).base == 0


def test_without_a_link_nothing_is_published():
    assert begin(context=0) == 1
    assert LAB.g(OUTBOX).base == 0


@pytest.mark.parametrize("room", [OUTBOX_BYTES // 2, OUTBOX_BYTES + ASSEMBLY_BYTES])
def test_too_little_memory_is_said(room):
    assert begin(room=room) == 1
    assert LAB.g(OUTBOX).base == 0
