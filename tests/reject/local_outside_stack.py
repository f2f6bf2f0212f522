"""Locals lie inside the declared stack."""

from toolchain.asm import RAX, Asm, routine


@routine(stack=8, source="none", clobbers=[RAX])
def broken(a: Asm) -> None:
    """Break one rule."""
    a.mov(RAX, a.local(8, 8))  # refused
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = (
    "{here}: broken: local at 8 of 8 bytes does not fit in stack=8; raise `stack` in the contract"
)
