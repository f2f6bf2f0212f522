"""The message that a disagreement produces."""

import pytest
from iced_x86 import Decoder

from emulator.semantics import Step, check_step, compile_instruction

RIP = 0x6000_0000
BEFORE = [1, 0, 0, 0x7000_0000, 0, 0, 0, 0, *[0] * 8, RIP, 0x202]


def no_memory(address: int, size: int) -> int:
    pytest.fail(f"reads {size} bytes at {address:#x}")


def step_of(data: str, read_value: int = 0) -> Step:
    ins = Decoder(64, bytes.fromhex(data), ip=RIP).decode()
    return compile_instruction(ins)(BEFORE, lambda _address, _size: read_value)


def test_equal_states_have_no_difference() -> None:
    step = step_of("4883c001")
    assert check_step(BEFORE, list(step.registers), step, no_memory) is None
    assert check_step(BEFORE, tuple(step.registers), step, no_memory) is None


def test_a_register_difference_names_instruction_and_inputs() -> None:
    step = step_of("4883c001")
    after = list(step.registers)
    after[0] = 9
    difference = check_step(BEFORE, after, step, no_memory)
    assert difference is not None
    assert (difference.place, difference.expected, difference.actual) == ("RAX", 2, 9)
    assert str(difference).startswith(
        "0x60000000 `add rax,1`: RAX should be 0x2 but is 0x9; before: RAX=0x1, RCX=0x0"
    )


def test_the_next_instruction_is_compared() -> None:
    step = step_of("4883c001")
    after = list(step.registers)
    after[16] = RIP
    difference = check_step(BEFORE, after, step, no_memory)
    assert difference is not None
    assert difference.place == "RIP"


def test_a_flag_difference_names_the_flags() -> None:
    step = step_of("4883c001")
    after = list(step.registers)
    after[17] ^= 0x841
    difference = check_step(BEFORE, after, step, no_memory)
    assert difference is not None
    assert difference.place == "EFLAGS (CF ZF OF)"


def test_undefined_flags_are_not_compared_and_defined_ones_are() -> None:
    step = step_of("4821c0")  # AND leaves AF undefined
    after = list(step.registers)
    after[17] ^= 0x10
    assert check_step(BEFORE, after, step, no_memory) is None
    after[17] ^= 0x4
    difference = check_step(BEFORE, after, step, no_memory)
    assert difference is not None
    assert difference.place == "EFLAGS (PF)"


def test_an_undefined_register_is_not_compared() -> None:
    step = step_of("480fbcc1")  # BSF of zero
    after = list(step.registers)
    after[0] = 0xDEAD
    assert check_step(BEFORE, after, step, no_memory) is None


def test_a_missing_write_names_the_byte() -> None:
    step = step_of("488903")
    difference = check_step(BEFORE, step.registers, step, lambda _address, _size: 0)
    assert difference is not None
    assert difference.place == "byte [0x70000000]"
    assert (difference.expected, difference.actual) == (1, 0)


def test_a_surplus_write_is_a_difference() -> None:
    step = step_of("4883c001")
    written = [(0x7000_0008, 8, 5)]
    difference = check_step(BEFORE, step.registers, step, lambda _address, _size: 0, written)
    assert difference is not None
    assert "byte [0x70000008], which the instruction must not write," in difference.message


def test_declared_writes_are_not_surplus() -> None:
    step = step_of("488903")
    written = [(0x7000_0000, 8, 1)]

    def read(address: int, _size: int) -> int:
        return 1 if address == 0x7000_0000 else 0

    assert check_step(BEFORE, step.registers, step, read, written) is None
