"""The contract lists no field that is not written."""

from tests.support.program import Engine
from toolchain.asm import RBX, Asm, In, routine


@routine(inputs=[In(RBX, Engine, "the engine")], writes=[Engine.port], source="none")  # refused
def broken(a: Asm, engine: Engine) -> None:
    """Break one rule."""
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = "{here}: broken: lists Engine.port in `writes` but never writes it; remove it"
