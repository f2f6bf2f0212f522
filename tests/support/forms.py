"""Every instruction form of the assembler, with registers, memory and immediates that matter."""

from __future__ import annotations

import itertools
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolchain.asm import (
    AH,
    AL,
    AX,
    BPL,
    BX,
    CL,
    CR0,
    CR3,
    CS,
    DI,
    DS,
    DX,
    EAX,
    EBP,
    EBX,
    ECX,
    EDX,
    ES,
    ESI,
    ESP,
    FS,
    GS,
    R8,
    R9D,
    R10B,
    R11W,
    R12,
    R13,
    R14D,
    RAX,
    RBP,
    RBX,
    RCX,
    RDX,
    RSI,
    RSP,
    SI,
    SS,
    XMM0,
    XMM3,
    XMM9,
    Asm,
    AsmError,
    Mem,
    Region,
)  # fmt: skip
from toolchain.asm.instructions import FORMS
from toolchain.asm.operands import BY_SIZE
from toolchain.asm.routine import Contract, Routine
from toolchain.layout import Data
from toolchain.link import Linker, SectionPlan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolchain.asm.assembler import Line
    from toolchain.link import Image

ANYWHERE = Region("anywhere", "memory of a test that is never run")
TARGET = Data("target", 64, doc="a symbol to refer to")
REGISTERS: dict[str, tuple[Any, ...]] = {
    "r8": (AL, CL, AH, BPL, R10B), "r16": (AX, BX, R11W), "r32": (EAX, ECX, R9D, R14D),
    "r64": (RAX, RCX, R8, R13), "x": (XMM0, XMM3, XMM9), "cr": (CR0, CR3),
    "seg": (DS, ES, SS, FS, GS),
    "al": (AL,), "ax": (AX,), "eax": (EAX,), "rax": (RAX,), "cl": (CL,), "dx": (DX,),
    "es": (ES,), "cs": (CS,), "ss": (SS,), "ds": (DS,), "fs": (FS,), "gs": (GS,),
}  # fmt: skip
IMMEDIATES = {
    "i8": (0, 1, 0x7F, -1, 0x80, 0xFF),
    "i8s": (0, 1, 0x7F, -1, -128),
    "i16": (0, 0x7F, 0x80, 0x1234, -0x1234, 0xFFFF, 0xFF80),
    "i32": (0, 0x7F, 0x80, 0x12345678, -0x12345678, 0xFFFFFFFF, 0xFFFFFF80),
    "i32s": (0, 0x7F, 0x80, 0x12345678, -0x12345678, 0xFFFFFFFFFFFFFF80),
    "i64": (0, 1, -1, 0x80000000, 0xFFFFFFFF, 0x123456789ABCDEF0, 0xFFFFFFFF80000000),
    "one": (1,),
}


def _addresses(bits: int) -> list[dict[str, Any]]:
    if bits == 16:
        return [
            {"base": BX, "index": SI}, {"base": DI, "disp": 5}, {"base": SI, "disp": -0x200},
            {"base": None, "disp": 0x1234}, {"base": ESI, "disp": 4}, {"symbol": TARGET, "disp": 2},
            {"base": BX, "disp": 1, "segment": ES},
        ]  # fmt: skip
    if bits == 32:
        return [
            {"base": EBX}, {"base": EBP}, {"base": ESP, "disp": 8}, {"base": EAX, "disp": 0x80},
            {"base": ECX, "index": EDX, "scale": 4, "disp": -128}, {"base": None, "disp": 0xFEE00030},
            {"symbol": TARGET, "disp": 4}, {"index": ESI, "scale": 8, "disp": 4},
        ]  # fmt: skip
    return [
        {"base": RBX}, {"base": RBP}, {"base": R13}, {"base": RSP, "disp": 8}, {"base": R12},
        {"base": R8, "disp": 0x7F}, {"base": RSI, "disp": 0x80}, {"base": RAX, "disp": -129},
        {"base": RCX, "index": RDX, "scale": 1}, {"base": RBX, "index": R12, "scale": 8, "disp": 1},
        {"base": R13, "index": RBP, "scale": 2}, {"base": RBP, "index": RAX, "scale": 1},
        {"base": RBP, "index": R13, "scale": 1}, {"index": RAX, "scale": 2},
        {"index": RAX, "scale": 2, "disp": 0x10}, {"index": RAX, "scale": 1}, {"index": RCX, "scale": 4},
        {"base": None, "disp": 0x1000}, {"base": None, "disp": 0x30, "segment": GS},
        {"base": RBX, "disp": 8, "segment": FS}, {"symbol": TARGET}, {"symbol": TARGET, "disp": 16},
    ]  # fmt: skip


