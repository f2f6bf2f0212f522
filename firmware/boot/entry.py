"""The first 64-bit code."""

from firmware.limits import STACK_TOP
from toolchain.asm import AL, DX, EAX, EDX, ESP, Asm, routine


@routine(clobbers=[EAX, EDX], noreturn=True, source="firmware/docs/boot.md#entry")
def node_entry(a: Asm) -> None:
    """Test."""
    a.mov(ESP, STACK_TOP)
    for c in "hello 64\n":
        a.mov(EDX, 0x3F8)
        a.mov(EAX, ord(c))
        a.out(DX, AL)
    top = a.label("top")
    a.place(top)
    a.cli()
    a.hlt()
    a.jmp(top)
