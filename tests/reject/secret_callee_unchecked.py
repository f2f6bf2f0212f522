"""A callee that reads memory is checked too."""

from toolchain.asm import RAX, RSI, Asm, In, Reg64, Region, mem64, routine

KEY = Region("the key", "of a test")


@routine(inputs=[In(RSI, int, "a key")], clobbers=[RAX], reads=[KEY], writes=[KEY], source="none")
def callee(a: Asm, key: Reg64) -> None:
    """Change a key."""
    a.mov(RAX, mem64(key, ref=KEY))
    a.mov(mem64(key, 8, ref=KEY), RAX)
    a.ret()


@routine(  # refused
    inputs=[In(RSI, int, "a key")], clobbers=[RAX], calls=[callee], secret=[RSI], source="none"
)
def broken(a: Asm, key: Reg64) -> None:
    """Break one rule."""
    a.call(callee)
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = (
    "{here}: broken: calls callee, which reads memory and keeps nothing secret; "
    "list in `secret` of callee what it keeps, so that it is checked too"
)
