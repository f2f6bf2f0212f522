"""Turns one decoded instruction into a Python function, once per address."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, cast

from iced_x86 import Code, CodeSize, EncodingKind, Instruction, Mnemonic, OpKind

from emulator.semantics import arithmetic, bits, control, helpers, moves, shifts, strings
from emulator.semantics.builder import GENERAL, IMMEDIATES, Builder
from emulator.semantics.step import (
    NOTHING,
    Step,
    StepFunction,
    UnsupportedInstructionError,
)

HANDLERS: Final[dict[int, Callable[[Builder], None]]] = {
    **arithmetic.HANDLERS,
    **bits.HANDLERS,
    **control.HANDLERS,
    **moves.HANDLERS,
    **shifts.HANDLERS,
    **strings.HANDLERS,
}

# Forms with a 16-bit stack or instruction pointer, a 32-bit loop counter or a far pointer, and
# undocumented duplicates: never generated.
_EXCLUDED: Final = frozenset(
    getattr(Code, name)
    for name in (
        *("CALL_RM16", "CALL_REL16", "JMP_RM16", "JMP_REL16", "JMP_REL8_16"),
        *("RETNW", "RETNW_IMM16", "LEAVEW", "LOOP_REL8_64_ECX"),
        *("LOOPE_REL8_64_ECX", "LOOPNE_REL8_64_ECX"),
        *("CALL_M1616", "CALL_M1632", "CALL_M1664", "JMP_M1616", "JMP_M1632", "JMP_M1664"),
        *("TEST_RM8_IMM8_F6R1", "TEST_RM16_IMM16_F7R1"),
        *("TEST_RM32_IMM32_F7R1", "TEST_RM64_IMM32_F7R1"),
    )
)
_OPERAND_KINDS: Final = IMMEDIATES | {
    OpKind.MEMORY,
    OpKind.NEAR_BRANCH64,
    OpKind.MEMORY_SEG_RSI,
    OpKind.MEMORY_SEG_ESI,
    OpKind.MEMORY_ESRDI,
    OpKind.MEMORY_ESEDI,
}
_ENCODINGS: Final = (EncodingKind.LEGACY, EncodingKind.VEX)
_REPEATABLE: Final = frozenset(strings.HANDLERS)

_NAMESPACE: Final[dict[str, Any]] = {
    "NOTHING": NOTHING,
    "Step": Step,
    "new": tuple.__new__,
    "PARITY": helpers.PARITY,
    "unsigned_divide": helpers.unsigned_divide,
    "signed_divide": helpers.signed_divide,
    "swap_bytes": helpers.swap_bytes,
    "gather_bits": helpers.gather_bits,
    "scatter_bits": helpers.scatter_bits,
    "crc32c": helpers.crc32c,
    "read_fresh": helpers.read_fresh,
    "put_fresh": helpers.put_fresh,
}


def supports(ins: Instruction) -> bool:
    """Tell whether an instruction has semantics here.

    SIMD, x87, system, port and far instructions have none: vectors, the processor and QEMU
    judge those.
    """
    if ins.mnemonic not in HANDLERS or ins.code in _EXCLUDED:
        return False
    if ins.code_size != CodeSize.CODE64 or ins.encoding not in _ENCODINGS:
        return False
    for operand in range(ins.op_count):
        kind = ins.op_kind(operand)
        if kind == OpKind.REGISTER:
            if ins.op_register(operand) not in GENERAL:
                return False
        elif kind not in _OPERAND_KINDS:
            return False
    return ins.mnemonic not in _REPEATABLE or strings.supported(ins)


@lru_cache(maxsize=65536)
def _maker(source: str) -> Callable[..., StepFunction]:
    """Compile the source of a step maker; instructions that differ in address share one."""
    scope: dict[str, Any] = {}
    # The text comes from Builder alone: mnemonics, register numbers and constants.
    exec(compile(source, "<semantics>", "exec"), _NAMESPACE, scope)  # noqa: S102
    return cast("Callable[..., StepFunction]", scope["make"])


def source_text(ins: Instruction, *, once: bool = False) -> str:
    """Return the Python text of an instruction.

    Raises:
        UnsupportedInstructionError: If `supports` says no.
    """
    if not supports(ins):
        raise UnsupportedInstructionError(
            f"no semantics for `{ins}` at {ins.ip:#x}: only 64-bit general-purpose instructions "
            "have them; call supports() first and leave this one to the other judges"
        )
    builder = Builder(ins, once=once)
    HANDLERS[ins.mnemonic](builder)
    return builder.text()


def compile_instruction(ins: Instruction, *, once: bool = False) -> StepFunction:
    """Return a function that computes what the instruction does.

    Args:
        ins: The decoded instruction; its `ip` and length must be those of the running code.
        once: Translate one visit of a repeated string instruction instead of the whole: with
            RCX = 0 it moves on, otherwise it does one iteration and stays, unless REPE or REPNE
            end it. This is what Unicorn's code hook shows.

    Returns:
        `step(registers, read, outside=NOTHING)`. `registers` is any sequence of 18 integers,
        `read(address, size)` returns memory as it stood before the instruction, `outside` holds
        segment bases, clock and entropy.

    Raises:
        UnsupportedInstructionError: If `supports` says no.
    """
    target = ins.near_branch_target if ins.op_count else 0
    return _maker(source_text(ins, once=once))(ins, ins.ip, ins.next_ip, target)


def mnemonics() -> tuple[str, ...]:
    """Return the names of all mnemonics that have semantics, sorted."""
    names = {value: name for name, value in vars(Mnemonic).items() if isinstance(value, int)}
    return tuple(sorted(names[number] for number in HANDLERS))
