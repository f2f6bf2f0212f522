"""The SHA-256 instructions that Unicorn is taught: the processor carries them out alike."""

import iced_x86 as ix
import pytest
import unicorn.x86_const as ux
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator import native_judge
from emulator.machine import Machine, MachineError
from emulator.memory import PAGE
from emulator.memory import Region as Memory
from emulator.native import Access, Call, Entry, NativeProgram, Region
from emulator.native_judge import Figures
from emulator.sha_extensions import INSTRUCTIONS, MISSING, joined, processor_has_them
from firmware.crypto.sha256_shani import sha256_blocks_shani
from firmware.layouts.crypto import Hash
from tests.support.lab import Lab

AT = 0x7100_0000
LAB = Lab(sha256_blocks_shani, slots=0, extra=[Memory("code", AT, 2 * PAGE, executable=True)])
STACK = 0x4000_0000
RET = b"\xc3"
WORD = st.one_of(st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 2**31, 2**32 - 1]))
REGISTER = st.lists(WORD, min_size=4, max_size=4).map(joined)
# SHA256RNDS2's third operand, and one that needs a prefix to be named.
OPERANDS = [(1, 2), (2, 1), (3, 3), (1, 0), (9, 10), (4, 15)]
HAS = pytest.mark.skipif(not processor_has_them(), reason=MISSING)


def encoded(code, target, source):
    xmm = ix.Register.XMM0
    ins = ix.Instruction.create_reg_reg(code, xmm + target, xmm + source)
    encoder = ix.Encoder(64)
    encoder.encode(ins, AT)
    return encoder.take_buffer() + RET


def in_unicorn(code, registers, at=AT):
    """Return XMM0-15 after the code."""
    machine: Machine = LAB.machine
    machine.reset()
    machine.write(at, code)
    machine.engine.ctl_flush_tb()
    for n, value in enumerate(registers):
        machine.engine.reg_write(ux.UC_X86_REG_XMM0 + n, value)
    leave = machine.prepare_call(at, {})
    machine.run(at, 5)
    assert machine.registers()["rsp"] == leave
    return tuple(machine.engine.reg_read(ux.UC_X86_REG_XMM0 + n) for n in range(16))


@HAS
@pytest.mark.parametrize("code", INSTRUCTIONS, ids=["rnds2", "msg1", "msg2"])
@settings(max_examples=60)
@given(operands=st.sampled_from(OPERANDS), registers=st.lists(REGISTER, min_size=16, max_size=16))
def test_the_processor_carries_them_out_alike(code, operands, registers):
    bytes_ = encoded(code, *operands)
    program = NativeProgram([Region(AT, bytes_, Access.CODE), Region(STACK, bytes(PAGE))])
    general = [0] * 16
    general[4] = STACK + 0x800
    (done,) = program.run([Call(AT, general, registers, reads=(), entry=Entry.CALL)])
    assert in_unicorn(bytes_, registers) == done.xmm


def test_another_instruction_that_unicorn_does_not_know_is_none_of_these():
    with pytest.raises(MachineError, match="Invalid instruction"):
        in_unicorn(b"\x0f\x0b" + bytes(8), [0] * 16)  # UD2
    with pytest.raises(MachineError, match="Invalid instruction"):
        in_unicorn(b"\x0f\x0b", [0] * 16, AT + 2 * PAGE - 2)


@pytest.mark.parametrize("at", [PAGE - 5, PAGE - 4, PAGE - 3, PAGE - 1, 2 * PAGE - 5])
def test_wherever_they_lie(at):
    code, registers = encoded(ix.Code.SHA256MSG1_XMM_XMMM128, 1, 2), list(range(16))
    assert in_unicorn(code, registers, AT + at) == in_unicorn(code, registers)
    assert in_unicorn(code, registers)[1] != 1


def test_an_operand_in_memory_is_refused():
    with pytest.raises(MachineError, match="Invalid instruction"):
        in_unicorn(b"\x0f\x38\xcc\x04\x24" + RET, [0] * 16)  # SHA256MSG1 XMM0, [RSP]


def called(lab):
    """Call the routine in lockstep."""
    lab.reset()
    work = lab.machine.alloc(Hash.SIZE)
    lab.call(sha256_blocks_shani, work=work, blocks=lab.put(bytes(64)), count=1)


@HAS
def test_the_processor_judges_a_routine_that_has_them(monkeypatch):
    figures = Figures()
    monkeypatch.setattr(native_judge, "FIGURES", figures)
    called(LAB)
    assert figures == Figures({"sha256_blocks_shani": 1}, {})


def test_a_processor_without_them_leaves_it_and_says_so(monkeypatch):
    figures = Figures()
    monkeypatch.setattr(native_judge, "FIGURES", figures)
    monkeypatch.setattr(native_judge, "processor_has_them", lambda: False)
    monkeypatch.setattr(native_judge, "_MARKS", {})
    called(Lab(sha256_blocks_shani, slots=0))
    assert figures.judged == {}
    (reason,) = figures.left.values()
    assert reason.endswith(f"at sha256_blocks_shani: {MISSING}")
