"""A machine whose DSDT does not tell how to switch it off."""

from toolchain.asm import CF, EAX, ECX, RSI, Asm, In, Out, Reg32, Reg64, routine


@routine(
    inputs=[In(RSI, int, "the DSDT"), In(ECX, int, "its bytes, at least 50")],
    outputs=[Out(CF, "1 = it does not tell"), Out(EAX, "0")],
    source="firmware/docs/stop.md#off",
)
def acpi_soft_off(a: Asm, table: Reg64, length: Reg32) -> None:
    """Tell nothing."""
    a.xor(EAX, EAX)
    a.stc()
    a.ret()
