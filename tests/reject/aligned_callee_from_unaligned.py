"""A routine that needs an aligned stack is called from aligned ones only."""

from toolchain.asm import Asm, routine


@routine(aligned=True, source="none")
def callee(a: Asm) -> None:
    """Want RSP aligned."""
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
    "calls callee, which needs an aligned stack; "
    "set aligned=True in this contract too"
)
