"""Every encodable form of the supported instructions, and states that reach its corners.

The operand kinds come from iced-x86's tables, so a new mnemonic in the handlers is exercised in
all its forms and sizes without another line here.
"""

import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from iced_x86 import (
    Code,
    Code_,
    Decoder,
    Encoder,
    EncodingKind,
    Instruction,
    Mnemonic,
    OpCodeInfo,
    OpCodeOperandKind,
    OpCodeOperandKind_,
    OpKind,
    Register,
    Register_,
)

from emulator.semantics.builder import GENERAL, MASK64, mask
from emulator.semantics.compiler import HANDLERS, supports
from emulator.semantics.step import DF, STATUS

CODE_BASE: Final = 0x6000_0000
CODE_ADDRESS: Final = CODE_BASE + 0x800
DATA_BASE: Final = 0x7000_0000
DATA_SIZE: Final = 0x4000
FS_BASE: Final = 0x40
GS_BASE: Final = 0x80
TAKEN_DISTANCE: Final = 0x40  # from the instruction to the landing pad of a taken branch

_POINTER = DATA_BASE + 0x2000
_STACK = DATA_BASE + 0x3000
_RSP, _RBP, _RSI, _RDI = 4, 5, 6, 7

_BY_SIZE: Final = {
    bits: [register for register, (_, size, _) in GENERAL.items() if size == bits]
    for bits in (8, 16, 32, 64)
}
_FULL: Final = {
    bits: {
        GENERAL[register][0]: register for register in _BY_SIZE[bits] if GENERAL[register][2] == 0
    }
    for bits in (8, 16, 32, 64)
}

_FIXED: Final = {
    OpCodeOperandKind.AL: Register.AL,
    OpCodeOperandKind.AX: Register.AX,
    OpCodeOperandKind.EAX: Register.EAX,
    OpCodeOperandKind.RAX: Register.RAX,
    OpCodeOperandKind.CL: Register.CL,
}
_REGISTERS: Final = {
    **{getattr(OpCodeOperandKind, f"R{n}_REG"): n for n in (8, 16, 32, 64)},
    **{getattr(OpCodeOperandKind, f"R{n}_OPCODE"): n for n in (8, 16, 32, 64)},
    **{getattr(OpCodeOperandKind, f"R{n}_VVVV"): n for n in (32, 64)},
    **{getattr(OpCodeOperandKind, f"R{n}_RM"): n for n in (16, 32, 64)},
}
_REGISTER_OR_MEMORY: Final = {
    getattr(OpCodeOperandKind, f"R{n}_OR_MEM"): n for n in (8, 16, 32, 64)
}
_IMMEDIATES: Final = {
    OpCodeOperandKind.IMM8: (OpKind.IMMEDIATE8, 8),
    OpCodeOperandKind.IMM16: (OpKind.IMMEDIATE16, 16),
    OpCodeOperandKind.IMM32: (OpKind.IMMEDIATE32, 32),
    OpCodeOperandKind.IMM64: (OpKind.IMMEDIATE64, 64),
    OpCodeOperandKind.IMM8SEX16: (OpKind.IMMEDIATE8TO16, 8),
    OpCodeOperandKind.IMM8SEX32: (OpKind.IMMEDIATE8TO32, 8),
    OpCodeOperandKind.IMM8SEX64: (OpKind.IMMEDIATE8TO64, 8),
    OpCodeOperandKind.IMM32SEX64: (OpKind.IMMEDIATE32TO64, 32),
}
_STRINGS: Final = {
    OpCodeOperandKind.SEG_RSI: OpKind.MEMORY_SEG_RSI,
    OpCodeOperandKind.ES_RDI: OpKind.MEMORY_ESRDI,
}
_BRANCHES: Final = (OpCodeOperandKind.BR64_1, OpCodeOperandKind.BR64_4)
_INDIRECT: Final = (Code.JMP_RM64, Code.CALL_RM64)
# Other operands may lie anywhere; these fault or would branch to half a pointer.
_ALIGNMENT: Final = {Code.CMPXCHG16B_M128: 16, Code.JMP_RM64: 8, Code.CALL_RM64: 8}
_BIT_TESTS: Final = frozenset(getattr(Mnemonic, name) for name in ("BT", "BTS", "BTR", "BTC"))

