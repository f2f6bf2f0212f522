"""The semantics judge: it agrees with good bytes and fails on planted faults."""

import iced_x86 as ix
import pytest
import unicorn as uc
import unicorn.x86_const as ux

from emulator import judge as judge_module
from emulator.environment import Environment
from emulator.lockstep import STATISTICS, Mismatch
from emulator.semantics import compile_instruction
from firmware.layouts.node import CLOCK
from firmware.net.checksum import checksum
from firmware.shard.backoff import schedule_backoff
from tests.support.lab import Lab

LAB = Lab(checksum, schedule_backoff, semantics=True)
PLACED = LAB.image.symbols["checksum"]


def decode(lab=LAB, name="checksum"):
    placed = lab.image.symbols[name]
    return list(ix.Decoder(64, lab.machine.read(placed.address, placed.size), ip=placed.address))


def find(mnemonic, lab=LAB, name="checksum"):
    return next(ins for ins in decode(lab, name) if ins.mnemonic == mnemonic)


def find_between_registers(mnemonic, lab):
    """Return the first such instruction of `checksum` that reads no memory."""
    return next(
        ins for ins in decode(lab) if ins.mnemonic == mnemonic and ins.op1_kind != ix.OpKind.MEMORY
    )


def test_every_instruction_that_has_semantics_is_judged():
    buffer = LAB.machine.alloc(64)
    judged, skipped = STATISTICS.judged, STATISTICS.skipped
    result = LAB.call(checksum, total=1, data=buffer, length=15)
    assert STATISTICS.judged - judged == len(result.trace)
    assert STATISTICS.skipped == skipped


def test_what_the_environment_answers_is_left_out():
    LAB.g(CLOCK).tsc_cycles_per_ms = 3
    judged, skipped = STATISTICS.judged, STATISTICS.skipped
    result = LAB.call(schedule_backoff, Environment(tsc=[5]), shard=LAB.shard())
    assert STATISTICS.skipped - skipped == 1
    assert STATISTICS.judged - judged == len(result.trace) - 1


@pytest.mark.parametrize(
    ("mnemonic", "instead", "what"),
    [
        (ix.Mnemonic.ADC, "4883d801", "RAX should be"),  # SBB RAX, 1 in place of ADC RAX, 0
        (ix.Mnemonic.NOT, "f7d8", "EFLAGS"),  # NEG EAX in place of NOT EAX
    ],
)
def test_a_patched_byte_is_found(mnemonic, instead, what):
    lab = Lab(checksum, schedule_backoff, semantics=True)
    ins = find_between_registers(mnemonic, lab)
    buffer = lab.machine.alloc(128)
    lab.machine.write(ins.ip, bytes.fromhex(instead))
    with pytest.raises(
        Mismatch, match=rf"checksum\+{ins.ip - PLACED.address:#x} .*checksum.py:"
    ) as e:
        lab.call(checksum, total=0, data=buffer, length=64 + 15)
    assert f"`{ins}`" in str(e.value)
    assert what in str(e.value)


def test_a_wrong_semantic_is_found(monkeypatch):
    """The other way round: the judge has an opinion of its own, taken from nowhere else."""
    lab = Lab(checksum, schedule_backoff, semantics=True)
    ins = find(ix.Mnemonic.SHR, lab)
    good = compile_instruction(ins, once=True)

    def wrong(registers, read, outside):
        step = good(registers, read, outside)
        step.registers[2] ^= 1
        return step

    monkeypatch.setitem(judge_module._of_image(lab.image)[1], ins.ip, wrong)
    with pytest.raises(Mismatch, match="RDX should be"):
        lab.call(checksum, total=0, data=lab.machine.alloc(16), length=3)


def test_a_store_to_another_place_is_found():
    lab = Lab(checksum, schedule_backoff, semantics=True)
    ins = find(ix.Mnemonic.INC, lab, "schedule_backoff")
    # INC [RBX+18h] in place of INC [RBX+10h]: the same length, another field.
    code = bytearray(lab.machine.read(ins.ip, ins.len))
    code[-1] += 8
    lab.machine.write(ins.ip, bytes(code))
    with pytest.raises(Mismatch, match=r"byte \[0x[0-9a-f]+\] should be"):
        lab.call(schedule_backoff, Environment(tsc=[5]), shard=lab.shard())


def test_a_missing_division_fault_is_found(monkeypatch):
    lab = Lab(checksum, schedule_backoff, semantics=True)
    ins = find(ix.Mnemonic.SHR, lab)
    data = bytes.fromhex("48f7f2")  # DIV RDX
    divide = ix.Decoder(64, data, ip=ins.ip).decode()
    steps = judge_module._of_image(lab.image)[1]
    monkeypatch.setitem(steps, ins.ip, compile_instruction(divide, once=True))
    with pytest.raises(Mismatch, match=r"must raise #DE"):
        lab.call(checksum, total=0, data=lab.machine.alloc(16), length=0)


def test_unicorn_still_loses_flags_over_a_repeated_store():
    """The reason for the repair in the judge; when this fails, remove the repair."""

    def flags(*kinds):
        engine = uc.Uc(uc.UC_ARCH_X86, uc.UC_MODE_64)
        engine.ctl_set_cpu_model(ux.UC_CPU_X86_ICELAKE_SERVER)
        engine.mem_map(0x1000, 0x1000)
        engine.mem_map(0x10000, 0x2000)
        code = bytes.fromhex("4929c8f3a4")  # SUB R8, RCX; REP MOVSB
        engine.mem_write(0x1000, code)
        for kind in kinds:
            engine.hook_add(kind, lambda *_: None)
        values = {"RCX": 2, "R8": 0x4F, "RSI": 0x10000, "RDI": 0x11000, "RFLAGS": 0x202}
        for name, value in values.items():
            engine.reg_write(getattr(ux, f"UC_X86_REG_{name}"), value)
        engine.emu_start(0x1000, 0x1000 + len(code))
        return engine.reg_read(ux.UC_X86_REG_RFLAGS)

    assert flags() == flags(uc.UC_HOOK_CODE) == 0x206
    assert flags(uc.UC_HOOK_CODE, uc.UC_HOOK_MEM_WRITE) == 0x216


@pytest.mark.parametrize(("value", "wanted"), [(None, True), ("1", True), ("0", False)])
def test_the_lab_lets_it_judge_unless_told_otherwise(monkeypatch, value, wanted):
    monkeypatch.delenv("SHARDFW_SEMANTICS", raising=False)
    if value is not None:
        monkeypatch.setenv("SHARDFW_SEMANTICS", value)
    assert Lab(checksum).lockstep.semantics is wanted
    assert Lab(checksum, semantics=not wanted).lockstep.semantics is not wanted
