"""The contract lists no register that does not change."""

from toolchain.asm import RDX, Asm, routine


@routine(clobbers=[RDX], source="none")  # refused
def broken(a: Asm) -> None:
    """Break one rule."""
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = "{here}: broken: lists rdx as clobbered but never writes it; remove it"
