"""The outbox, made once at boot."""

from emulator.effects import World, model
from emulator.models.log import log
from emulator.models.memory.pages import map_fresh
from emulator.models.memory.windows import map_twice
from firmware.layouts.bus import BUS, DATA
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.log import PUBLISH_NO_MEMORY, PUBLISHING
from firmware.layouts.outbox import ASSEMBLIES, OUTBOX
from firmware.limits import ASSEMBLY_BYTES, OUTBOX_BYTES, PAGE, WINDOW_ASSEMBLY, WINDOW_OUTBOX


@model
def publish_begin(w: World) -> int:
    """Memory for the ring and the buffers, when the configuration wants it."""
    config, box = w.g(FLEET_CONFIG), w.g(OUTBOX)
    if config.magic != FLEET_MAGIC or not config.publish:
        return 0
    if (
        not w.g(BUS).links[DATA].context
        or map_twice(w, WINDOW_OUTBOX, OUTBOX_BYTES // PAGE)
        or map_fresh(w, WINDOW_ASSEMBLY, ASSEMBLIES * ASSEMBLY_BYTES // PAGE)
    ):
        log(w, PUBLISH_NO_MEMORY, None)
        return 1
    for n in range(ASSEMBLIES):
        box.assemblies[n].bytes_at = WINDOW_ASSEMBLY + n * ASSEMBLY_BYTES
    box.base = WINDOW_OUTBOX
    log(w, PUBLISHING, None, OUTBOX_BYTES // 1024, ASSEMBLIES)
    return 0
