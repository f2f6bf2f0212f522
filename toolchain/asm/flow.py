"""What each instruction reads and writes, as bit sets: registers, flags and memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import iced_x86 as ix

from toolchain.asm.assembler import TERMINATORS, Label, Line
from toolchain.asm.operands import Mem
from toolchain.asm.registers import FLAG_NAMES, GPR_NAMES, CtrlReg, SegReg

if TYPE_CHECKING:
    from toolchain.asm.routine import Routine

NAMES = (*GPR_NAMES, *(f"xmm{i}" for i in range(16)), *FLAG_NAMES)
BIT = {name: 1 << n for n, name in enumerate(NAMES)}
RSP = BIT["rsp"]
FLAGS = sum(BIT[f] for f in FLAG_NAMES)
# iced's RflagsBits is a numbering of its own, not that of RFLAGS.
_ICED_FLAGS = {
    ix.RflagsBits.OF: "of", ix.RflagsBits.SF: "sf", ix.RflagsBits.ZF: "zf", ix.RflagsBits.AF: "af",
    ix.RflagsBits.CF: "cf", ix.RflagsBits.PF: "pf", ix.RflagsBits.DF: "df", ix.RflagsBits.IF: "if",
}  # fmt: skip
_READS = {
    ix.OpAccess.READ, ix.OpAccess.COND_READ, ix.OpAccess.READ_WRITE, ix.OpAccess.READ_COND_WRITE,
}  # fmt: skip
_WRITES = {
    ix.OpAccess.WRITE, ix.OpAccess.COND_WRITE, ix.OpAccess.READ_WRITE, ix.OpAccess.READ_COND_WRITE,
}  # fmt: skip
_FACTORY = ix.InstructionInfoFactory()
_CONDITION_FLAGS = {
    "o": ("of",), "b": ("cf",), "c": ("cf",), "z": ("zf",), "e": ("zf",), "be": ("cf", "zf"),
    "s": ("sf",), "p": ("pf",), "l": ("sf", "of"), "le": ("sf", "of", "zf"),
    "no": ("of",), "ae": ("cf",), "nb": ("cf",), "nc": ("cf",), "nz": ("zf",), "ne": ("zf",),
    "a": ("cf", "zf"), "ns": ("sf",), "np": ("pf",), "ge": ("sf", "of"), "g": ("sf", "of", "zf"),
}  # fmt: skip
_IDIOMS = ("xor", "sub", "pxor", "xorps", "sbb")
"""Of a register with itself: the result is zero, or CF in every bit, whatever it held."""


@dataclass
class Effect:
    """Bit sets of one line.

    `kills` are those written whole; `sets` all that get a value; `clobbers` those left without one;
    `observes` those that may be read but need not have been set (calls of firmware).
    """

    reads: int = 0
    observes: int = 0
    sets: int = 0
    kills: int = 0
    clobbers: int = 0
    stack: int = 0
    loads: tuple[Any, ...] = ()
    stores: tuple[Any, ...] = ()
    needed: bool = False


def names(bits: int) -> str:
    """Name the registers and flags of a set."""
    return ", ".join(n for n in NAMES if bits & BIT[n])


def bit_of(name: str) -> int:
    """Return the bit of a register or flag; 0 for segment and control registers."""
    return BIT.get(name, 0)


@cache
def _flags(rflags: int) -> int:
    return sum(BIT[name] for bit, name in _ICED_FLAGS.items() if rflags & bit)


@cache
def _register(register: ix.Register_) -> tuple[int, bool]:
    """Return the bit of the full register, and whether a write of this part sets it whole."""
    name = _REG_NAMES.get(ix.RegisterExt.full_register(register), "")
    return bit_of(name), ix.RegisterExt.size(register) >= 4


_REG_NAMES = {
    getattr(ix.Register, n.upper()): n for n in (*GPR_NAMES, *(f"xmm{i}" for i in range(16)))
}
for _i in range(16):
    _REG_NAMES[getattr(ix.Register, f"ZMM{_i}")] = f"xmm{_i}"


def routine_reads(target: Routine) -> int:
    """Return the inputs of a routine as a set."""
    return sum(bit_of(i.reg.full) for i in target.contract.inputs)


def routine_outputs(target: Routine) -> int:
    """Return the outputs of a routine as a set."""
    return sum(bit_of(o.reg.full) for o in target.contract.outputs)


def routine_clobbers(target: Routine) -> int:
    """Return what a routine leaves without meaning as a set."""
    listed = sum(bit_of(r.full) for r in target.contract.clobbers)
    return (listed | FLAGS) & ~routine_outputs(target) & ~BIT["df"] & ~BIT["if"]


def _call(line: Line, target: Routine, bits: int) -> Effect:
    # Calls and far jumps to other modes leave the stack as it was when they come back.
    flags = sum(BIT[f] for f in _CONDITION_FLAGS.get(line.mnemonic[1:], ()))
    conditional = conditional_tail(line)
    return Effect(
        reads=routine_reads(target) | (flags if conditional else 0),
        sets=routine_outputs(target),
        # What the target does, whoever falls through does not see.
        kills=0 if conditional else routine_outputs(target) | routine_clobbers(target),
        clobbers=routine_clobbers(target),
        needed=True,
    )


def conditional_tail(line: Line) -> bool:
    """Tell whether a line jumps to another routine or falls through."""
    other = line.target is not None and not isinstance(line.target, Label)
    return other and line.mnemonic not in ("call", "jmp", "jmp far")


def _branch(line: Line) -> Effect:
    condition = line.mnemonic[1:]
    used = _CONDITION_FLAGS.get(condition, ()) if line.mnemonic not in TERMINATORS else ()
    return Effect(reads=sum(BIT[f] for f in used), needed=True)


def _memory(line: Line, info: ix.InstructionInfo) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    loads, stores = [], []
    for n, op in enumerate(line.ops):
        if isinstance(op, Mem):
            access = info.op_access(n)
            if access in _READS:
                loads.append(op)
            if access in _WRITES:
                stores.append(op)
    return tuple(loads), tuple(stores)


_SHIFTS = frozenset(
    getattr(ix.Mnemonic, m) for m in "RCL RCR ROL ROR SAL SAR SHL SHR SHLD SHRD".split()
)


def _may_keep_flags(ins: ix.Instruction) -> bool:
    """Tell whether a count of zero, which leaves the flags alone, is possible."""
    if ins.has_rep_prefix or ins.has_repne_prefix:
        return True
    if ins.mnemonic not in _SHIFTS:
        return False
    last = ins.op_count - 1
    return ins.op_kind(last) == ix.OpKind.REGISTER or ins.immediate(last) & 0x1F == 0


# What a call pushes, its return pops; a return belongs to the caller's frame.
_BALANCED = ("call", "ret", "iretq", "iretd", "iret", "retf")


def _stack_move(line: Line, ins: ix.Instruction) -> int:
    if ins.is_stack_instruction and line.mnemonic not in _BALANCED:
        return int(ins.stack_pointer_increment)
    if line.mnemonic in ("add", "sub", "lea") and getattr(line.ops[0], "full", "") == "rsp":
        if line.mnemonic == "lea" and getattr(line.ops[1].base, "full", "") == "rsp":
            return int(line.ops[1].disp)
        if isinstance(line.ops[1], int):
            return int(line.ops[1]) * (1 if line.mnemonic == "add" else -1)
    return 0


def stack_move(line: Line) -> int:
    """Return by how many bytes a line moves RSP; calls and returns leave it as it was."""
    return _stack_move(line, line.ins) if line.ins is not None and line.target is None else 0


_ALWAYS_NEEDED = frozenset(
    "in out rdtsc rdtscp cpuid rdmsr rdrand rdseed pop popfd popfq popf xchg div idiv mul bsf bsr "
    "hlt sti cli cld std lgdt lidt ltr lldt wrmsr invlpg wbinvd mfence lfence sfence pause nop int "
    "clflush fxsave fxrstor ldmxcsr stmxcsr xsetbv xgetbv push pushfq pushfd pushf int3 swapgs "
    "wrgsbase wrfsbase prefetchnta prefetcht0 clts lmsw".split()
)


def effect(line: Line, bits: int) -> Effect:
    """Return what the line reads, sets, leaves undefined, and does to the stack."""
    if line.target is not None:
        if isinstance(line.target, Label):
            return _branch(line)
        return _call(line, line.target, bits)
    ins = line.ins
    if ins is None:
        raise AssertionError(f"{line.where}: {line.mnemonic} has neither encoding nor target")
    info = _FACTORY.info(ins)
    e = Effect()
    for used in info.used_registers():
        bit, wide = _register(used.register)
        access = used.access
        if access in _READS:
            e.reads |= bit
        if access in _WRITES:
            e.sets |= bit
            # A byte or word write keeps the rest of the register; a conditional one may keep all.
            if wide and access in (ix.OpAccess.WRITE, ix.OpAccess.READ_WRITE):
                e.kills |= bit
    if line.mnemonic in _IDIOMS and len(line.ops) == 2 and line.ops[0] == line.ops[1]:
        e.reads &= ~bit_of(line.ops[0].full)
    e.reads |= _flags(ins.rflags_read)
    undefined = _flags(ins.rflags_undefined)
    written = _flags(ins.rflags_modified) & ~undefined
    e.sets |= written
    if not _may_keep_flags(ins):
        e.kills |= written | undefined
    e.clobbers |= undefined
    if line.mnemonic in ("call far", "int"):
        # Firmware answers in registers of its choice and may change all others.
        e.observes = sum(BIT[name] for name in GPR_NAMES[:8] if name != "rsp")
        e.sets |= e.observes | FLAGS & ~BIT["if"]
    e.loads, e.stores = _memory(line, info)
    e.stack = _stack_move(line, ins)
    mnemonic = line.mnemonic.split()[-1]
    implicit = " " in line.mnemonic or mnemonic[:-1] in ("movs", "stos", "cmps", "scas")
    volatile = any(getattr(m.ref, "volatile", False) for m in e.loads)
    e.needed = (
        bool(e.stores) or volatile or implicit or mnemonic in _ALWAYS_NEEDED or mnemonic in TERMINATORS
        or bool(e.stack) or bool(e.sets & RSP) or any(isinstance(o, (CtrlReg, SegReg)) for o in line.ops)
    )  # fmt: skip
    return e