_EDGES: Final = (
    *(0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 0x7F, 0x80, 0x81, 0xFF, 0x100),
    *(0x7FFF, 0x8000, 0xFFFF, 0x1_0000, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 0x1_0000_0000),
    *(2**63 - 1, 2**63, 2**63 + 1, MASK64 - 1, MASK64),
)


@dataclass(frozen=True, slots=True)
class Form:
    """One encoded instruction at CODE_ADDRESS.

    Attributes:
        code: The iced-x86 code it was built from.
        data: Its bytes.
        instruction: The bytes decoded at CODE_ADDRESS.
    """

    code: int
    data: bytes
    instruction: Instruction


@dataclass(frozen=True, slots=True)
class State:
    """Registers and data memory before an instruction.

    Attributes:
        registers: The 18 registers.
        memory: Contents of DATA_SIZE bytes from DATA_BASE.
    """

    registers: tuple[int, ...]
    memory: bytes


def edge_value(rng: random.Random, bits: int = 64) -> int:
    """Return a number that is near a power of two more often than not."""
    choice = rng.randrange(4)
    if choice == 0:
        return rng.getrandbits(64) & mask(bits)
    value = rng.choice(_EDGES)
    if choice == 1:
        value ^= rng.getrandbits(64) & ~mask(rng.choice((8, 16, 32)))
    return value & mask(bits)


def supported_codes() -> list[int]:
    """Return the iced-x86 codes of 64-bit mode whose mnemonic has semantics."""
    codes = []
    for name, code in sorted(vars(Code).items()):
        if not name.isupper() or not isinstance(code, int) or name.startswith("VEX_KNC"):
            continue
        info = OpCodeInfo(Code_(code))
        usable = info.is_instruction and info.mode64 and info.intel_decoder64
        known = info.mnemonic in HANDLERS
        if usable and known and info.encoding in (EncodingKind.LEGACY, EncodingKind.VEX):
            codes.append(code)
    return codes


def _segment(ins: Instruction, rng: random.Random) -> None:
    """Give one operand in four a segment with a base."""
    if rng.randrange(4) == 0:
        ins.segment_prefix = rng.choice((Register.FS, Register.GS))


def _memory_operand(ins: Instruction, rng: random.Random) -> None:
    """Choose base, index, scale and displacement; some relative to RIP, some with 32 bits."""
    align = -_ALIGNMENT.get(ins.code, 1)
    _segment(ins, rng)
    style = rng.randrange(8)
    if style == 0:
        ins.memory_base = Register.RIP
        ins.memory_displacement = _POINTER + (rng.randrange(-64, 64) & align)
        ins.memory_displ_size = 8
        return
    narrow = style == 1
    names = _FULL[32 if narrow else 64]
    number = rng.randrange(16) if style < 6 else rng.choice((4, 5, 12, 13))
    ins.memory_base = Register_(names[number])
    if rng.randrange(2):
        number = rng.choice([n for n in range(16) if n not in (_RSP,)])
        if names[number] != ins.memory_base:
            ins.memory_index = Register_(names[number])
            ins.memory_index_scale = rng.choice((1, 2, 4, 8))
    displacement = rng.choice((0, 0, 8, -8, 0x7F, -0x80, 0x80, -0x100, 0x155)) & align
    ins.memory_displacement = displacement & mask(32 if narrow else 64)
    ins.memory_displ_size = 1 if displacement else 0


