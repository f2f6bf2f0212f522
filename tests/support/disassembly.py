"""Two disassemblers that share no code, iced-x86 and Capstone, made comparable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import capstone as cs
import capstone.x86 as cx
import iced_x86 as ix

if TYPE_CHECKING:
    from collections.abc import Iterator

_MODES = {16: cs.CS_MODE_16, 32: cs.CS_MODE_32, 64: cs.CS_MODE_64}
_REGISTERS = {
    value: name.lower()
    for name, value in vars(ix.Register).items()
    if name.isupper() and isinstance(value, int)
}
_RENAMED = {f"r{n}l": f"r{n}b" for n in range(8, 16)}
_MNEMONICS = {
    value: name.lower()
    for name, value in vars(ix.Mnemonic).items()
    if name.isupper() and isinstance(value, int)
}
# SSE compares with the condition in the mnemonic; Capstone names them so, iced gives the number.
_PREDICATES = ("eq", "lt", "le", "unord", "neq", "nlt", "nle", "ord")
_PSEUDO = {
    f"cmp{name}{kind}": (f"cmp{kind}", number)
    for number, name in enumerate(_PREDICATES)
    for kind in ("ps", "pd", "ss", "sd")
}
_WORD_NAMES = {"cwde": "cbw", "cdq": "cwd"}
"""Capstone gives 98 and 99 in 16-bit code the names of their forms with a 66 prefix."""
_SAME = {"movabs": "mov", "ljmp": "jmp", "lcall": "call"}
# Only part of the register is read or written, and the two disagree on what to call it.
_WIDTH_FREE = frozenset(
    "pextrw pinsrw lar lsl movmskpd movmskps lldt lmsw ltr verr verw str sldt smsw".split()
)
_STRING_MEMORY = {
    getattr(ix.OpKind, f"MEMORY_{place}{prefix}{index}"): (f"{prefix}{index}".lower(), segment)
    for place, index, segment in (("SEG_", "SI", ""), ("ES", "DI", "es"))
    for prefix in ("", "E", "R")
}
_BASIC = {
    getattr(ix.CpuidFeature, name)
    for name in ("INTEL8086", "INTEL186", "INTEL286", "INTEL386", "INTEL286_ONLY", "INTEL386_ONLY")
}
_IMMEDIATES = {getattr(ix.OpKind, name) for name in dir(ix.OpKind) if name.startswith("IMMEDIATE")}
_BRANCHES = (ix.OpKind.NEAR_BRANCH16, ix.OpKind.NEAR_BRANCH32, ix.OpKind.NEAR_BRANCH64)


@dataclass(frozen=True)
class Decoded:
    """One instruction as both can say it.

    Args:
        address: Where it starts.
        size: Bytes.
        mnemonic: iced's name.
        registers: Names of the explicit register operands, in order.
        memory: Base, index, scale, displacement and segment of each memory operand.
        numbers: Immediates and branch targets, as unsigned 64-bit.
        basic: The instruction is of the 386; Capstone misreads later ones in 16-bit code.
    """

    address: int
    size: int
    mnemonic: str
    registers: tuple[str, ...]
    memory: tuple[tuple[str, str, int, int, str], ...]
    numbers: tuple[int, ...]
    basic: bool = True


def with_iced(code: bytes, address: int, bits: int) -> Iterator[Decoded]:
    """Yield the instructions as iced reads them."""
    for ins in ix.Decoder(bits, code, ip=address):
        assert not ins.is_invalid, f"{ins.ip:#x} is no instruction"
        basic = all(f in _BASIC for f in ins.cpuid_features())
        operands = _iced_operands(ins, bits)
        yield Decoded(ins.ip, ins.len, _MNEMONICS[ins.mnemonic], *operands, basic=basic)


def _name(register: int) -> str:
    name = _REGISTERS[register]
    return "" if name == "none" else _RENAMED.get(name, name)


def _iced_operands(ins: ix.Instruction, bits: int) -> tuple[Any, Any, Any]:
    registers, memory, numbers = [], [], []
    for n in range(ins.op_count):
        kind = ins.op_kind(n)
        if kind == ix.OpKind.REGISTER:
            registers.append(_name(ins.op_register(n)))
        elif kind == ix.OpKind.MEMORY:
            disp = ins.memory_displacement
            if ins.memory_base == ix.Register.RIP:
                disp -= ins.next_ip
            mask = (1 << 16 if bits == 16 else 1 << 32) - 1
            scale = ins.memory_index_scale if ins.memory_index else 1
            memory.append(
                (_name(ins.memory_base), _name(ins.memory_index), scale, disp & mask,
                 _name(ins.segment_prefix))
            )  # fmt: skip
        elif kind in _STRING_MEMORY:
            base, segment = _STRING_MEMORY[kind]
            memory.append((base, "", 1, 0, segment if bits != 64 else ""))
        elif kind in _IMMEDIATES:
            numbers.append(ins.immediate(n) & (2**64 - 1))
        elif kind in _BRANCHES:
            numbers.append(ins.near_branch_target)
        elif kind == ix.OpKind.FAR_BRANCH32:
            numbers += [ins.far_branch_selector, ins.far_branch32]
    return tuple(registers), tuple(memory), tuple(numbers)


class Capstone:
    """Capstone for one mode."""

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self._engine = cs.Cs(cs.CS_ARCH_X86, _MODES[bits])
        self._engine.detail = True

    def decode(self, code: bytes, address: int) -> Decoded | None:
        """Return the instruction at the start of `code`; None when Capstone does not know it."""
        ins = next(self._engine.disasm(code, address, 1), None)
        if ins is None:
            return None
        registers, memory, numbers = [], [], []
        mask = (1 << 16 if self._bits == 16 else 1 << 32) - 1
        for op in ins.operands:
            if op.type == cx.X86_OP_REG:
                registers.append(ins.reg_name(op.reg))
            elif op.type == cx.X86_OP_MEM:
                m = op.mem
                names = [ins.reg_name(r) or "" for r in (m.base, m.index, m.segment)]
                scale = m.scale if m.index else 1
                memory.append((names[0], names[1], scale, m.disp & mask, names[2]))
            else:
                numbers.append(op.imm & (2**64 - 1))
        mnemonic = ins.mnemonic.split()[-1]
        if self._bits == 16 and ins.size == 1:
            mnemonic = _WORD_NAMES.get(mnemonic, mnemonic)
        if mnemonic in _PSEUDO:
            mnemonic, predicate = _PSEUDO[mnemonic]
            numbers.append(predicate)
        return Decoded(
            ins.address,
            ins.size,
            _SAME.get(mnemonic, mnemonic),
            tuple(registers),
            tuple(memory),
            tuple(numbers),
        )


def _whole(register: str) -> str:
    """Return a name that the widths of one register share."""
    return register.rstrip("dw") if register[1:2].isdigit() else register[-2:]


def difference(ours: Decoded, theirs: Decoded) -> str:
    """Return the first thing that iced and Capstone see differently; empty when they agree."""
    if (ours.size, ours.mnemonic) != (theirs.size, theirs.mnemonic):
        return f"{ours.size} bytes {ours.mnemonic} / {theirs.size} bytes {theirs.mnemonic}"
    mine, other = ours.registers, theirs.registers
    if ours.mnemonic in _WIDTH_FREE:
        mine, other = (tuple(map(_whole, registers)) for registers in (mine, other))
    if mine != other:
        return f"{ours.mnemonic}: registers {ours.registers} / {theirs.registers}"
    if ours.memory != theirs.memory:
        return f"{ours.mnemonic}: memory {ours.memory} / {theirs.memory}"
    # The sign of an immediate is extended to 64 bits or to the operand, as each likes it.
    low = 0xFFFF
    if [n & low for n in ours.numbers] != [n & low for n in theirs.numbers]:
        return f"{ours.mnemonic}: numbers {ours.numbers} / {theirs.numbers}"
    return ""


def disagreements(code: bytes, address: int, bits: int) -> tuple[list[str], set[str]]:
    """Return what the two see differently, and the mnemonics that Capstone does not know."""
    capstone, found, unknown = Capstone(bits), [], set()
    for ours in with_iced(code, address, bits):
        start = ours.address - address
        if bits == 16 and not ours.basic:
            continue
        theirs = capstone.decode(code[start : start + ours.size], ours.address)
        if theirs is None:
            unknown.add(ours.mnemonic)
        elif text := difference(ours, theirs):
            found.append(f"{ours.address:#x} {code[start : start + ours.size].hex()}: {text}")
    return found, unknown
