"""No instruction moves memory to memory."""

from tests.support.program import Engine
from toolchain.asm import RBX, Asm, In, routine


@routine(
    inputs=[In(RBX, Engine, "the engine")],
    reads=[Engine.total],
    writes=[Engine.total],
    source="none",
)
def broken(a: Asm, engine: Engine) -> None:
    """Break one rule."""
    a.emit("mov", engine.total, engine.total)  # refused
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = (
    "{here}: broken: "
    "no 64-bit form of mov takes qword [rbx+0x10], qword [rbx+0x10]; "
    "check operand widths and immediate ranges; memory to memory needs a register"
)
