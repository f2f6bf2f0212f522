"""A secret leaves in registers that say so."""

from toolchain.asm import RAX, RSI, Asm, In, Out, Reg64, Region, mem64, routine

KEY = Region("the key", "of a test")


@routine(
    inputs=[In(RSI, int, "a key")],
    outputs=[Out(RAX, "a key")],
    reads=[KEY],
    secret=[KEY],
    source="none",
)
def broken(a: Asm, key: Reg64) -> None:
    """Break one rule."""
    a.mov(RAX, mem64(key, ref=KEY))
    a.ret()  # refused


def refused() -> None:
    broken.lines()


MESSAGE = (
    "{here}: broken: returns a secret in RAX; list it in `secret`, or tell a verdict in a flag"
)
