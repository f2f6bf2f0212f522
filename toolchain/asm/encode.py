"""From mnemonic and operands to the shortest instruction, the one NASM would choose too."""

from __future__ import annotations

import enum
from typing import Any

import iced_x86 as ix

from toolchain.asm.errors import AsmError
from toolchain.asm.forms import SELECTORS, Candidate, candidates, shape_of
from toolchain.asm.operands import SIZE_WORDS, Mem
from toolchain.asm.registers import Reg, Reg16, Reg64, SegReg, low16, low32

_IMM_KIND = {
    "i8": ix.OpKind.IMMEDIATE8, "i16": ix.OpKind.IMMEDIATE16, "i32": ix.OpKind.IMMEDIATE32,
    "i32s": ix.OpKind.IMMEDIATE32TO64, "i64": ix.OpKind.IMMEDIATE64, "one": ix.OpKind.IMMEDIATE8,
}  # fmt: skip
_IMM8S = {16: ix.OpKind.IMMEDIATE8TO16, 32: ix.OpKind.IMMEDIATE8TO32, 64: ix.OpKind.IMMEDIATE8TO64}
_IMM_BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64}
_ACCUMULATORS = ("ax", "eax", "rax")


def _signed(value: int, bits: int) -> int | None:
    """Return `value` as a signed number of `bits`, or None when it does not fit."""
    if not -(1 << (bits - 1)) <= value < 1 << bits:
        return None
    return value - (1 << bits) if value >> (bits - 1) > 0 else value


def _immediate_fits(kind: str, value: int, width: int) -> bool:
    if kind == "one":
        return value == 1
    if kind == "i8s":
        signed = _signed(value, width)
        return signed is not None and -128 <= signed <= 127
    if kind == "i32s":
        signed = _signed(value, 64)
        return signed is not None and -(1 << 31) <= signed < 1 << 31
    return _signed(value, _IMM_BITS[kind]) is not None


def _set_memory(ins: ix.Instruction, position: int, op: Mem[Any], bits: int) -> None:
    ins.set_op_kind(position, ix.OpKind.MEMORY)
    if op.symbol is not None:
        if bits == 64:
            ins.memory_base = ix.Register.RIP
            ins.memory_displ_size = 8
            # The displacement of a RIP-relative operand is the absolute target; the linker patches.
            ins.memory_displacement = 0
            return
        ins.memory_displ_size = bits // 8
        ins.memory_displacement = 0x1234 if bits == 16 else 0x12345678
        if op.base is not None:
            ins.memory_base = op.base.id
        return
    base, index, scale = op.base, op.index, op.scale
    if base is None and index is not None and scale <= 2:
        # Without a base the displacement takes four bytes; NASM writes [r*2] as [r+r].
        base, index, scale = index, index if scale == 2 else None, 1
    if base is not None:
        ins.memory_base = base.id
    if index is not None:
        ins.memory_index = index.id
        ins.memory_index_scale = scale
    ins.memory_displacement = op.disp & ((1 << 64) - 1)
    if base is None:
        ins.memory_displ_size = 2 if bits == 16 else 8 if bits == 64 else 4
    else:
        ins.memory_displ_size = 1 if op.disp else 0
    if op.segment is not None:
        ins.segment_prefix = op.segment.id


def _build(form: Candidate, ops: tuple[Any, ...], bits: int) -> ix.Instruction:
    ins = ix.Instruction()
    ins.code = form.code
    width = form.width
    for n, (kind, op) in enumerate(zip(form.kinds, ops, strict=True)):
        if isinstance(op, Reg):
            ins.set_op_kind(n, ix.OpKind.REGISTER)
            ins.set_op_register(n, op.id)
        elif isinstance(op, Mem):
            _set_memory(ins, n, op, bits)
        elif isinstance(op, int):
            ins.set_op_kind(n, _IMM8S[width] if kind == "i8s" else _IMM_KIND[kind])
            own = 8 if kind in ("i8s", "one") else 32 if kind == "i32s" else _IMM_BITS[kind]
            signed = _signed(int(op), width if kind == "i8s" else 64 if kind == "i32s" else own)
            ins.set_immediate_i64(n, signed if signed is not None else 0)
        else:
            ins.set_op_kind(n, _IMM_KIND[kind])
            ins.set_immediate_u64(n, 0x1234 if kind == "i16" else 0x12345678)
    return ins


_ENCODERS = {bits: ix.Encoder(bits) for bits in (16, 32, 64)}


def encoded(ins: ix.Instruction, bits: int, ip: int = 0) -> bytes:
    """Encode one instruction at address `ip`.

    Raises:
        ValueError: No bytes stand for it, says iced-x86.
    """
    encoder = _ENCODERS[bits]
    try:
        encoder.encode(ins, ip)
    finally:
        got = bytes(encoder.take_buffer())  # also after a refusal, which leaves a part behind
    if got[0] == 0x66 and got[1] in (0xF2, 0xF3) and ins.is_string_instruction:
        return got[1:2] + got[:1] + got[2:]  # NASM puts REP before the operand size
    return got


def describe(op: object) -> str:
    """Name the kind of an operand in a message."""
    if isinstance(op, Reg):
        return str(op)
    if isinstance(op, Mem):
        return f"{SIZE_WORDS[op.size] or 'mem'} {op.bare()}"
    return f"{int(op):#x}" if isinstance(op, int) else str(op)


