"""Starting the machine over."""

from toolchain.asm import AL, DX, EDX, Asm, routine

RESET_CONTROL, KEYBOARD_COMMAND = 0xCF9, 0x64


@routine(noreturn=True, source="Intel ICH9 data sheet, 13.7.5; 8042 command FEh")
def node_reset(a: Asm) -> None:
    """Reset the machine by the chipset, else by the keyboard controller, else by the watchdog."""
    stop = a.label("stop")
    a.mov(EDX, RESET_CONTROL)
    a.mov(AL, 0x02)
    a.out(DX, AL)
    a.mov(AL, 0x06)
    a.out(DX, AL)
    a.mov(AL, 0xFE)
    a.out(KEYBOARD_COMMAND, AL)
    a.place(stop)
    a.cli()
    a.hlt()
    a.jmp(stop)
