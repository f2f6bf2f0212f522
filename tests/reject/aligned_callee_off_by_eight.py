"""At a call of an aligned routine RSP is a multiple of 16."""

from toolchain.asm import Asm, routine


@routine(aligned=True, source="none")
def callee(a: Asm) -> None:
    """Want RSP aligned."""
    a.ret()


@routine(calls=[callee], aligned=True, source="none")
def broken(a: Asm) -> None:
    """Break one rule."""
    a.call(callee)  # refused
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = (
    "{here}: broken: calls callee with RSP off by 8 bytes of 16; add 8 to `stack` in the contract"
)
