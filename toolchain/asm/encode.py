"""From mnemonic and operands to the shortest instruction, the one NASM would choose too."""

from __future__ import annotations

import enum
from functools import lru_cache
from typing import Any

import iced_x86 as ix

from toolchain.asm.errors import AsmError
from toolchain.asm.instructions import FORMS
from toolchain.asm.operands import SIZE_WORDS, Mem
from toolchain.asm.registers import CtrlReg, Reg, Reg8, Reg16, Reg32, Reg64, SegReg, Xmm, low32

_REG_KIND: dict[type, str] = {
    Reg8: "r8", Reg16: "r16", Reg32: "r32", Reg64: "r64", Xmm: "x", CtrlReg: "cr", SegReg: "seg",
}  # fmt: skip
_FIXED = {"al", "ax", "eax", "rax", "cl", "dx", "es", "cs", "ss", "ds", "fs", "gs"}
_IMM_KIND = {
    "i8": ix.OpKind.IMMEDIATE8, "i16": ix.OpKind.IMMEDIATE16, "i32": ix.OpKind.IMMEDIATE32,
    "i32s": ix.OpKind.IMMEDIATE32TO64, "i64": ix.OpKind.IMMEDIATE64, "one": ix.OpKind.IMMEDIATE8,
}  # fmt: skip
_IMM8S = {16: ix.OpKind.IMMEDIATE8TO16, 32: ix.OpKind.IMMEDIATE8TO32, 64: ix.OpKind.IMMEDIATE8TO64}
_IMM_BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64}
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
# NASM takes these in the other order of the same length; listed are iced's names it does not take.
_NOT_CANONICAL = ("_R8_RM8", "_R16_RM16", "_R32_RM32", "_R64_RM64")
_MR_FIRST = {"add", "adc", "sub", "sbb", "and", "or", "xor", "cmp", "mov"}


@lru_cache(maxsize=None)
def _rows(mnemonic: str, bits: int) -> tuple[tuple[ix.Code_, str, tuple[str, ...], int], ...]:
    rows = _EXTRA.get((mnemonic, bits)) or FORMS.get(mnemonic, ())
    found = []
    for name, kinds, size in rows:
        code = getattr(ix.Code, name)
        if ix.OpCodeInfo(code).is_available_in_mode(bits):
            found.append((code, name, kinds, size))
    return tuple(found)


def _width(kinds: tuple[str, ...], ops: tuple[Any, ...]) -> int:
    """Return the operand width in bits that a sign-extended imm8 grows to."""
    for kind, op in zip(kinds, ops, strict=True):
        if kind.startswith("rm"):
            return int(kind[2:])
        if kind in ("r16", "r32", "r64"):
            return int(kind[1:])
        if isinstance(op, Mem):
            return op.size * 8
    return 64


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


def _matches(kind: str, op: object, size: int, width: int) -> bool:
    if isinstance(op, Reg):
        if kind in _FIXED:
            return op.name == kind
        own = _REG_KIND[type(op)]
        return kind == own or kind == "rm" + own[1:] or (kind == "xm" and own == "x")
    if isinstance(op, Mem):
        if kind not in ("m", "xm") and not kind.startswith("rm"):
            return False
        return size == op.size or size not in (1, 2, 4, 8, 16) or op.size == 0
    if kind == "one" or kind.startswith("i"):
        if isinstance(op, int):
            return _immediate_fits(kind, int(op), width)
        return kind in ("i16", "i32", "i64")  # the address of a symbol
    return False


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
    if op.base is not None:
        ins.memory_base = op.base.id
    if op.index is not None:
        ins.memory_index = op.index.id
        ins.memory_index_scale = op.scale
    ins.memory_displacement = op.disp & ((1 << 64) - 1)
    if op.base is None:
        ins.memory_displ_size = 2 if bits == 16 else 8 if bits == 64 else 4
    else:
        ins.memory_displ_size = 1 if op.disp else 0
    if op.segment is not None:
        ins.segment_prefix = op.segment.id


def _build(
    code: ix.Code_, kinds: tuple[str, ...], ops: tuple[Any, ...], bits: int
) -> ix.Instruction:
    ins = ix.Instruction()
    ins.code = code
    width = _width(kinds, ops)
    for n, (kind, op) in enumerate(zip(kinds, ops, strict=True)):
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


def encoded(ins: ix.Instruction, bits: int, ip: int = 0) -> bytes:
    """Encode one instruction at address `ip`."""
    encoder = ix.Encoder(bits)
    encoder.encode(ins, ip)
    return bytes(encoder.take_buffer())


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
    wanted = ops[0].value
    if issubclass(wanted, enum.Enum) and isinstance(ops[1], enum.Enum):
        if not isinstance(ops[1], wanted):
            raise AsmError(
                f"{ops[0].ref!r} holds {wanted.__name__}, not {type(ops[1]).__name__}.{ops[1].name}",
                f"use a member of {wanted.__name__}",
            )


def select(mnemonic: str, ops: tuple[Any, ...], bits: int) -> ix.Instruction:
    """Return the shortest encoding of the instruction.

    Raises:
        AsmError: No form takes these operands, or an immediate does not fit.
    """
    _check_value(ops)
    if mnemonic == "lea" and isinstance(ops[1], Mem) and ops[1].segment is not None:
        raise AsmError(
            f"lea ignores the base of {ops[1].segment}", "take the address from the global's symbol"
        )
    if not ops and (string := _string(mnemonic, bits)) is not None:
        return string
    if mnemonic == "mov" and len(ops) == 2 and isinstance(ops[0], Reg64):
        # `mov r64, imm` with a clear upper half is the 32-bit move, as in NASM.
        if isinstance(ops[1], int) and 0 <= int(ops[1]) < 1 << 32:
            ops = (low32(ops[0]), ops[1])
    if mnemonic == "imul" and len(ops) == 2 and isinstance(ops[1], int):
        ops = (ops[0], *ops)  # `imul r, imm` is `imul r, r, imm`, as in NASM
    best: tuple[int, int, int, ix.Instruction] | None = None
    for rank, (code, name, kinds, size) in enumerate(_rows(mnemonic, bits)):
        if len(kinds) != len(ops):
            continue
        width = _width(kinds, ops)
        if not all(_matches(k, o, size, width) for k, o in zip(kinds, ops, strict=True)):
            continue
        ins = _build(code, kinds, ops, bits)
        both = all(isinstance(o, Reg) for o in ops)
        late = int(both and mnemonic in _MR_FIRST and name.endswith(_NOT_CANONICAL))
        key = (len(encoded(ins, bits)), late, rank)
        if best is None or key < best[:3]:
            best = (*key, ins)
    if best is None:
        shown = ", ".join(describe(o) for o in ops) or "no operands"
        raise AsmError(
            f"no {bits}-bit form of {mnemonic} takes {shown}",
            "check operand widths and immediate ranges; memory to memory needs a register",
        )
    return best[3]