def _operand(
    ins: Instruction, index: int, kind: OpCodeOperandKind_, rng: random.Random, memory: bool
) -> bool:
    """Fill one operand; return False if the kind is not a general-purpose one."""
    if kind in _FIXED:
        ins.set_op_register(index, _FIXED[kind])
    elif kind in _REGISTERS or (kind in _REGISTER_OR_MEMORY and not memory):
        bits = _REGISTERS.get(kind) or _REGISTER_OR_MEMORY[kind]
        ins.set_op_register(index, Register_(rng.choice(_BY_SIZE[bits])))
    elif kind in _REGISTER_OR_MEMORY or kind == OpCodeOperandKind.MEM:
        ins.set_op_kind(index, OpKind.MEMORY)
        _memory_operand(ins, rng)
    elif kind in _IMMEDIATES:
        op_kind, bits = _IMMEDIATES[kind]
        ins.set_op_kind(index, op_kind)
        value = edge_value(rng, bits)
        sign_extended = op_kind not in (OpKind.IMMEDIATE8, OpKind.IMMEDIATE16) and bits < 64
        if sign_extended and value >> (bits - 1):
            value -= 1 << bits
        ins.set_immediate_i64(index, value if value < 2**63 else value - 2**64)
    elif kind == OpCodeOperandKind.IMM8_CONST_1:
        ins.set_op_kind(index, OpKind.IMMEDIATE8)
        ins.set_immediate_u64(index, 1)
    elif kind in _BRANCHES:
        ins.set_op_kind(index, OpKind.NEAR_BRANCH64)
        ins.near_branch64 = CODE_ADDRESS + TAKEN_DISTANCE
    elif kind in _STRINGS:
        ins.set_op_kind(index, _STRINGS[kind])
        if kind == OpCodeOperandKind.SEG_RSI:
            _segment(ins, rng)
    elif kind == OpCodeOperandKind.MEM_OFFS:
        ins.set_op_kind(index, OpKind.MEMORY)
        ins.memory_displacement, ins.memory_displ_size = _POINTER, 8
    elif kind == OpCodeOperandKind.SEG_RBX_AL:
        ins.set_op_kind(index, OpKind.MEMORY)
        ins.memory_base, ins.memory_index = Register.RBX, Register.AL
    else:
        return False
    return True


def _build(code: int, rng: random.Random, *, memory: bool, lock: bool, repeat: str) -> Form | None:
    """Build one form, or None if this choice of registers has no encoding."""
    ins = Instruction()
    ins.code = Code_(code)
    info = OpCodeInfo(Code_(code))
    for index, kind in enumerate(info.op_kinds()):
        if not _operand(ins, index, kind, rng, memory):
            return None
    ins.has_lock_prefix = lock
    ins.has_repe_prefix = repeat == "repe"
    ins.has_repne_prefix = repeat == "repne"
    encoder = Encoder(64)
    try:
        encoder.encode(ins, CODE_ADDRESS)
    except ValueError:
        return None  # for example AH beside a REX prefix
    data = encoder.take_buffer()
    decoded = Decoder(64, data, ip=CODE_ADDRESS).decode()
    usable = supports(decoded) and not _escapes(decoded)
    return Form(code, data, decoded) if usable else None


def _escapes(ins: Instruction) -> bool:
    """Tell whether no state can keep the form inside its regions.

    A bit offset that is also a pointer reaches far away, and so does a stack at a branch target.
    """
    if ins.op_count == 0 or ins.op_kind(ins.op_count - 1) != OpKind.REGISTER:
        return False
    register = ins.op_register(ins.op_count - 1)
    if ins.code in _INDIRECT:
        return register == Register.RSP
    if ins.mnemonic not in _BIT_TESTS or ins.op_kind(0) != OpKind.MEMORY:
        return False
    number = GENERAL[register][0]
    pointers = [GENERAL[r][0] for r in (ins.memory_base, ins.memory_index) if r in GENERAL]
    return number == _RSP or number in pointers


def variants(code: int) -> Iterator[tuple[bool, bool, str]]:
    """Yield the (memory, lock, repeat) choices that an instruction code has."""
    info = OpCodeInfo(Code_(code))
    kinds = info.op_kinds()
    if any(kind in _STRINGS for kind in kinds):
        yield False, False, ""
        yield False, False, "repe"
        if info.can_use_repne_prefix:
            yield False, False, "repne"
        return
    if OpCodeOperandKind.MEM not in kinds:
        yield False, False, ""
    if any(kind in _REGISTER_OR_MEMORY or kind == OpCodeOperandKind.MEM for kind in kinds):
        yield True, False, ""
        if info.can_use_lock_prefix:
            yield True, True, ""


