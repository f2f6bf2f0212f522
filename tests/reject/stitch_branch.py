"""Two runs that are woven together are straight."""

from toolchain.asm import RAX, RCX, Asm, routine
from toolchain.asm.stitch import stitch


@routine(clobbers=[RAX, RCX], source="none")
def broken(a: Asm) -> None:
    """Break one rule."""
    end = a.label("end")
    stitch(a, lambda: a.mov(RAX, 1), lambda: a.jmp(end))  # refused
    a.place(end)
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = (
    "{here}: broken: a stitched run holds jmp, a place to jump from or to; "
    "stitch straight runs only"
)
