"""Which forms of a mnemonic take operands of a shape, and which of them NASM would choose."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import iced_x86 as ix

from toolchain.asm.instructions import FORMS
from toolchain.asm.operands import Mem
from toolchain.asm.registers import CtrlReg, Reg, Reg8, Reg16, Reg32, Reg64, SegReg, Xmm

_REG_KIND: dict[type, str] = {
    Reg8: "r8", Reg16: "r16", Reg32: "r32", Reg64: "r64", Xmm: "x", CtrlReg: "cr", SegReg: "seg",
}  # fmt: skip
_FIXED = {"al", "ax", "eax", "rax", "cl", "dx", "es", "cs", "ss", "ds", "fs", "gs"}
_FIXED_KINDS = {
    "al": "r8",
    "cl": "r8",
    "ax": "r16",
    "dx": "r16",
    "eax": "r32",
    "rax": "r64",
} | dict.fromkeys(("es", "cs", "ss", "ds", "fs", "gs"), "seg")
# Forms that iced's tables give under other names, or that take no part in the generated methods.
_EXTRA: dict[tuple[str, int], tuple[tuple[str, tuple[str, ...], int], ...]] = {
    ("ret", 64): (("RETNQ", (), 0),),
    ("ret", 32): (("RETND", (), 0),),
    ("ret", 16): (("RETNW", (), 0),),
    ("call", 64): (("CALL_RM64", ("rm64",), 8),),
    ("int", 64): (("INT_IMM8", ("i8",), 0),),
    ("int", 32): (("INT_IMM8", ("i8",), 0),),
    ("int", 16): (("INT_IMM8", ("i8",), 0),),
    ("call far", 16): (("CALL_M1616", ("m",), 4),),
}
# Forms beside those of the generated table: shorter ones that NASM takes outside 64-bit code.
_ALSO: dict[str, tuple[tuple[str, tuple[str, ...], int], ...]] = {
    "mov": (
        ("MOV_AL_MOFFS8", ("al", "moffs"), 1),
        ("MOV_AX_MOFFS16", ("ax", "moffs"), 2),
        ("MOV_EAX_MOFFS32", ("eax", "moffs"), 4),
        ("MOV_MOFFS8_AL", ("moffs", "al"), 1),
        ("MOV_MOFFS16_AX", ("moffs", "ax"), 2),
        ("MOV_MOFFS32_EAX", ("moffs", "eax"), 4),
    ),
}
# A selector has 16 bits whatever the register; the shortest encoding names the mode's own width.
SELECTORS = ("ltr", "lldt", "lmsw", "verr", "verw")
_ALSO |= {m: ((f"{m.upper()}_R32M16", ("rm32",), 2),) for m in SELECTORS}
# What `push imm` pushes is a word of the mode, as in NASM.
_PUSH_ANY = ("r16", "r32", "r64", "rm16", "rm32", "rm64")
_PUSHED = {16: ("PUSHW_", "PUSH_IMM16"), 32: ("PUSHD_",), 64: ("PUSHQ_",)}
# NASM takes these in the other order of the same length; listed are iced's names it does not take.
_NOT_CANONICAL = ("_R8_RM8", "_R16_RM16", "_R32_RM32", "_R64_RM64")
_MR_FIRST = {"add", "adc", "sub", "sbb", "and", "or", "xor", "cmp", "mov"}
_LOAD_FIRST = ("_XMMM128_XMM", "_XMMM64_XMM", "_XMMM32_XMM")
_GENERAL_MOVQ = ("MOVQ_RM64_XMM", "MOVQ_XMM_RM64")


@cache
def _rows(mnemonic: str, bits: int) -> tuple[tuple[ix.Code_, str, tuple[str, ...], int], ...]:
    rows = _EXTRA.get((mnemonic, bits)) or FORMS.get(mnemonic, ()) + _ALSO.get(mnemonic, ())
    found = []
    for name, kinds, size in rows:
        if "moffs" in kinds and bits == 64:
            continue
        if mnemonic == "push" and kinds[0] not in _PUSH_ANY and not name.startswith(_PUSHED[bits]):
            continue
        code = getattr(ix.Code, name)
        if ix.OpCodeInfo(code).is_available_in_mode(bits):
            found.append((code, name, kinds, size))
    return tuple(found)


@dataclass(frozen=True)
class Candidate:
    """A form that takes operands of a shape; only immediates are still to be tried.

    Args:
        code: iced's code.
        kinds: Operand kinds.
        width: Bits that a sign-extended imm8 grows to.
        rank: Among forms of the same length the lowest is NASM's.
        immediates: Positions of the immediates.
        clears: `xchg eax, eax` in 64-bit code clears bits 63:32 of RAX; 90 is NOP and does not.
    """

    code: ix.Code_
    kinds: tuple[str, ...]
    width: int
    rank: tuple[int, int]
    immediates: tuple[int, ...]
    clears: bool


def shape_of(op: object) -> str:
    """Return what matters of an operand for the choice of forms."""
    if isinstance(op, Reg):
        return op.name if op.name in _FIXED else _REG_KIND[type(op)]
    if isinstance(op, Mem):
        return f"{'abs' if op.base is None and op.index is None else 'mem'}{op.size}"
    return "int" if isinstance(op, int) else "symbol"


def _width(kinds: tuple[str, ...], shapes: tuple[str, ...], bits: int) -> int:
    """Return the operand width in bits that a sign-extended imm8 grows to."""
    for kind, shape in zip(kinds, shapes, strict=True):
        if kind.startswith("rm"):
            return int(kind[2:])
        if kind in ("r16", "r32", "r64"):
            return int(kind[1:])
        if shape[:3] in ("mem", "abs"):
            return int(shape[3:]) * 8
    return bits


def _takes(kind: str, shape: str, size: int) -> bool:
    """Tell whether a kind of operand takes a shape, immediates by their kind alone."""
    if shape in ("int", "symbol"):
        wide = kind in ("i16", "i32", "i64")
        return wide or (shape == "int" and (kind == "one" or kind.startswith("i")))
    if shape[:3] in ("mem", "abs"):
        own = int(shape[3:])
        if kind == "moffs":
            return shape[:3] == "abs" and size == own
        if kind not in ("m", "xm") and not kind.startswith("rm"):
            return False
        return size == own or size not in (1, 2, 4, 8, 16) or own == 0
    if kind in _FIXED:
        return kind == shape
    general = _FIXED_KINDS.get(shape, shape)
    return kind in (general, "rm" + general[1:]) or (kind == "xm" and general == "x")


@cache
def candidates(mnemonic: str, bits: int, shapes: tuple[str, ...]) -> tuple[Candidate, ...]:
    """Return the forms of a mnemonic that take operands of these shapes."""
    found = []
    for n, (code, name, kinds, size) in enumerate(_rows(mnemonic, bits)):
        if len(kinds) != len(shapes):
            continue
        if all(_takes(kind, shape, size) for kind, shape in zip(kinds, shapes, strict=True)):
            immediates = tuple(m for m, shape in enumerate(shapes) if shape == "int")
            rank = (_late(mnemonic, name, kinds, shapes), n)
            clears = name == "XCHG_R32_EAX" and bits == 64
            width = _width(kinds, shapes, bits)
            found.append(Candidate(code, kinds, width, rank, immediates, clears))
    return tuple(found)


def _late(mnemonic: str, name: str, kinds: tuple[str, ...], shapes: tuple[str, ...]) -> int:
    """Tell whether NASM prefers another form of the same length."""
    if kinds == ("ax", "i16"):
        return 1
    if any(shape[:3] in ("mem", "abs", "int", "sym") for shape in shapes):
        return int(name in _GENERAL_MOVQ)
    if mnemonic in _MR_FIRST:
        return int(name.endswith(_NOT_CANONICAL))
    return int(name.endswith(_LOAD_FIRST))
