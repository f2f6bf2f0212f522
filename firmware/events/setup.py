"""The outbox of a node that publishes, made once at boot."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.bus import BUS, DATA, BusLink
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC, FleetConfig
from firmware.layouts.log import PUBLISH_NO_MEMORY, PUBLISHING
from firmware.layouts.outbox import ASSEMBLIES, OUTBOX, Assembly, Outbox
from firmware.limits import ASSEMBLY_BYTES, OUTBOX_BYTES, PAGE, WINDOW_ASSEMBLY, WINDOW_OUTBOX
from firmware.log import log, log_write
from firmware.memory.pages import map_fresh
from firmware.memory.windows import map_twice
from toolchain.asm import CF, EAX, ECX, EDI, EDX, ESI, NE, RAX, RCX, Asm, B, C, E, Out, routine

OUT = OUTBOX.it


@routine(
    outputs=[Out(CF, "1 = it ought to publish and has no memory for that")],
    clobbers=CALLER_SAVED,
    reads=[FleetConfig.magic, FleetConfig.publish, BusLink.context],
    writes=[Outbox.base, Assembly.bytes_at],
    calls=[map_twice, map_fresh, log_write],
    source="firmware/docs/events.md#outbox",
)
def publish_begin(a: Asm) -> None:
    """Map outbox and buffers when the node publishes."""
    out, none = a.label("out"), a.label("none")
    a.cmp(FLEET_CONFIG.it.magic, FLEET_MAGIC)
    a.j(NE, out)
    a.cmp(FLEET_CONFIG.it.publish, 0)
    a.j(E, out)
    # Without its link nothing could leave.
    a.lea(RAX, BUS.it.links.address)
    a.cmp(BusLink.at(RAX, DATA * BusLink.SIZE).context, 0)
    a.j(E, none)
    a.mov(EDI, WINDOW_OUTBOX)
    a.mov(ESI, OUTBOX_BYTES // PAGE)
    a.call(map_twice)
    a.j(C, none)
    a.mov(EDI, WINDOW_ASSEMBLY)
    a.mov(ESI, ASSEMBLIES * ASSEMBLY_BYTES // PAGE)
    a.call(map_fresh)
    a.j(C, none)
    a.lea(RAX, OUT.assemblies.address)
    a.mov(ECX, WINDOW_ASSEMBLY)
    with a.loop() as each:
        a.mov(Assembly.at(RAX).bytes_at, RCX)
        a.add(RAX, Assembly.SIZE)
        a.add(ECX, ASSEMBLY_BYTES)
        a.cmp(ECX, WINDOW_ASSEMBLY + ASSEMBLIES * ASSEMBLY_BYTES)
        a.again(B, each)
    a.mov(EAX, WINDOW_OUTBOX)
    a.mov(OUT.base, RAX)
    a.mov(EDX, OUTBOX_BYTES // 1024)
    a.mov(ECX, ASSEMBLIES)
    log(a, PUBLISHING)
    a.place(out)
    a.clc()
    a.ret()
    a.place(none)
    log(a, PUBLISH_NO_MEMORY)
    a.stc()
    a.ret()
