"""Every call is in the contract."""

from toolchain.asm import Asm, routine


@routine(source="none")
def callee(a: Asm) -> None:
    """Do nothing."""
    a.ret()


@routine(source="none")
def broken(a: Asm) -> None:
    """Break one rule."""
    a.call(callee)  # refused
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = "{here}: broken: calls callee, which its contract does not list; add callee to `calls`"
