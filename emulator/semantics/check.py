"""Compares what a machine did with what the semantics say."""

from collections.abc import Sequence
from dataclasses import dataclass

from emulator.semantics.step import (
    EFLAGS,
    FLAG_NAMES,
    REGISTER_NAMES,
    MemoryReader,
    Registers,
    Step,
)

# RF is set and cleared by debugging alone; the bit above CF always reads as one.
_IGNORED_FLAGS = 0x10000


@dataclass(frozen=True, slots=True)
class Difference:
    """The first thing in which a machine departs from the semantics.

    Attributes:
        place: Register name, flag names or memory address.
        expected: Value by the SDM.
        actual: Value found.
        message: The complete sentence, with the instruction and its inputs.
    """

    place: str
    expected: int
    actual: int
    message: str

    def __str__(self) -> str:
        return self.message


def check_step(
    before: Registers,
    after: Registers,
    step: Step,
    read: MemoryReader,
    written: Sequence[tuple[int, int, int]] | None = None,
) -> Difference | None:
    """Return the first difference between a machine and the semantics, or None.

    Args:
        before: The 18 registers before the instruction, for the message.
        after: The 18 registers that the machine shows afterwards.
        step: What the semantics computed from `before`.
        read: Reads the machine's memory after the instruction.
        written: The machine's own list of writes (address, size, value), if it keeps one; a write
            outside the expected bytes is then a difference too.
    """
    wrong = step.registers != after and _register_difference(before, after, step)
    if wrong:
        return wrong
    if not written:
        if not step.writes:
            return None
        if len(step.writes) == 1:  # the usual case, one read instead of one for each byte
            address, size, value = step.writes[0]
            if value is None or read(address, size) == value:
                return None
    return _memory_difference(before, step, read, written)


def _difference(
    before: Registers, step: Step, place: str, expected: int, actual: int
) -> Difference:
    ins = step.instruction
    inputs = ", ".join(
        f"{name}={value:#x}" for name, value in zip(REGISTER_NAMES, before, strict=False)
    )
    message = (
        f"{ins.ip:#x} `{ins}`: {place} should be {expected:#x} but is {actual:#x}; before: {inputs}"
    )
    return Difference(place, expected, actual, message)


def _register_difference(before: Registers, after: Registers, step: Step) -> Difference | None:
    undefined = dict(step.undefined_registers)
    for number, (expected, actual) in enumerate(zip(step.registers[:17], after, strict=False)):
        if (expected ^ actual) & ~undefined.get(number, 0):
            return _difference(before, step, REGISTER_NAMES[number], expected, actual)
    changed = (step.registers[EFLAGS] ^ after[EFLAGS]) & ~(step.undefined_flags | _IGNORED_FLAGS)
    if not changed:
        return None
    names = [name for bit, name in FLAG_NAMES.items() if changed & bit]
    place = f"EFLAGS ({' '.join(names) or hex(changed)})"
    return _difference(before, step, place, step.registers[EFLAGS], after[EFLAGS])


def _memory_difference(
    before: Registers,
    step: Step,
    read: MemoryReader,
    written: Sequence[tuple[int, int, int]] | None,
) -> Difference | None:
    bytes_expected: dict[int, int | None] = {}
    for address, size, value in step.writes:
        for offset in range(size):
            byte = None if value is None else value >> 8 * offset & 255
            bytes_expected[address + offset] = byte
    for address, expected in bytes_expected.items():
        if expected is None:
            continue
        actual = read(address, 1)
        if actual != expected:
            return _difference(before, step, f"byte [{address:#x}]", expected, actual)
    for address, size, value in written or ():
        for offset in range(size):
            if address + offset not in bytes_expected:
                place = f"byte [{address + offset:#x}], which the instruction must not write,"
                old = read(address + offset, 1)
                return _difference(before, step, place, old, value >> 8 * offset & 255)
    return None
