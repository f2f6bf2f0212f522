"""AH cannot be named beside a register that needs REX."""

from toolchain.asm import AH, R8, R8B, RAX, Asm, routine


@routine(clobbers=[RAX, R8], source="none")
def broken(a: Asm) -> None:
    """Break one rule."""
    a.mov(AH, R8B)  # refused
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = (
    "{here}: broken: "
    "mov ah, r8b has no encoding in 64-bit code; "
    "use AL, BL, CL or DL; AH, BH, CH and DH do not go with REX registers"
)
