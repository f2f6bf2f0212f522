"""A call stays in the mode of the caller."""

from toolchain.asm import Asm, routine


@routine(bits=32, source="none")
def callee(a: Asm) -> None:
    """Do nothing."""
    a.ret()


@routine(calls=[callee], source="none")
def broken(a: Asm) -> None:
    """Break one rule."""
    a.call(callee)  # refused
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = (
    "{here}: broken: "
    "goes from 64-bit code to callee, which is 32-bit code; "
    "change the mode first, with a.far_jmp"
)