def _memory(size: int, bits: int) -> list[Mem[Any]]:
    cls = BY_SIZE.get(size, Mem)
    return [cls(ref=ANYWHERE, **parts) for parts in _addresses(bits)]


def _choices(kind: str, size: int, bits: int) -> list[Any]:
    if kind == "m":
        return _memory(size, bits)
    if kind == "xm":
        return [*REGISTERS["x"], *_memory(size, bits)]
    if kind.startswith("rm"):
        return [*REGISTERS["r" + kind[2:]], *_memory(size, bits)]
    if kind in REGISTERS:
        return list(REGISTERS[kind])
    return list(IMMEDIATES[kind])


def operand_sets(kinds: tuple[str, ...], size: int, bits: int) -> Iterator[tuple[Any, ...]]:
    """Yield operands so that each choice of each position appears with the first of the others,
    and all pairs of registers and immediates appear."""
    choices = [_choices(kind, size, bits) for kind in kinds]
    if not choices:
        yield ()
        return
    seen: set[str] = set()
    plain = [[c for c in options if not isinstance(c, Mem)] or options[:1] for options in choices]
    sets: list[tuple[Any, ...]] = list(itertools.product(*plain))
    for n, options in enumerate(choices):
        for m, option in enumerate(options):
            others = [o[m % len(o)] for o in plain]
            sets.append((*others[:n], option, *others[n + 1 :]))
    for ops in sets:
        if (key := repr(ops)) not in seen:
            seen.add(key)
            yield ops


_REFUSALS = ("-bit form of", "has no encoding", "lea ignores the base")


def every_line(bits: int) -> list[Line]:
    """Return each form of FORMS in every width, with operands that the encoder accepts."""
    asm = Asm("forms", bits)
    for mnemonic, rows in FORMS.items():
        for _name, kinds, size in rows:
            for ops in operand_sets(kinds, size, bits):
                try:
                    asm.emit(mnemonic, *ops)
                except AsmError as problem:
                    if not any(text in problem.what for text in _REFUSALS):
                        raise
    for method in sorted(dir(asm)):
        prefix, _, name = method.rpartition("_")
        wide = name.endswith("q") and bits != 64
        if (
            name[:4] in ("movs", "stos", "lods", "scas", "cmps") and name[4:] in "bwdq" and not wide
        ) or name in ("insb", "insw", "insd", "outsb", "outsw", "outsd"):
            asm.emit(f"{prefix} {name}".strip())
    return asm.lines


def unchecked(name: str, lines: list[Line], bits: int, section: str = ".text") -> Routine:
    """Return lines as a routine past the contract checks, for tests of encoding alone."""
    contract = Contract(bits=bits, section=section, source="a test")
    return Routine(name, __name__, "", contract, lambda: None, (), f"{__file__}:1", lines)


def linked(lines: list[Line], bits: int) -> Image:
    """Return an image with one unchecked routine."""
    base = {16: 0x600, 32: 0x7C00, 64: 0x6000_0000}[bits]
    code = SectionPlan(".text", base, executable=True, bits=bits)
    bss = SectionPlan(".bss", 0x500 if bits == 16 else None, align=16, writable=True)
    return Linker([unchecked("forms", lines, bits)], [code, bss]).link()


def nasm(text: str) -> bytes:
    """Assemble text with the real NASM and return the flat binary."""
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder) / "listing.asm", Path(folder) / "listing.bin"
        source.write_text(text, encoding="utf-8")
        command = ["nasm", "-f", "bin", "-w+error", "-o", str(output), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:2000]
        return output.read_bytes()
