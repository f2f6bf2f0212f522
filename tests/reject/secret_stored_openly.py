"""A secret stays where the contract says."""

from toolchain.asm import RAX, RDI, RSI, Asm, In, Reg64, Region, mem64, routine

KEY = Region("the key", "of a test")
OPEN = Region("the answer", "of a test")


@routine(
    inputs=[In(RSI, int, "a key"), In(RDI, int, "an answer")],
    clobbers=[RAX],
    reads=[KEY],
    writes=[OPEN],
    secret=[KEY],
    source="none",
)
def broken(a: Asm, key: Reg64, out: Reg64) -> None:
    """Break one rule."""
    a.mov(RAX, mem64(key, ref=KEY))
    a.mov(mem64(out, ref=OPEN), RAX)  # refused
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = (
    "{here}: broken: stores a secret in the answer; list it in `secret`, or store something else"
)
