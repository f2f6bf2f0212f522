"""A displacement has 32 bits."""

from toolchain.asm import RBX, Region, mem8

MEMORY = Region("memory", "somewhere")


def refused() -> None:
    mem8(RBX, 0x1_0000_0000, ref=MEMORY)


MESSAGE = "displacement 0x100000000 needs more than 32 bits; load it into a register"
