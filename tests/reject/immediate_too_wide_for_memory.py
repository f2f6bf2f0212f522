"""Only `mov r64, imm` takes 64 bits."""

from tests.support.program import Engine
from toolchain.asm import RBX, Asm, In, routine


@routine(inputs=[In(RBX, Engine, "the engine")], writes=[Engine.total], source="none")
def broken(a: Asm, engine: Engine) -> None:
    """Break one rule."""
    a.mov(engine.total, 0x1_0000_0000)  # refused
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = (
    "{here}: broken: "
    "no 64-bit form of mov takes qword [rbx+0x10], 0x100000000; "
    "check operand widths and immediate ranges; memory to memory needs a register"
)
