"""A call through a pointer names whom it may reach."""

from toolchain.asm import RAX, Asm, In, Reg64, routine


@routine(inputs=[In(RAX, int, "a routine")], source="none")
def broken(a: Asm, pointer: Reg64) -> None:
    """Break one rule."""
    a.call_indirect(pointer)  # refused
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = (
    "{here}: broken: "
    "calls through a pointer without naming who it may reach; "
    "list them in `indirect` of the contract"
)
