"""A field that is written is listed."""

from tests.support.program import Engine
from toolchain.asm import RBX, Asm, In, routine


@routine(inputs=[In(RBX, Engine, "the engine")], reads=[Engine.total], source="none")
def broken(a: Asm, engine: Engine) -> None:
    """Break one rule."""
    a.inc(engine.total)  # refused
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = (
    "{here}: broken: writes Engine.total, which the contract does not list; add it to `writes`"
)
