"""A field takes members of its own enum."""

import enum

from tests.support.program import Engine
from toolchain.asm import RBX, Asm, In, routine


class Other(enum.IntEnum):
    """Another meaning of 5."""

    FIVE = 5


@routine(inputs=[In(RBX, Engine, "the engine")], writes=[Engine.mode], source="none")
def broken(a: Asm, engine: Engine) -> None:
    """Break one rule."""
    a.mov(engine.mode, Other.FIVE)  # refused
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = "{here}: broken: Engine.mode holds Mode, not Other.FIVE; use a member of Mode"
