"""A label of the include file needs its data in the image."""

from tests.support.program import ENGINE, PLAN
from toolchain.asm import Asm, routine
from toolchain.layout.render import Alias, nasm_include
from toolchain.link import Linker


@routine(source="none")
def lonely(a: Asm) -> None:
    """Use no data."""
    a.ret()


def refused() -> None:
    nasm_include((), (Alias("engine_start", ENGINE),), Linker((lonely,), PLAN).link())


MESSAGE = (
    "engine_start needs engine, which the image does not hold; link a routine that uses engine"
)
