"""A region is listed by itself: a field of bytes, which belongs to a struct, does not stand for it."""

from toolchain.asm import EAX, RSI, Asm, In, Reg64, Region, mem32, routine
from toolchain.layout import Struct, bytes_

FRAME = Region("a frame", "of a test")


class Kept(Struct):
    """A struct with a field of bytes."""

    SIZE = 8
    name = bytes_(0, 8, "a name")


@routine(
    inputs=[In(RSI, int, "a frame")], clobbers=[EAX], reads=[Kept.name], writes=[FRAME],
    source="none",
)  # fmt: skip
def broken(a: Asm, frame: Reg64) -> None:
    """Break one rule."""
    a.mov(EAX, mem32(frame, ref=FRAME))  # refused
    a.mov(mem32(frame, ref=FRAME), EAX)
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = "{here}: broken: reads a frame, which the contract does not list; add it to `reads`"
