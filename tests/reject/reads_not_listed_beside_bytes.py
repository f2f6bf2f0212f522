"""A listed run of bytes does not stand for memory that is not listed."""

from toolchain.asm import RAX, RSI, Asm, In, Out, Reg64, Region, mem64, routine
from toolchain.layout import Struct, bytes_


class Named(Struct):
    """A name."""

    SIZE = 8
    name = bytes_(0, 8, "text")


MEMORY = Region("memory", "somewhere")


@routine(
    inputs=[In(RSI, int, "an address")],
    outputs=[Out(RAX, "a word")],
    reads=[Named.name],
    source="none",
)
def broken(a: Asm, pointer: Reg64) -> None:
    """Break one rule."""
    a.mov(RAX, Named.at(RSI).name.m64())
    a.add(RAX, mem64(pointer, 8, ref=MEMORY))  # refused
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = "{here}: broken: reads memory, which the contract does not list; add it to `reads`"
