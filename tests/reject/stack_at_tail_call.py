"""A tail call leaves the stack as the caller gave it."""

from tests.support.program import Engine, step_add
from toolchain.asm import RBX, Asm, In, routine


@routine(inputs=[In(RBX, Engine, "the engine")], calls=[step_add], source="none")
def broken(a: Asm, engine: Engine) -> None:
    """Break one rule."""
    a.push(RBX)
    a.jmp(step_add)  # refused


def refused() -> None:
    broken.lines()


MESSAGE = (
    "{here}: broken: returns with 8 bytes left on the stack; pop what was pushed on every path"
)
