"""Operands of different widths do not go together."""

from toolchain.asm import EAX, RCX, Asm, routine


@routine(source="none")
def broken(a: Asm) -> None:
    """Break one rule."""
    a.emit("mov", EAX, RCX)  # refused
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = (
    "{here}: broken: "
    "no 64-bit form of mov takes eax, rcx; "
    "check operand widths and immediate ranges; memory to memory needs a register"
)
