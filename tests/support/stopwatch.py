"""Measure core cycles of our calls and of another library's by one loop.

The loop is emitted by our own assembler and linked beside the routines. It takes a script: rows of a
function and its six System V arguments, run one after another, over and over between two readings of
the time-stamp counter. So both sides pay the same few cycles for the loop and the loading of the
arguments. A chain of IMUL, three cycles each, tells core cycles from the counter's ticks.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import TYPE_CHECKING, Any, NamedTuple

from firmware import limits
from firmware.abi import CALLER_SAVED
from toolchain.asm import (
    NZ,
    R8,
    R9,
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
    Asm,
    In,
    Out,
    Reg64,
    mem64,
    routine,
)
from toolchain.asm.operands import Region
from toolchain.link import Linker, SectionPlan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolchain.asm import Routine

SCRIPT = Region("the script", "rows of eight quadwords: function, six arguments, nothing")
ROW = 64
CHAIN, CHAIN_CYCLES = 200, 3
"""IMUL has a latency of three cycles on every processor since 2008."""
BATCHES, BATCH_TICKS = 200, 120_000
"""The least of so many short batches is what no other work has disturbed."""
PLAN = (
    SectionPlan(".text", limits.IMAGE_BASE, executable=True),
    SectionPlan(".rodata", align=4096),
    SectionPlan(".data", align=4096, writable=True),
    SectionPlan(".bss", align=4096, writable=True),
    SectionPlan(".trust", align=4096),
)


@routine(
    inputs=[In(register, int, "an argument") for register in (RDI, RSI, RDX, RCX, R8, R9)],
    clobbers=CALLER_SAVED,
    source="System V: arguments, and what a call may change",
)
def anything(a: Asm, _1: Reg64, _2: Reg64, _3: Reg64, _4: Reg64, _5: Reg64, _6: Reg64) -> None:
    """Stand for any function of System V."""
    a.ret()


@routine(
    inputs=[
        In(RDI, int, "the script"),
        In(RSI, int, "its rows"),
        In(RDX, int, "how often"),
    ],
    outputs=[Out(RAX, "ticks of the time-stamp counter")],
    clobbers=CALLER_SAVED,
    reads=[SCRIPT],
    indirect=lambda: (anything,),
    saves=[RBX, RBP, R12, R13, R14, R15],
    stack=8,
    source="SDM volume 3, 18.17",
)
def timed_calls(a: Asm, script: Reg64, rows: Reg64, rounds: Reg64) -> None:
    """Run the script over and over; tell how long it took."""
    a.mov(R12, script)
    a.mov(R13, rows)
    a.mov(R14, rounds)
    a.lfence()
    a.rdtsc64()
    a.mov(R15, RAX)
    with a.loop() as again:
        a.mov(RBX, R12)
        a.mov(RBP, R13)
        with a.loop() as row:
            for n, argument in enumerate((RDI, RSI, RDX, RCX, R8, R9), 1):  # unrolled: six
                a.mov(argument, mem64(RBX, 8 * n, ref=SCRIPT))
            a.call_indirect(mem64(RBX, ref=SCRIPT))
            a.add(RBX, ROW)
            a.dec(RBP)
            a.again(NZ, row)
        a.dec(R14)
        a.again(NZ, again)
    a.lfence()
    a.rdtsc64()
    a.sub(RAX, R15)
    a.ret()


@routine(outputs=[Out(RAX, "a number")], source="the manuals of AMD and Intel: latency of IMUL")
def imul_chain(a: Asm) -> None:
    """Multiply a chain of numbers, each of which waits for the one before."""
    a.mov(RAX, 3)
    for _ in range(CHAIN):  # unrolled
        a.imul(RAX, RAX)
    a.ret()


class Step(NamedTuple):
    """One call: the address of a function and its arguments."""

    function: int
    arguments: tuple[int, ...]


class Stopwatch:
    """Routines at their link addresses in this process, and buffers for them.

    Args:
        routines: What to link; what they call comes along.
    """

    def __init__(self, *routines: Routine) -> None:
        self.image = Linker((*routines, timed_calls, imul_chain), PLAN).link()
        self._kept: list[Any] = []
        for section in self.image.sections:
            if section.size:
                self._map(section.address, section.contents, section.size, section.executable)
        kind = ctypes.CFUNCTYPE(ctypes.c_uint64, *[ctypes.c_uint64] * 3)
        self._loop = kind(self.image.address(timed_calls))
        self._ticks_of_a_cycle = self._ticks([self.step(imul_chain)]) / (CHAIN * CHAIN_CYCLES)

    def _map(self, address: int, contents: bytes, size: int, executable: bool) -> None:
        libc = ctypes.CDLL(None)
        libc.mmap.restype = libc.mprotect.restype = ctypes.c_int64
        length = (size + mmap.PAGESIZE - 1) & -mmap.PAGESIZE
        fixed = 0x100000 | mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # MAP_FIXED_NOREPLACE
        writable = mmap.PROT_READ | mmap.PROT_WRITE
        got = libc.mmap(
            ctypes.c_uint64(address),
            ctypes.c_size_t(length),
            writable,
            fixed,
            -1,
            ctypes.c_int64(0),
        )
        if got != address:
            raise RuntimeError(f"{address:#x} is taken in this process; run the benchmark alone")
        ctypes.memmove(address, contents, len(contents))
        if executable:
            rights = mmap.PROT_READ | mmap.PROT_EXEC
            libc.mprotect(ctypes.c_uint64(address), ctypes.c_size_t(length), rights)

    def buffer(self, contents: bytes | int, align: int = 64) -> int:
        """Return the address of memory that lives as long as this object."""
        size = contents if isinstance(contents, int) else len(contents)
        raw = ctypes.create_string_buffer(size + align)
        self._kept.append(raw)
        address = (ctypes.addressof(raw) + align - 1) // align * align
        if not isinstance(contents, int):
            ctypes.memmove(address, contents, size)
        return address

    def write(self, address: int, contents: bytes) -> None:
        """Set bytes of the image's variables, or of a buffer."""
        ctypes.memmove(address, contents, len(contents))

    def step(self, what: Routine | int, *arguments: int) -> Step:
        """Return one call of a routine of ours, or of a function at an address."""
        address = what if isinstance(what, int) else self.image.address(what)
        return Step(address, arguments)

    def _ticks(self, steps: Sequence[Step]) -> float:
        rows = (ctypes.c_uint64 * (8 * len(steps)))()
        for n, step in enumerate(steps):
            row: list[ctypes.c_uint64 | int] = [step.function, *step.arguments]
            rows[8 * n : 8 * n + len(row)] = row
        script = ctypes.addressof(rows)
        once = min(self._loop(script, len(steps), 1) for _ in range(50))
        rounds = max(1, BATCH_TICKS // int(once))
        least: float = min(self._loop(script, len(steps), rounds) for _ in range(BATCHES))
        return least / rounds

    def cycles(self, *steps: Step) -> float:
        """Return the core cycles of the steps together."""
        return self._ticks(steps) / self._ticks_of_a_cycle
