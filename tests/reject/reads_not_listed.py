"""A field that is read is listed."""

from tests.support.program import Engine
from toolchain.asm import RAX, RBX, Asm, In, Out, routine


@routine(inputs=[In(RBX, Engine, "the engine")], outputs=[Out(RAX, "sum")], source="none")
def broken(a: Asm, engine: Engine) -> None:
    """Break one rule."""
    a.mov(RAX, engine.total)  # refused
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = "{here}: broken: reads Engine.total, which the contract does not list; add it to `reads`"
