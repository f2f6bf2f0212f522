"""The processor scales by powers of two up to 8."""

from toolchain.asm import RBX, RCX, Region, mem8

MEMORY = Region("memory", "somewhere")


def refused() -> None:
    mem8(RBX, index=RCX, scale=3, ref=MEMORY)


MESSAGE = "scale 3 does not exist; use 1, 2, 4 or 8"
