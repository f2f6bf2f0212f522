"""Two runs that are woven together share no register that one of them changes."""

from toolchain.asm import RAX, RCX, Asm, routine
from toolchain.asm.stitch import stitch


@routine(clobbers=[RAX, RCX], source="none")
def broken(a: Asm) -> None:
    """Break one rule."""
    stitch(a, lambda: a.mov(RAX, 1), lambda: a.mov(RCX, RAX))  # refused
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = (
    "{here}: broken: both stitched runs use rax, which one of them changes; "
    "give each its own registers"
)
