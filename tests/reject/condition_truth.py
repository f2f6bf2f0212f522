"""Conditions do not combine with `and`."""

from toolchain.asm import NZ, Asm, B, routine


@routine(source="none")
def broken(a: Asm) -> None:
    """Break one rule."""
    with a.if_(NZ and B):
        a.nop()
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = "condition nz has no truth value at build time; use `with a.if_(nz):`"
