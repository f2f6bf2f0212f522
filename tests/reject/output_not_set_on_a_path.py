"""A promised register gets a value on every path."""

from toolchain.asm import EAX, RAX, RBX, Asm, In, Out, Reg64, Z, routine


@routine(inputs=[In(RBX, int, "a value")], outputs=[Out(RAX, "0")], source="none")
def broken(a: Asm, value: Reg64) -> None:
    """Break one rule."""
    a.test(value, value)
    with a.if_(Z):
        a.xor(EAX, EAX)
    a.ret()  # refused


def refused() -> None:
    broken.lines()


MESSAGE = "{here}: broken: returns without having set rax; set the output on every path"
