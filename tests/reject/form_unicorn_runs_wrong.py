"""An instruction that the emulator runs wrong could not be proved."""

from toolchain.asm import RAX, RCX, Asm, In, Out, Reg64, routine


@routine(inputs=[In(RCX, int, "a value")], outputs=[Out(RAX, "its lowest bit")], source="none")
def broken(a: Asm, value: Reg64) -> None:
    """Break one rule."""
    a.blsi(RAX, value)  # refused
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = (
    "{here}: broken: "
    "blsi in this form cannot be proved, Unicorn runs it wrong: CF is inverted; "
    "use other instructions"
)
