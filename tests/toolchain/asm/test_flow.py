"""What the checks believe of each instruction, judged by the Python semantics.

The beliefs come from iced-x86's tables, the semantics from the SDM: they share nothing.
"""

import random

import iced_x86 as ix
import pytest

from emulator.semantics import REGISTER_NAMES, Outside, ProcessorFault, compile_instruction
from emulator.semantics.forms import (
    DATA_BASE,
    DATA_SIZE,
    FS_BASE,
    GS_BASE,
    instruction_forms,
    random_state,
)
from toolchain.asm.assembler import Line
from toolchain.asm.flow import BIT, effect, names

OUTSIDE = Outside(fs_base=FS_BASE, gs_base=GS_BASE)
GENERAL = [name.lower() for name in REGISTER_NAMES[:16]]
STATUS = {"cf": 0, "pf": 2, "af": 4, "zf": 6, "sf": 7, "of": 11, "df": 10}
MNEMONICS = {value: name.lower() for name, value in vars(ix.Mnemonic).items() if name.isupper()}
IMMEDIATE = {ix.OpKind.IMMEDIATE8}
# Their results come from outside.
SUPPLIED = {ix.Mnemonic.RDTSC, ix.Mnemonic.RDTSCP, ix.Mnemonic.RDRAND, ix.Mnemonic.RDSEED}


def turns_home(ins):
    """Tell whether an RCL or RCR by a number ends where it began; the SDM is unclear about OF."""
    if ins.mnemonic not in (ix.Mnemonic.RCL, ix.Mnemonic.RCR) or ins.op_kind(1) not in IMMEDIATE:
        return False
    bits = ix.RegisterExt.size(ins.op0_register) * 8 or ix.MemorySizeExt.size(ins.memory_size) * 8
    return (ins.immediate(1) & 0x1F) % (bits + 1) == 0


def plain_forms(seed):
    """Yield every form that is no jump, in registers and in memory."""
    for form in instruction_forms(random.Random(seed), per_variant=2):
        ins = form.instruction
        if ins.flow_control != ix.FlowControl.NEXT or ins.mnemonic in SUPPLIED or turns_home(ins):
            continue
        yield form


def believed(ins):
    """Return the effect of an instruction as the checks see it."""
    mnemonic = MNEMONICS[ins.mnemonic]
    if ins.has_repe_prefix or ins.has_repne_prefix:
        mnemonic = f"rep {mnemonic}"
    operands = (object(), object())  # of no kind that an effect knows by itself
    return effect(Line(mnemonic, operands, "", 0, [], ins), 64)


class Stray(Exception):  # noqa: N818 - a change of an address register led out of memory
    """The instruction reads outside the data."""


def run(form, registers, memory):
    """Return the step of an instruction; None for a fault."""

    def read(address, size):
        offset = address - DATA_BASE
        if not 0 <= offset <= DATA_SIZE - size:
            raise Stray
        return int.from_bytes(memory[offset : offset + size], "little")

    try:
        return compile_instruction(form.instruction, once=True)(registers, read, OUTSIDE)
    except (ProcessorFault, Stray):
        return None


def values(registers):
    found = dict(zip(GENERAL, registers[:16], strict=True))
    return found | {name: registers[17] >> bit & 1 for name, bit in STATUS.items()}


def undefined(step):
    flags = {name for name, bit in STATUS.items() if step.undefined_flags >> bit & 1}
    return flags | {GENERAL[number] for number, _ in step.undefined_registers}


def changed_at(registers, name, rng):
    """Return registers with one register or flag changed."""
    changed = list(registers)
    if name in STATUS:
        changed[17] ^= 1 << STATUS[name]
    else:
        changed[GENERAL.index(name)] ^= rng.getrandbits(64) | 1
    return tuple(changed)


def test_nothing_changes_that_is_not_believed_to():
    rng = random.Random(1)
    tried = 0
    for form in plain_forms(2):
        e = believed(form.instruction)
        for _ in range(4):
            state = random_state(form, rng)
            step = run(form, state.registers, state.memory)
            if step is None:
                continue
            before, after = values(state.registers), values(step.registers)
            moved = {name for name in before if before[name] != after[name]} | undefined(step)
            strange = {name for name in moved if not BIT[name] & (e.sets | e.clobbers)}
            assert not strange, f"{form.instruction} changes {strange}, believed {names(e.sets)}"
            tried += 1
    assert tried > 2000


def test_nothing_matters_that_is_not_believed_to_be_read():
    rng = random.Random(3)
    tried = 0
    for form in plain_forms(4):
        e = believed(form.instruction)
        state = random_state(form, rng)
        step = run(form, state.registers, state.memory)
        if step is None:
            continue
        unread = [name for name in (*GENERAL, *STATUS) if not BIT[name] & (e.reads | BIT["rsp"])]
        for name in rng.sample(unread, 6):
            other = run(form, changed_at(state.registers, name, rng), state.memory)
            assert other is not None, f"{form.instruction}: {name} decides on a fault"
            loose = undefined(step) | undefined(other)
            if not BIT[name] & e.kills:
                loose.add(name)  # not written whole: what was there stays
            one, two = values(step.registers), values(other.registers)
            wrong = {n for n in one if one[n] != two[n] and n not in loose}
            assert not wrong, f"{form.instruction}: {wrong} depend on {name}"
            assert step.writes == other.writes or loose - {name}, form.instruction
            tried += 1
    assert tried > 3000


@pytest.mark.parametrize("seed", range(3))
def test_the_stack_moves_as_believed(seed):
    rng = random.Random(seed)
    for form in plain_forms(seed):
        ins = form.instruction
        if not ins.is_stack_instruction or ins.mnemonic in (ix.Mnemonic.LEAVE, ix.Mnemonic.ENTER):
            continue
        state = random_state(form, rng)
        step = run(form, state.registers, state.memory)
        into_rsp = ins.op0_register in (ix.Register.RSP, ix.Register.SP)
        if step is not None and not (ins.mnemonic == ix.Mnemonic.POP and into_rsp):
            moved = step.registers[4] - state.registers[4]
            assert believed(ins).stack == moved, ins
