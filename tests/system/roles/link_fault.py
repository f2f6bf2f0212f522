"""A link whose code faults when the server tells its version: takes the place of `bus_version`."""

from toolchain.asm import EAX, ECX, RAX, RSI, Asm, In, Out, Reg32, Reg64, Region, mem32, routine

NOWHERE = Region("address 0", "mapped by nobody")


@routine(
    inputs=[In(RSI, int, "text"), In(ECX, int, "its bytes")],
    outputs=[Out(EAX, "never")],
    reads=[NOWHERE],
    source="tests/system/test_bus.py",
)
def bus_version(a: Asm, text: Reg64, length: Reg32) -> None:
    """Read where nothing is."""
    a.xor(EAX, EAX)
    a.mov(EAX, mem32(RAX, ref=NOWHERE))
    a.ret()
