"""The native runner: state in and out, protection, faults and refusals."""

import re
import time
from pathlib import Path

import pytest

from emulator.native import (
    EXIT,
    EXIT_2,
    TRAMPOLINE_BASE,
    Access,
    Call,
    Entry,
    NativeFault,
    NativeProgram,
    NativeRefusedError,
    NativeSetupError,
    Region,
    jump_to,
)

CODE, DATA = 0x6000_0000, 0x7000_0000
RSP = 4
STACK = DATA + 0x1800
REGISTERS = tuple(STACK if number == RSP else 0x1000 + number for number in range(16))


def program(code: str, *, seconds: float = 5.0) -> NativeProgram:
    return NativeProgram(
        [Region(CODE, bytes.fromhex(code), Access.CODE), Region(DATA, bytes(0x2000))], seconds
    )


def test_every_register_goes_in_and_comes_out_unchanged() -> None:
    (result,) = program("c3").run([Call(CODE, REGISTERS)])
    assert result.registers == REGISTERS


def test_vectors_go_in_and_come_out() -> None:
    values = tuple((n + 1) << 120 | n for n in range(16))
    (result,) = program("660fefc0" + "c3").run([Call(CODE, REGISTERS, xmm=values)])
    assert result.xmm == (0, *values[1:])


def test_flags_go_in_and_come_out() -> None:
    state = (*REGISTERS, 0, 0x202 | 0x8D5 | 0x400)
    (result,) = program("c3").run([Call(CODE, state)])
    assert result.flags & 0xCD5 == 0xCD5
    (result,) = program("fcf8c3").run([Call(CODE, state)])
    assert result.flags & 0xCD5 == 0x8D4


def test_memory_is_patched_before_and_read_after() -> None:
    code = "488b06" + "48ffc0" + "48894608" + "c3"  # [rsi+8] = [rsi] + 1
    registers = list(REGISTERS)
    registers[6] = DATA + 0x10
    call = Call(CODE, registers, memory=((DATA + 0x10, b"\x41\0\0\0\0\0\0\0"),))
    ranges = ((DATA + 0x18, 8),)
    first, second = program(code).run([call, Call(CODE, registers, reads=ranges)])
    assert first.memory[DATA][0x18] == 0x42
    assert second.memory == {DATA + 0x18: (0x42).to_bytes(8, "little")}


def test_memory_carries_over_within_a_run_but_not_between_runs() -> None:
    registers = list(REGISTERS)
    registers[6] = DATA
    counter = program("48ff06" + "c3")
    calls = [Call(CODE, registers, reads=((DATA, 1),))] * 2
    assert [result.memory[DATA] for result in counter.run(calls)] == [b"\1", b"\2"]
    assert [result.memory[DATA] for result in counter.run(calls)] == [b"\1", b"\2"]


def test_the_processor_time_of_each_call_is_told(monkeypatch) -> None:
    # The child inherits the clock: it shows these nanoseconds before and after each call.
    monkeypatch.setattr(time, "process_time_ns", iter((10, 15, 40, 140)).__next__)
    first, second = program("c3").run([Call(CODE, REGISTERS)] * 2)
    assert (first.seconds, second.seconds) == (5e-9, 1e-7)


def test_the_parent_keeps_no_mapping() -> None:
    program("c3").run([Call(CODE, REGISTERS)])
    maps = Path("/proc/self/maps").read_text(encoding="ascii")
    assert not re.search(r"^(5f00[01]|60000|70000)000-", maps, re.MULTILINE)


def test_segment_bases_are_loaded_and_the_host_keeps_its_own() -> None:
    code = "6448a10000000000000000" + "4889c1" + "6548a10000000000000000" + "c3"
    memory = ((DATA, (7).to_bytes(8, "little")), (DATA + 8, (9).to_bytes(8, "little")))
    call = Call(CODE, REGISTERS, memory=memory, fs_base=DATA, gs_base=DATA + 8)
    results = program(code).run([call, call])
    assert [result.registers[:2] for result in results] == [(9, 7), (9, 7)]


def test_a_jump_entry_leaves_by_either_exit() -> None:
    code = "7510" + jump_to(EXIT).hex() + "9090" + jump_to(EXIT_2).hex()  # jnz to the second
    zero, other = program(code).run(
        [Call(CODE, (*REGISTERS, 0, flags), entry=Entry.JUMP) for flags in (0x242, 0x202)]
    )
    assert (zero.second_exit, other.second_exit) == (False, True)
    assert zero.registers == other.registers == REGISTERS