_STRING = {
    name: getattr(ix.Instruction, "create_" + name)
    for stem in ("movs", "stos", "lods", "scas", "cmps", "ins", "outs")
    for name in (stem + s for s in "bwdq")
    if hasattr(ix.Instruction, "create_" + name)
}


def _string(mnemonic: str, bits: int) -> ix.Instruction | None:
    prefix, _, name = mnemonic.rpartition(" ")
    if name not in _STRING:
        return None
    create = getattr(ix.Instruction, f"create_{prefix}_{name}") if prefix else _STRING[name]
    if name[:-1] in ("stos", "scas", "ins") or prefix:
        got: ix.Instruction = create(bits)
    else:
        got = create(bits)
    return got


def _check_value(ops: tuple[Any, ...]) -> None:
    """Refuse an enum of another field: `mov [state], TcpState.X` into a ShardState."""
    if len(ops) < 2 or not isinstance(ops[0], Mem) or not isinstance(ops[1], int):
        return
    wanted, value = ops[0].value, ops[1]
    if not issubclass(wanted, enum.Enum) or not isinstance(value, enum.Enum):
        return
    if not isinstance(value, wanted):
        raise AsmError(
            f"{ops[0].ref!r} holds {wanted.__name__}, not {type(value).__name__}.{value.name}",
            f"use a member of {wanted.__name__}",
        )


def _check_address(ops: tuple[Any, ...]) -> None:
    """Refuse 32-bit address registers in 64-bit code: they cut the address."""
    for op in ops:
        if isinstance(op, Mem):
            for register in (op.base, op.index):
                if register is not None and not isinstance(register, Reg64):
                    raise AsmError(
                        f"{op.bare()} is addressed by {register}, which cuts the address",
                        f"use {register.full}",
                    )


def _natural(mnemonic: str, ops: tuple[Any, ...], bits: int) -> tuple[Any, ...]:
    """Return the operands as NASM encodes them where it takes others than were written."""
    if not ops or not isinstance(ops[-1], (Reg, int)):
        return ops
    first, last = ops[0], ops[-1]
    if mnemonic == "mov" and len(ops) == 2:
        if bits == 64 and isinstance(first, Reg64) and isinstance(last, int):
            # A clear upper half makes it the 32-bit move.
            return (low32(first), last) if 0 <= int(last) < 1 << 32 else ops
        if (
            isinstance(first, SegReg)
            and isinstance(last, Reg)
            and (bits == 64 or last.full != last.name)
        ):
            return first, (low16 if bits == 16 else low32)(last)
        if isinstance(last, SegReg) and isinstance(first, Reg64) and bits == 64:
            return low32(first), last
    if mnemonic == "xchg" and isinstance(first, Reg) and isinstance(last, Reg):
        return (first, last) if last.name in _ACCUMULATORS else (last, first)
    if mnemonic in SELECTORS and isinstance(first, Reg16) and bits != 16:
        return (low32(first),)
    if mnemonic == "sldt" and isinstance(first, Reg64) and bits == 64:
        return (low32(first),)
    if mnemonic == "imul" and len(ops) == 2 and isinstance(last, int):
        return first, first, last
    return ops


def select(mnemonic: str, ops: tuple[Any, ...], bits: int) -> ix.Instruction:
    """Return the instruction in its shortest encoding; see `choose`."""
    return choose(mnemonic, ops, bits)[0]


def choose(mnemonic: str, ops: tuple[Any, ...], bits: int) -> tuple[ix.Instruction, bytes]:
    """Return the shortest encoding of the instruction, and its bytes before any fixup.

    Raises:
        AsmError: No form takes these operands, or an immediate does not fit.
    """
    _check_value(ops)
    if bits == 64:
        _check_address(ops)
    if mnemonic == "lea" and isinstance(ops[1], Mem) and ops[1].segment is not None:
        raise AsmError(
            f"lea ignores the base of {ops[1].segment}", "take the address from the global's symbol"
        )
    if not ops and (string := _string(mnemonic, bits)) is not None:
        return string, encoded(string, bits)
    written, ops = ops, _natural(mnemonic, ops, bits)
    best: tuple[tuple[int, tuple[int, int]], ix.Instruction, bytes] | None = None
    refusal = ""
    for form in candidates(mnemonic, bits, tuple(map(shape_of, ops))):
        if form.clears and ops[0] is ops[1]:
            continue
        fits = (_immediate_fits(form.kinds[n], int(ops[n]), form.width) for n in form.immediates)
        if not all(fits):
            continue
        ins = _build(form, ops, bits)
        try:
            code = encoded(ins, bits)
        except ValueError as problem:
            refusal = str(problem)
            continue
        key = len(code), form.rank
        if best is None or key < best[0]:
            best = key, ins, code
    if best is None:
        shown = ", ".join(describe(o) for o in written) or "no operands"
        if refusal:
            instead = "load the address into a register first"
            if "REX" in refusal:
                instead = "use AL, BL, CL or DL; AH, BH, CH and DH do not go with REX registers"
            raise AsmError(f"{mnemonic} {shown} has no encoding in {bits}-bit code", instead)
        raise AsmError(
            f"no {bits}-bit form of {mnemonic} takes {shown}",
            "check operand widths and immediate ranges; memory to memory needs a register",
        )
    return best[1], best[2]
