"""Registers as typed objects, one class per width, so that a width slip is a type error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import iced_x86 as ix

R = TypeVar("R", bound="Reg")


@dataclass(frozen=True)
class Reg:
    """A register: its NASM name, iced's number, and the widest register it is part of."""

    name: str
    id: ix.Register_
    full: str

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name.upper()


class Reg8(Reg):
    """An 8-bit general-purpose register."""


class Reg16(Reg):
    """A 16-bit general-purpose register."""


class Reg32(Reg):
    """A 32-bit general-purpose register; a write clears bits 63:32 of the full one."""


class Reg64(Reg):
    """A 64-bit general-purpose register."""


class Xmm(Reg):
    """A 128-bit SSE register."""


class SegReg(Reg):
    """A segment register."""


class CtrlReg(Reg):
    """A control register."""


class Flag(Reg):
    """One bit of RFLAGS as an output of a contract; no operand."""


class Convention(tuple[Reg, ...]):
    """Clobbers by calling convention: all of these may change, whether or not they do today.

    For routines that call across layers, so that a callee's change stays within its layer.
    """


def _make(cls: type[R], name: str, full: str) -> R:
    return cls(name, getattr(ix.Register, name.upper()), full)


GPR_NAMES = (
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
    "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
)  # fmt: skip
FLAG_NAMES = ("cf", "pf", "af", "zf", "sf", "of", "df", "if")
RAX = _make(Reg64, "rax", "rax")
EAX = _make(Reg32, "eax", "rax")
AX = _make(Reg16, "ax", "rax")
AL = _make(Reg8, "al", "rax")
RCX = _make(Reg64, "rcx", "rcx")
ECX = _make(Reg32, "ecx", "rcx")
CX = _make(Reg16, "cx", "rcx")
CL = _make(Reg8, "cl", "rcx")
RDX = _make(Reg64, "rdx", "rdx")
EDX = _make(Reg32, "edx", "rdx")
DX = _make(Reg16, "dx", "rdx")
DL = _make(Reg8, "dl", "rdx")
RBX = _make(Reg64, "rbx", "rbx")
EBX = _make(Reg32, "ebx", "rbx")
BX = _make(Reg16, "bx", "rbx")
BL = _make(Reg8, "bl", "rbx")
RSP = _make(Reg64, "rsp", "rsp")
ESP = _make(Reg32, "esp", "rsp")
SP = _make(Reg16, "sp", "rsp")
SPL = _make(Reg8, "spl", "rsp")
RBP = _make(Reg64, "rbp", "rbp")
EBP = _make(Reg32, "ebp", "rbp")
BP = _make(Reg16, "bp", "rbp")
BPL = _make(Reg8, "bpl", "rbp")
RSI = _make(Reg64, "rsi", "rsi")
ESI = _make(Reg32, "esi", "rsi")
SI = _make(Reg16, "si", "rsi")
SIL = _make(Reg8, "sil", "rsi")
RDI = _make(Reg64, "rdi", "rdi")
EDI = _make(Reg32, "edi", "rdi")
DI = _make(Reg16, "di", "rdi")
DIL = _make(Reg8, "dil", "rdi")
AH = _make(Reg8, "ah", "rax")
CH = _make(Reg8, "ch", "rcx")
DH = _make(Reg8, "dh", "rdx")
BH = _make(Reg8, "bh", "rbx")
R8 = _make(Reg64, "r8", "r8")
R8D = _make(Reg32, "r8d", "r8")
R8W = _make(Reg16, "r8w", "r8")
R8B = Reg8("r8b", ix.Register.R8L, "r8")
R9 = _make(Reg64, "r9", "r9")
R9D = _make(Reg32, "r9d", "r9")
R9W = _make(Reg16, "r9w", "r9")
R9B = Reg8("r9b", ix.Register.R9L, "r9")
R10 = _make(Reg64, "r10", "r10")
R10D = _make(Reg32, "r10d", "r10")
R10W = _make(Reg16, "r10w", "r10")
R10B = Reg8("r10b", ix.Register.R10L, "r10")
R11 = _make(Reg64, "r11", "r11")
R11D = _make(Reg32, "r11d", "r11")
R11W = _make(Reg16, "r11w", "r11")
R11B = Reg8("r11b", ix.Register.R11L, "r11")
R12 = _make(Reg64, "r12", "r12")
R12D = _make(Reg32, "r12d", "r12")
R12W = _make(Reg16, "r12w", "r12")
R12B = Reg8("r12b", ix.Register.R12L, "r12")
R13 = _make(Reg64, "r13", "r13")
R13D = _make(Reg32, "r13d", "r13")
R13W = _make(Reg16, "r13w", "r13")
R13B = Reg8("r13b", ix.Register.R13L, "r13")
R14 = _make(Reg64, "r14", "r14")
R14D = _make(Reg32, "r14d", "r14")
R14W = _make(Reg16, "r14w", "r14")
R14B = Reg8("r14b", ix.Register.R14L, "r14")
R15 = _make(Reg64, "r15", "r15")
R15D = _make(Reg32, "r15d", "r15")
R15W = _make(Reg16, "r15w", "r15")
R15B = Reg8("r15b", ix.Register.R15L, "r15")
XMM0 = _make(Xmm, "xmm0", "xmm0")
XMM1 = _make(Xmm, "xmm1", "xmm1")
XMM2 = _make(Xmm, "xmm2", "xmm2")
XMM3 = _make(Xmm, "xmm3", "xmm3")
XMM4 = _make(Xmm, "xmm4", "xmm4")
XMM5 = _make(Xmm, "xmm5", "xmm5")
XMM6 = _make(Xmm, "xmm6", "xmm6")
XMM7 = _make(Xmm, "xmm7", "xmm7")
XMM8 = _make(Xmm, "xmm8", "xmm8")
XMM9 = _make(Xmm, "xmm9", "xmm9")
XMM10 = _make(Xmm, "xmm10", "xmm10")
XMM11 = _make(Xmm, "xmm11", "xmm11")
XMM12 = _make(Xmm, "xmm12", "xmm12")
XMM13 = _make(Xmm, "xmm13", "xmm13")
XMM14 = _make(Xmm, "xmm14", "xmm14")
XMM15 = _make(Xmm, "xmm15", "xmm15")
CS = _make(SegReg, "cs", "cs")
DS = _make(SegReg, "ds", "ds")
ES = _make(SegReg, "es", "es")
SS = _make(SegReg, "ss", "ss")
FS = _make(SegReg, "fs", "fs")
GS = _make(SegReg, "gs", "gs")
CR0 = _make(CtrlReg, "cr0", "cr0")
CR2 = _make(CtrlReg, "cr2", "cr2")
CR3 = _make(CtrlReg, "cr3", "cr3")
CR4 = _make(CtrlReg, "cr4", "cr4")
CF = Flag("cf", ix.Register.NONE, "cf")
PF = Flag("pf", ix.Register.NONE, "pf")
AF = Flag("af", ix.Register.NONE, "af")
ZF = Flag("zf", ix.Register.NONE, "zf")
SF = Flag("sf", ix.Register.NONE, "sf")
OF = Flag("of", ix.Register.NONE, "of")
DF = Flag("df", ix.Register.NONE, "df")