@pytest.mark.parametrize(
    ("code", "signal_name"),
    [
        ("31c0" + "488900", "SIGSEGV"),  # a null pointer
        ("c60500000000" + "90", "SIGSEGV"),  # a write into the code region: no page is W and X
        ("48b80000007000000000" + "ffe0", "SIGSEGV"),  # data is not executable
        ("0f0b", "SIGILL"),  # UD2
        ("31c9" + "f7f1", "SIGFPE"),  # division by zero
        ("ebfe", "SIGVTALRM"),  # an endless loop
    ],
)
def test_a_crash_becomes_a_fault_with_the_signal(code: str, signal_name: str) -> None:
    with pytest.raises(NativeFault) as caught:
        program(code + "c3", seconds=0.05).run([Call(CODE, REGISTERS)])
    assert caught.value.signal_name == signal_name
    assert "native call 0 at 0x60000000" in str(caught.value)


def test_a_misaligned_vector_operand_faults_as_unicorn_does_not() -> None:
    code = program("660f6f4601" + "c3")  # movdqa xmm0, [rsi+1]
    registers = list(REGISTERS)
    registers[6] = DATA
    with pytest.raises(NativeFault, match="SIGSEGV"):
        code.run([Call(CODE, registers)])


def test_a_fault_names_the_call() -> None:
    good, bad = list(REGISTERS), list(REGISTERS)
    good[0], bad[0] = DATA, 0
    with pytest.raises(NativeFault, match=r"native call 2 at 0x60000000 ended with SIGSEGV") as got:
        program("488900" + "c3").run([Call(CODE, good), Call(CODE, good), Call(CODE, bad)])
    assert got.value.call == 2


def test_an_endless_loop_says_how_long_it_ran() -> None:
    with pytest.raises(NativeFault, match=r"ran longer than 0\.05 s of processor time"):
        program("ebfe", seconds=0.05).run([Call(CODE, REGISTERS)])


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("0f31", "rdtsc"),
        ("0f01f9", "rdtscp"),
        ("0fc7f0", "rdrand eax"),
        ("ec", "in al,dx"),
        ("e7f8", "out"),
        ("fa", "cli"),
        ("f4", "hlt"),
        ("0f22d8", "mov cr3,rax"),
        ("0f30", "wrmsr"),
        ("0f0117", r"lgdt"),
        ("0fa2", "cpuid"),
        ("0f05", "syscall"),
        ("0f0138", r"invlpg"),
        ("48cf", "iretq"),
    ],
)
def test_what_a_user_process_cannot_judge_is_refused(code: str, text: str) -> None:
    with pytest.raises(NativeRefusedError, match=rf"`{text}.*at 0x60000001 cannot run") as caught:
        program("90" + code + "c3")
    assert "judge this routine in Unicorn" in str(caught.value)


def test_only_the_named_routines_are_searched() -> None:
    data = bytes.fromhex("48ffc0c3" + "0f31c3")
    region = Region(CODE, data, Access.CODE, routines=((CODE, 4),))
    (result,) = NativeProgram([region, Region(DATA, bytes(0x2000))]).run([Call(CODE, REGISTERS)])
    assert result.registers[0] == REGISTERS[0] + 1
    with pytest.raises(NativeRefusedError, match="rdtsc"):
        NativeProgram([Region(CODE, data, Access.CODE, routines=((CODE + 4, 3),))])


@pytest.mark.parametrize(
    ("region", "message"),
    [
        (Region(CODE + 1, b"x"), "must be a multiple of 0x1000"),
        (Region(CODE, b""), "the data not empty"),
        (Region(TRAMPOLINE_BASE, b"x"), "overlaps the trampoline at 0x5f000000"),
    ],
)
def test_a_bad_region_is_refused(region: Region, message: str) -> None:
    with pytest.raises(NativeSetupError, match=message):
        NativeProgram([region])


def test_overlapping_regions_are_reported_by_address() -> None:
    regions = [Region(DATA, bytes(0x2000)), Region(DATA + 0x1000, bytes(0x1000))]
    with pytest.raises(NativeSetupError, match=r"cannot map 0x1000 bytes at 0x70001000: .*exists"):
        NativeProgram(regions).run([])


def test_a_stack_outside_all_regions_is_reported() -> None:
    with pytest.raises(NativeSetupError, match=r"8 bytes at 0x1008 lie in no region"):
        program("c3").run([Call(CODE, [0x1010] * 16)])


def test_constants_are_mapped_read_only() -> None:
    regions = [
        Region(CODE, bytes.fromhex("488b06" + "c3"), Access.CODE),
        Region(DATA, bytes(0x2000)),
        Region(0x7100_0000, (5).to_bytes(8, "little"), Access.CONSTANT),
    ]
    registers = list(REGISTERS)
    registers[6] = 0x7100_0000
    (result,) = NativeProgram(regions).run([Call(CODE, registers)])
    assert result.registers[0] == 5
    writer = [Region(CODE, bytes.fromhex("488906" + "c3"), Access.CODE), *regions[1:]]
    with pytest.raises(NativeFault, match="SIGSEGV"):
        NativeProgram(writer).run([Call(CODE, registers)])
