"""RSP has no encoding as an index."""

from toolchain.asm import RBX, RSP, Region, mem8

MEMORY = Region("memory", "somewhere")


def refused() -> None:
    mem8(RBX, index=RSP, ref=MEMORY)


MESSAGE = "RSP cannot be an index; swap base and index, or use another register"