LOW8: dict[str, Reg8] = {
    r.full: r
    for r in (AL, CL, DL, BL, SPL, BPL, SIL, DIL, R8B, R9B, R10B, R11B, R12B, R13B, R14B, R15B)
}
LOW16: dict[str, Reg16] = {
    r.full: r
    for r in (AX, CX, DX, BX, SP, BP, SI, DI, R8W, R9W, R10W, R11W, R12W, R13W, R14W, R15W)
}
LOW32: dict[str, Reg32] = {
    r.full: r
    for r in (EAX, ECX, EDX, EBX, ESP, EBP, ESI, EDI, R8D, R9D, R10D, R11D, R12D, R13D, R14D, R15D)
}
WHOLE: dict[str, Reg64] = {
    r.full: r
    for r in (RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15)
}


def low8(reg: Reg) -> Reg8:
    """Return the low byte of a general-purpose register."""
    return LOW8[reg.full]


def low16(reg: Reg) -> Reg16:
    """Return the low word of a general-purpose register."""
    return LOW16[reg.full]


def low32(reg: Reg) -> Reg32:
    """Return the low doubleword of a general-purpose register."""
    return LOW32[reg.full]


def whole(reg: Reg) -> Reg64:
    """Return the 64-bit register that `reg` is part of."""
    return WHOLE[reg.full]


__all__ = [
    "AF",
    "AH",
    "AL",
    "AX",
    "BH",
    "BL",
    "BP",
    "BPL",
    "BX",
    "CF",
    "CH",
    "CL",
    "CR0",
    "CR2",
    "CR3",
    "CR4",
    "CS",
    "CX",
    "DF",
    "DH",
    "DI",
    "DIL",
    "DL",
    "DS",
    "DX",
    "EAX",
    "EBP",
    "EBX",
    "ECX",
    "EDI",
    "EDX",
    "ES",
    "ESI",
    "ESP",
    "FS",
    "GS",
    "OF",
    "PF",
    "R8",
    "R8B",
    "R8D",
    "R8W",
    "R9",
    "R9B",
    "R9D",
    "R9W",
    "R10",
    "R10B",
    "R10D",
    "R10W",
    "R11",
    "R11B",
    "R11D",
    "R11W",
    "R12",
    "R12B",
    "R12D",
    "R12W",
    "R13",
    "R13B",
    "R13D",
    "R13W",
    "R14",
    "R14B",
    "R14D",
    "R14W",
    "R15",
    "R15B",
    "R15D",
    "R15W",
    "RAX",
    "RBP",
    "RBX",
    "RCX",
    "RDI",
    "RDX",
    "RSI",
    "RSP",
    "SF",
    "SI",
    "SIL",
    "SP",
    "SPL",
    "SS",
    "XMM0",
    "XMM1",
    "XMM2",
    "XMM3",
    "XMM4",
    "XMM5",
    "XMM6",
    "XMM7",
    "XMM8",
    "XMM9",
    "XMM10",
    "XMM11",
    "XMM12",
    "XMM13",
    "XMM14",
    "XMM15",
    "ZF",
    "Convention",
    "CtrlReg",
    "Flag",
    "Reg",
    "Reg8",
    "Reg16",
    "Reg32",
    "Reg64",
    "SegReg",
    "Xmm",
    "low8",
    "low16",
    "low32",
    "whole",
]
