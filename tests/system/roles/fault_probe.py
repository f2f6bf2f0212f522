"""Main routines of test images: they provoke the faults that a node must survive or report.

They take the places of `node_main` and `shard_tick` when a test links an image; a release image is
refused when it holds any of them.
"""

from firmware.abi import CALLER_SAVED
from firmware.cpu.interrupts import cpu_idle
from firmware.layouts.log import BOOT_READY, LOG, LogState
from firmware.layouts.node import CORE, CoreState, Slot, core
from firmware.layouts.permit import PERMITS, Permits
from firmware.layouts.shard import ShardContext
from firmware.limits import (
    FAULT_STACK_TOP,
    IMAGE_BASE,
    PAGE,
    STACK_BYTES,
    STACK_TOP,
    WINDOW_DMA,
    WORKSPACE_BASE,
    WORKSPACE_RING,
    WORKSPACE_STATE,
    WORKSPACE_STATE_BYTES,
    WORKSPACE_STRIDE,
    WORKSPACE_TX,
)
from firmware.log import log, log_drain, log_write
from firmware.memory import workspace_map
from firmware.node.guard import shard_turn
from toolchain.asm import (
    AE,
    AL,
    EAX,
    EBX,
    ECX,
    EDI,
    EDX,
    NZ,
    R8D,
    R12,
    R12D,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    Asm,
    In,
    Out,
    Region,
    Z,
    mem8,
    mem64,
    routine,
)
from toolchain.layout import Global, Struct, u64
from toolchain.layout.data import constant

READ, WRITE, EXECUTE = range(3)
RODATA, DATA = "rodata", "data"
STACK_BOTTOM = STACK_TOP - STACK_BYTES
RING_END = WORKSPACE_RING + 10 * PAGE
PROBES: tuple[tuple[int, int, str], ...] = (
    (READ, 0x1000, "the boot program's memory"),
    (READ, WORKSPACE_BASE, "guard before the state pages"),
    (
        WRITE,
        WORKSPACE_BASE + WORKSPACE_STATE + WORKSPACE_STATE_BYTES,
        "guard after the state pages",
    ),
    (WRITE, WORKSPACE_BASE + WORKSPACE_TX + 2 * PAGE, "guard after the transmit buffer"),
    (READ, WORKSPACE_BASE + RING_END, "guard after the ring"),
    (READ, WORKSPACE_BASE + WORKSPACE_STRIDE, "guard before the next shard"),
    (READ, STACK_BOTTOM - 8, "guard under the stack"),
    (READ, STACK_TOP, "guard over the stack"),
    (WRITE, FAULT_STACK_TOP - 2 * PAGE, "guard between the fault stacks"),
    (READ, WINDOW_DMA - 8, "before the DMA window"),
    (WRITE, IMAGE_BASE, "code"),
    (WRITE, IMAGE_BASE + 0x10_0000, "beyond the image"),
    (EXECUTE, WORKSPACE_BASE + WORKSPACE_RING, "what came from the wire"),
    (EXECUTE, STACK_BOTTOM, "the stack"),
)
"""How a place is touched, where, and what it is. The last four try W^X, the rest of the window, and no-execute."""
TABLE = constant(
    "probe_table",
    b"".join(k.to_bytes(8, "little") + a.to_bytes(8, "little") for k, a, _ in PROBES),
    "kind and address of each probe",
    align=8,
)
ROWS = Region("probe_table", "PROBES")
PLACE = Region("the place probed", "anywhere")


class Probe(Struct):
    """What the next turn of the shard touches."""

    SIZE = 0x10
    kind = u64(0x00, "READ, WRITE or EXECUTE")
    address = u64(0x08, "where")


PROBE = Global("probe", Probe, "what the next turn of the shard touches")


@routine(
    inputs=[In(RBX, ShardContext, "the shard whose turn it is")],
    outputs=[Out(RAX, "deadline")],
    clobbers=CALLER_SAVED,
    reads=[Probe.kind, Probe.address, PLACE],
    writes=[PLACE],
    indirect=lambda: (log_drain,),
    saves=[R12],
    source="decision 6",
)
def shard_tick(a: Asm, shard: ShardContext) -> None:
    """Touch the place, with junk in a register that the node relies on."""
    a.mov(R12, -1)
    a.xor(EAX, EAX)
    a.mov(RDX, PROBE.it.address)
    a.mov(RCX, PROBE.it.kind)
    a.test(RCX, RCX)
    with a.if_(Z):
        a.movzx(EAX, mem8(RDX, ref=PLACE))
        a.mov(R12, RAX)
    with a.else_():
        a.cmp(RCX, WRITE)
        with a.if_(Z):
            a.mov(mem8(RDX, ref=PLACE), AL)
        with a.else_():
            a.call_indirect(RDX)
    a.mov(RAX, R12)
    a.ret()


def _drain(a: Asm) -> None:
    """Send the whole log."""
    with a.loop() as waiting:
        a.call(log_drain)
        a.mov(RAX, LOG.it.tail)
        a.cmp(RAX, LOG.it.head)
        a.again(NZ, waiting)


def _slots(a: Asm) -> None:
    """Map two shards and enter them in the table; RBX is the first."""
    for slot in (1, 0):
        a.mov(EDI, slot)
        a.call(workspace_map)
        a.lea(RCX, CORE.it.slots.address)
        a.mov(Slot.at(RCX, slot * Slot.SIZE).context, EAX)
    a.mov(EBX, EAX)
    a.mov(core.slots_used, 2)
    a.mov(PERMITS.it.max_concurrency, 1)


@routine(
    clobbers=CALLER_SAVED,
    reads=[ROWS, LogState.head, LogState.tail, CoreState.slots_used],
    writes=[
        Permits.max_concurrency,
        PLACE,
        Slot.context,
        CoreState.slots_used,
        Probe.kind,
        Probe.address,
    ],
    calls=[workspace_map, shard_turn, log_write, log_drain, cpu_idle],
    saves=[RBX, R12],
    noreturn=True,
    source="decision 6",
)
def node_main(a: Asm) -> None:
    """Touch one place after the other as a shard, then touch one as the node."""
    _slots(a)
    a.xor(R12D, R12D)
    with a.loop() as probes:
        a.cmp(R12D, 16 * len(PROBES))
        a.leave(AE, probes)
        a.lea(RCX, TABLE.address)
        a.mov(RAX, mem64(RCX, index=R12, ref=ROWS))
        a.mov(PROBE.it.kind, RAX)
        a.mov(RAX, mem64(RCX, 8, index=R12, ref=ROWS))
        a.mov(PROBE.it.address, RAX)
        a.call(shard_turn)
        _drain(a)
        a.add(R12D, 16)
        a.jmp(probes.top)
    a.mov(EDX, R12D)
    a.mov(ECX, core.slots_used)
    a.xor(R8D, R8D)
    log(a, BOOT_READY)
    _drain(a)
    # Now as the node: this is nobody's fault but ours.
    a.mov(EAX, STACK_BOTTOM - 8)
    a.mov(mem8(RAX, ref=PLACE), AL)
    a.mov(RDI, -1)
    a.call(cpu_idle)
    a.ret()
