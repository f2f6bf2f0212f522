"""A displacement is sign-extended in 64-bit code: 0xFEE00030 would be another address."""

from toolchain.asm import EAX, RAX, Asm, Out, Region, mem32, routine

MEMORY = Region("memory", "somewhere")


@routine(outputs=[Out(RAX, "a register of a device")], reads=[MEMORY], source="none")
def broken(a: Asm) -> None:
    """Break one rule."""
    a.mov(EAX, mem32(None, 0xFEE00030, ref=MEMORY))  # refused
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = (
    "{here}: broken: "
    "mov eax, dword [0xfee00030] has no encoding in 64-bit code; "
    "load the address into a register first"
)
