"""A branch does not depend on a secret."""

from toolchain.asm import NZ, RAX, RSI, Asm, In, Reg64, Region, mem64, routine

KEY = Region("the key", "of a test")


@routine(inputs=[In(RSI, int, "a key")], clobbers=[RAX], reads=[KEY], secret=[KEY], source="none")
def broken(a: Asm, key: Reg64) -> None:
    """Break one rule."""
    a.mov(RAX, mem64(key, ref=KEY))
    with a.loop() as bits:
        a.shr(RAX, 1)
        a.again(NZ, bits)  # refused
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = (
    "{here}: broken: jnz depends on a secret in zf, as branch, address or divisor; "
    "compute with masks, or keep the secret out of it"
)
