"""A main routine that hangs: only the watchdog helps."""

from toolchain.asm import Asm, routine


@routine(noreturn=True, source="firmware/docs/boot.md#watchdog")
def node_main(a: Asm) -> None:
    """Halt with interrupts off."""
    here = a.label("here")
    a.place(here)
    a.cli()
    a.hlt()
    a.jmp(here)