def instruction_forms(
    rng: random.Random, per_variant: int = 1, mnemonics: Collection[int] | None = None
) -> Iterator[Form]:
    """Yield encoded forms of every supported instruction, operand size and addressing kind.

    Args:
        rng: Chooses registers, immediates and addresses.
        per_variant: How many for each code, register or memory, prefix.
        mnemonics: Only these; None = all.
    """
    for code in supported_codes():
        if mnemonics is not None and OpCodeInfo(Code_(code)).mnemonic not in mnemonics:
            continue
        for memory, lock, repeat in variants(code):
            found = tries = 0
            while found < per_variant and tries < 64:
                tries += 1
                form = _build(code, rng, memory=memory, lock=lock, repeat=repeat)
                if form is not None:
                    found += 1
                    yield form


def _pointers(form: Form) -> dict[int, int]:
    """Return register values that keep the memory operands of a form inside the data region."""
    ins = form.instruction
    values = {_RSP: _STACK}
    kinds = [ins.op_kind(operand) for operand in range(ins.op_count)]
    if OpKind.MEMORY in kinds:
        if ins.memory_index in GENERAL and ins.mnemonic != Mnemonic.XLATB:
            values[GENERAL[ins.memory_index][0]] = 0x10
        if ins.memory_base in GENERAL:
            values[GENERAL[ins.memory_base][0]] = _POINTER
    if OpKind.MEMORY_SEG_RSI in kinds:
        values[_RSI] = _POINTER
    if OpKind.MEMORY_ESRDI in kinds:
        values[_RDI] = _POINTER + 0x18
    if ins.mnemonic == Mnemonic.LEAVE:
        values[_RBP] = _STACK - 0x100
    return values


def random_state(form: Form, rng: random.Random) -> State:
    """Return a state that suits a form: pointers point, branch targets land, counts are small."""
    ins = form.instruction
    registers = [edge_value(rng) for _ in range(16)]
    values = _pointers(form)
    for number, value in values.items():
        registers[number] = value
    memory = bytearray(rng.randbytes(DATA_SIZE))
    if rng.randrange(3) == 0:
        memory = bytearray(rng.choice((b"\0", b"\xff", b"\x80")) * DATA_SIZE)
    taken = CODE_ADDRESS + TAKEN_DISTANCE
    if form.code in _INDIRECT:
        if ins.op_kind(0) == OpKind.REGISTER:
            registers[GENERAL[ins.op_register(0)][0]] = taken
        else:
            memory = bytearray(taken.to_bytes(8, "little") * (DATA_SIZE // 8))
    if ins.mnemonic == Mnemonic.RET:
        memory[_STACK - DATA_BASE : _STACK - DATA_BASE + 8] = taken.to_bytes(8, "little")
    if ins.mnemonic == Mnemonic.POPFQ:
        word = rng.getrandbits(16) & (STATUS | DF) | 0x202
        memory[_STACK - DATA_BASE : _STACK - DATA_BASE + 8] = word.to_bytes(8, "little")
    if ins.has_repe_prefix or ins.has_repne_prefix:
        registers[1] = rng.randrange(10)
    if ins.mnemonic in (Mnemonic.LOOP, Mnemonic.LOOPE, Mnemonic.LOOPNE):
        registers[1] = rng.choice((0, 1, 2, MASK64))
    if ins.mnemonic in _BIT_TESTS and ins.op_kind(0) == OpKind.MEMORY:
        _limit_bit_offset(ins, registers, values, rng)
    if ins.mnemonic in (Mnemonic.DIV, Mnemonic.IDIV) and rng.randrange(4) and 2 not in values:
        registers[2] = rng.choice((0, 1, MASK64))
    flags = rng.getrandbits(12) & (STATUS | DF) | 0x202
    return State((*registers, CODE_ADDRESS, flags), bytes(memory))


def _limit_bit_offset(
    ins: Instruction, registers: list[int], values: dict[int, int], rng: random.Random
) -> None:
    """Keep a register bit offset within 2 KB of the operand, unless the register is a pointer."""
    if ins.op_kind(1) != OpKind.REGISTER:
        return
    number = GENERAL[ins.op_register(1)][0]
    if number not in values:
        registers[number] = rng.randrange(-0x4000, 0x4000) & MASK64
