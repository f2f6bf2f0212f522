"""A main routine that runs out of stack: the double fault must find a stack of its own."""

from firmware.limits import STACK_BYTES, STACK_TOP
from toolchain.asm import ESP, Asm, routine


@routine(noreturn=True, source="decision 6")
def node_main(a: Asm) -> None:
    """Push below the last page of the stack."""
    here = a.label("here")
    a.mov(ESP, STACK_TOP - STACK_BYTES + 8)
    a.push(0)
    a.push(0)
    a.place(here)
    a.hlt()
    a.jmp(here)
