"""What a callee changes, its caller changes."""

from toolchain.asm import RDX, Asm, routine


@routine(clobbers=[RDX], source="none")
def callee(a: Asm) -> None:
    """Change RDX."""
    a.mov(RDX, 1)
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
    "call changes rdx, which the contract does not list; "
    "add it to `clobbers`, to `outputs`, or to `saves`"
)
