"""Jumps, calls, returns and loops. SDM Vol. 2, the entry of each mnemonic."""

from collections.abc import Callable
from typing import Final

from iced_x86 import Mnemonic, OpKind

from emulator.semantics.builder import MASK64, Builder
from emulator.semantics.moves import CONDITION_SUFFIXES, CONDITIONS, push_value

_BRANCH = OpKind.NEAR_BRANCH64


def _target(b: Builder) -> str:
    """Return text for the destination of a direct or indirect branch."""
    return "TARGET" if b.instruction.op_kind(0) == _BRANCH else b.get(0)


def _jump(b: Builder) -> None:
    """JMP."""
    b.next_rip = _target(b)


def _jump_if(b: Builder) -> None:
    """Jcc."""
    b.next_rip = f"TARGET if {CONDITIONS[b.instruction.condition_code]} else NEXT"


def _call(b: Builder) -> None:
    """CALL: the target is read before RSP moves."""
    target = b.let("g", _target(b))
    push_value(b, 8, "NEXT")
    b.next_rip = target


def _return(b: Builder) -> None:
    """RET, with or without bytes to release."""
    released = b.instruction.immediate16 if b.instruction.op_count else 0
    b.let("g", "read(r[4], 8)")
    b.line(f"n[4] = r[4] + {8 + released} & {MASK64:#x}")
    b.next_rip = "g"


def _jump_if_counter_zero(bits: int) -> Callable[[Builder], None]:
    """Return the handler of JRCXZ or JECXZ."""

    def handler(b: Builder) -> None:
        b.next_rip = f"NEXT if {b.register(1, bits)} else TARGET"

    return handler


def _loop(condition: str) -> Callable[[Builder], None]:
    """Return the handler of LOOP, LOOPE or LOOPNE: RCX goes down, no flags."""

    def handler(b: Builder) -> None:
        b.let("c", f"r[1] - 1 & {MASK64:#x}")
        b.line("n[1] = c")
        b.next_rip = f"TARGET if c{condition} else NEXT"

    return handler


HANDLERS: Final[dict[int, Callable[[Builder], None]]] = {
    Mnemonic.JMP: _jump,
    Mnemonic.CALL: _call,
    Mnemonic.RET: _return,
    Mnemonic.JRCXZ: _jump_if_counter_zero(64),
    Mnemonic.JECXZ: _jump_if_counter_zero(32),
    Mnemonic.LOOP: _loop(""),
    Mnemonic.LOOPE: _loop(" and f & 0x40"),
    Mnemonic.LOOPNE: _loop(" and not f & 0x40"),
    **{getattr(Mnemonic, f"J{suffix}"): _jump_if for suffix in CONDITION_SUFFIXES},
}
