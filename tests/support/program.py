"""A small whole program for tests of the toolchain: three modes, five sections, tables, tail calls."""

import enum

from toolchain.asm import (
    AL,
    AX,
    CL,
    DS,
    EAX,
    ECX,
    ESI,
    NZ,
    R12,
    RAX,
    RBX,
    RCX,
    RDX,
    RSI,
    Asm,
    In,
    Offset,
    Out,
    Reg32,
    Reg64,
    Region,
    Z,
    mem8,
    routine,
)  # fmt: skip
from toolchain.layout import Data, Global, Struct, Table, enum8, u16, u32, u64
from toolchain.layout.data import constant
from toolchain.link import Image, Linker, LinkerSymbol, SectionPlan

BOOT, BASE = 0x7C00, 0x6000_0000


class Mode(enum.IntEnum):
    """What the engine does."""

    IDLE = 0
    BUSY = 5


class Flags(enum.IntFlag):
    """Bits of `Engine.flags`."""

    HOT = 1 << 0
    LATE = 1 << 3


class Engine(Struct):
    """State of the made-up engine."""

    SIZE = 0x20
    mode = enum8(0x00, Mode, "what it does")
    port = u16(0x02, "a number")
    flags = u32(0x04, "see Flags")
    total = u64(0x10, "sum")


ENGINE = Global("engine", Engine, "the engine of the node")
LIMITS = Global("limits", Engine, "start values", init=bytes(range(0x20)))
GREETING = constant("greeting", b"hello; 'x' \"y\"\r\\" + b"\n\0\xff", "what it says")
ODD = constant("loop", b"\x07", "one byte under a name that NASM reserves")
SCRATCH = Data("scratch", 40, align=64, doc="work space")
BOOT_NOTE = Data("boot_note", 5, b"ready", 1, ".boot", "seen by nobody")
BOOT_WORD = Data("boot_word", 4, bytes(4), 4, ".boot", "the entry time")
TEXT = Region("text", "bytes that the caller owns")


@routine(
    inputs=[In(RBX, Engine, "the engine")],
    writes=[Engine.total],
    source="none",
)
def step_add(a: Asm, engine: Engine) -> None:
    """Count up."""
    a.add(engine.total, 1)
    a.ret()


@routine(
    inputs=[In(RBX, Engine, "the engine")],
    writes=[Engine.total, Engine.mode],
    calls=[step_add],
    source="none",
    align=16,
)
def step_sub(a: Asm, engine: Engine) -> None:
    """Count down, then go on as `step_add`."""
    a.sub(engine.total, 2)
    a.mov(engine.mode, Mode.BUSY)
    a.jmp(step_add)


STEPS = Table("steps", 2, lambda: (step_add, step_sub), "what the engine can do")


@routine(
    inputs=[In(RSI, int, "bytes"), In(ECX, int, "how many; not 0")],
    outputs=[Out(RAX, "sum of the bytes")],
    clobbers=[RCX, RDX, RSI],
    reads=[TEXT],
    source="none",
)
def checksum(a: Asm, text: Reg64, count: Reg32) -> None:
    """Add up bytes."""
    a.xor(EAX, EAX)

    # One byte a turn.
    with a.loop() as top:
        a.movzx(RDX, mem8(RSI, ref=TEXT))  # a byte has no sign here
        a.add(RAX, RDX)
        a.inc(RSI)
        a.dec(ECX)
        a.again(NZ, top)
    a.ret()


@routine(
    noreturn=True,
    clobbers=[RAX, RBX, RCX, RDX, RSI],
    reads=[Engine.mode, Engine.flags, STEPS, ODD, SCRATCH],
    writes=[Engine.flags],
    calls=[checksum],
    indirect=STEPS.entries,
    saves=[R12],
    stack=16,
    source="none",
)
def main(a: Asm) -> None:
    """Run for ever."""
    done = a.label("done")
    a.mov(a.local(8, 8), 0)
    with a.loop() as top:
        # What the greeting says is read by the callee.
        a.lea(RSI, GREETING.address)
        a.mov(ECX, GREETING.size)
        a.call(checksum)
        a.lea(RBX, ENGINE.address)
        a.test(ENGINE.it.flags, Flags.HOT | Flags.LATE)
        a.j(Z, done)
        a.mov(CL, ODD.m8())
        # Unrolled on purpose, so that the branches above need their long form.
        for n in range(30):
            a.add(CL, LIMITS.it.mode)
            a.shl(ENGINE.it.flags, CL) if n % 2 else a.or_(ENGINE.it.flags, n)

        a.mov(R12, STEPS.m64(8))
        a.call_indirect(R12)
        a.cmp(SCRATCH.m32(4), -1)
        a.again(NZ, top)
    a.place(done)
    a.hlt()
    a.jmp(done)


@routine(bits=32, section=".boot", noreturn=True, calls=[main], clobbers=[RAX, RSI],
         reads=[TEXT, BOOT_WORD], writes=[BOOT_WORD], source="none")  # fmt: skip
def boot_protected(a: Asm) -> None:
    """Enter in protected mode."""
    a.mov(ESI, Offset(BOOT_NOTE, 1))
    a.add(ESI, Offset(LinkerSymbol("text_start")))
    a.mov(EAX, BOOT_WORD.m32())  # the accumulator form, short outside 64-bit code
    a.mov(AL, mem8(ESI, 1, ref=TEXT))
    a.mov(BOOT_WORD.m32(), EAX)
    a.far_jmp(16, main)


@routine(bits=16, section=".boot", noreturn=True, calls=[boot_protected], clobbers=[RAX],
         writes=[BOOT_WORD], source="none")  # fmt: skip
def boot_entry(a: Asm) -> None:
    """Enter in real mode."""
    a.cli()
    a.xor(AX, AX)
    a.mov(DS, AX)
    a.mov(BOOT_WORD.m16(2), AX)
    a.far_jmp(8, boot_protected)


PLAN = (
    SectionPlan(".boot", BOOT, executable=True, writable=True, bits=16, filler=0x90),
    SectionPlan(".text", BASE, executable=True, filler=0xCC),
    SectionPlan(".rodata", align=64),
    SectionPlan(".data", align=4096, writable=True),
    SectionPlan(".bss", align=4096, writable=True),
)


def program() -> Image:
    """Return the linked program."""
    return Linker((boot_entry,), PLAN).link()
