"""What nobody uses is not computed."""

from toolchain.asm import RAX, RCX, Asm, In, Reg64, routine


@routine(inputs=[In(RCX, int, "a value")], clobbers=[RAX], source="none")
def broken(a: Asm, value: Reg64) -> None:
    """Break one rule."""
    a.mov(RAX, value)  # refused
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = "{here}: broken: nothing uses the result of mov; remove it, or use what it computes"
