"""A promised register gets a value."""

from toolchain.asm import RAX, Asm, Out, routine


@routine(outputs=[Out(RAX, "the answer")], source="none")  # refused
def broken(a: Asm) -> None:
    """Break one rule."""
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = "{here}: broken: promises rax as output but never sets it; set it"
