"""Exceptions: a shard's own fault costs that shard, anything else ends in a panic (decision 6)."""

from firmware.abi import CALLER_SAVED
from firmware.cpu.panic import panic
from firmware.layouts.bus import FLEET_SHARDS_MAX
from firmware.layouts.cpu import (
    EXCEPTIONS,
    FAULTS,
    RECOVERY,
    WITH_ERROR_CODE,
    Faults,
    TrapFrame,
    Vector,
)
from firmware.layouts.node import CORE, CoreState, Slot, core
from firmware.limits import (
    SHARDS_MAX,
    STACK_BYTES,
    STACK_TOP,
    WORKSPACE_BASE,
    WORKSPACE_STRIDE,
)
from toolchain.asm import (
    AE,
    CF,
    CR2,
    EAX,
    ECX,
    NZ,
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    RSP,
    A,
    Asm,
    B,
    C,
    In,
    Offset,
    Out,
    Reg64,
    Routine,
    mem64,
    routine,
)
from toolchain.asm.assembler import STACK
from toolchain.link import LinkerSymbol

NEVER_A_SHARD = (Vector.NMI, Vector.DOUBLE_FAULT, Vector.MACHINE_CHECK)
STRIDE_BITS = WORKSPACE_STRIDE.bit_length() - 1
EXCEPTION_NONE_ACTIVE = 0x2
"""RFLAGS of the recovered code: only the bit that is always set."""


def guarded_call(a: Asm, target: Routine) -> None:
    """Call a routine for the shard or link in RBX; a fault in it is the shard's or link's.

    After such a fault execution goes on behind the call, with `FAULTS.pending` set, RBX the shard,
    RAX all ones and every other register junk. So the routine that uses this declares
    `guard=True` and saves all preserved registers.
    """
    a.mov(RECOVERY, RSP)
    a.mov(core.current_shard, RBX)
    a.call(target)
    a.mov(core.current_shard, 0)


@routine(
    inputs=[In(RDI, TrapFrame, "what was interrupted")],
    outputs=[Out(CF, "1 = not a shard's fault; nothing was changed")],
    clobbers=[RAX, RCX, RDX, R8],
    reads=[
        TrapFrame.vector, TrapFrame.rsp, TrapFrame.rip, TrapFrame.error, CoreState.current_shard,
        CoreState.slots_used, Slot.context,
    ],
    writes=[
        TrapFrame.rip, TrapFrame.rsp, TrapFrame.rbx, TrapFrame.rax, TrapFrame.rflags,
        Faults.pending, Faults.vector, Faults.rip, Faults.address, Faults.error, Faults.shard,
        Faults.count,
    ],
    source="firmware/docs/boot.md#faults",
)  # fmt: skip
def fault_charge(a: Asm, frame: TrapFrame) -> None:
    """Send the interrupted code back to its guarded call when the fault is a shard's own."""
    no = a.label("no")
    shard, resume, back = RAX, RDX, RCX
    a.mov(shard, core.current_shard)
    a.test(shard, shard)
    a.jz(no)
    a.mov(RCX, frame.vector)
    for vector in NEVER_A_SHARD:
        a.cmp(RCX, vector)
        a.jz(no)
    # The node's structures are intact: the shard is one of the table, both stack pointers lie in
    # the stack, and the way back leads into the image.
    a.mov(R8, shard)
    a.sub(R8, WORKSPACE_BASE)
    a.shr(R8, STRIDE_BITS)
    a.mov(ECX, core.slots_used)
    a.cmp(RCX, SHARDS_MAX)
    a.j(A, no)
    with a.block() as known:
        a.cmp(R8, RCX)
        a.leave(B, known)
        # The links of a fleet have the last rows, beyond those of shards.
        a.cmp(R8, FLEET_SHARDS_MAX)
        a.j(B, no)
        a.cmp(R8, SHARDS_MAX)
        a.j(AE, no)
    a.shl(R8, 4)  # a slot row is 16 bytes
    a.lea(RCX, CORE.it.slots.address)
    a.mov(ECX, Slot.at(RCX, index=R8).context)
    a.cmp(RCX, shard)
    a.j(NZ, no)
    a.mov(RCX, frame.rsp)
    a.sub(RCX, STACK_TOP - STACK_BYTES)
    a.cmp(RCX, STACK_BYTES)
    a.j(AE, no)
    a.mov(resume, RECOVERY)
    a.mov(RCX, resume)
    a.sub(RCX, STACK_TOP - STACK_BYTES + 8)
    a.cmp(RCX, STACK_BYTES - 8)
    a.j(AE, no)
    a.mov(back, mem64(resume, -8, ref=STACK))
    a.mov(R8, Offset(LinkerSymbol("text_start")))
    a.cmp(back, R8)
    a.j(B, no)
    a.mov(R8, Offset(LinkerSymbol("text_end")))
    a.cmp(back, R8)
    a.j(AE, no)

    a.mov(FAULTS.it.shard, shard)
    a.mov(frame.rbx, shard)
    a.mov(RAX, frame.rip)
    a.mov(FAULTS.it.rip, RAX)
    a.mov(frame.rip, back)
    a.mov(frame.rsp, resume)
    a.mov(RAX, frame.error)
    a.mov(FAULTS.it.error, RAX)
    a.mov(RAX, frame.vector)
    a.mov(FAULTS.it.vector, EAX)
    a.mov(RAX, CR2)
    a.mov(FAULTS.it.address, RAX)
    a.mov(FAULTS.it.pending, 1)
    a.inc(FAULTS.it.count)
    a.mov(frame.rax, -1)
    a.mov(frame.rflags, EXCEPTION_NONE_ACTIVE)
    a.clc()
    a.ret()
    a.place(no)
    a.stc()
    a.ret()


@routine(
    inputs=[In(RDI, int, "TrapFrame of what was interrupted")],
    clobbers=CALLER_SAVED,
    calls=[fault_charge, panic],
    source="firmware/docs/boot.md#faults",
)
def fault_handle(a: Asm, frame: Reg64) -> None:
    """Charge the fault to a shard, or panic."""
    a.call(fault_charge)
    with a.if_(C):
        a.call(panic)
    a.ret()


_SAVED = (RAX, RCX, RDX, RBX, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15)
"""As TrapFrame has them, the highest address first."""


@routine(
    saves=_SAVED,
    guard=True,
    calls=[fault_handle],
    noreturn=True,
    source="Intel SDM volume 3, 6.14",
)
def fault_common(a: Asm) -> None:
    """Complete the TrapFrame that a stub began, handle the fault, and go where the frame says."""
    a.cld()
    a.mov(RDI, RSP)
    a.call(fault_handle)
    for register in reversed(_SAVED):
        a.pop(register)
    a.add(RSP, 24)  # the stub's return address, the vector, the error code
    a.iretq()


def _stub(vector: int) -> Routine:
    """Return the handler of one exception: it makes all frames alike."""

    def body(a: Asm) -> None:
        """Begin a TrapFrame."""
        if vector not in WITH_ERROR_CODE:
            a.push(0)
        a.push(vector)
        a.call(fault_common)

    body.__name__ = f"fault_{vector:02}"
    return routine(calls=[fault_common], noreturn=True, source="Intel SDM volume 3, 6.14")(body)


FAULT_STUBS: tuple[Routine, ...] = tuple(_stub(vector) for vector in range(EXCEPTIONS))
