"""A 32-bit register as an address loses the upper half in 64-bit code."""

from toolchain.asm import ESI, RAX, Asm, In, Out, Reg32, Region, mem64, routine

MEMORY = Region("memory", "somewhere")


@routine(
    inputs=[In(ESI, int, "an address")], outputs=[Out(RAX, "a word")], reads=[MEMORY], source="none"
)
def broken(a: Asm, pointer: Reg32) -> None:
    """Break one rule."""
    a.mov(RAX, mem64(pointer, 8, ref=MEMORY))  # refused
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = "{here}: broken: [esi+0x8] is addressed by esi, which cuts the address; use rsi"
