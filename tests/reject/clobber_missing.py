"""A register that changes is listed."""

from toolchain.asm import EDX, Asm, routine


@routine(source="none")
def broken(a: Asm) -> None:
    """Break one rule."""
    a.xor(EDX, EDX)  # refused
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = (
    "{here}: broken: "
    "xor changes rdx, which the contract does not list; "
    "add it to `clobbers`, to `outputs`, or to `saves`"
)
