"""What a callee keeps secret is secret here too."""

from toolchain.asm import RAX, RSI, Asm, In, Out, routine
from toolchain.layout import Struct, u64


class Keys(Struct):
    """A key."""

    SIZE = 8
    key = u64(0, "secret")


@routine(
    inputs=[In(RSI, Keys, "a key")],
    clobbers=[RAX],
    reads=[Keys.key],
    writes=[Keys.key],
    secret=[Keys.key],
    source="none",
)
def callee(a: Asm, keys: Keys) -> None:
    """Change a key."""
    a.mov(RAX, keys.key)
    a.not_(RAX)
    a.mov(keys.key, RAX)
    a.ret()


@routine(  # refused
    outputs=[Out(RAX, "a key")],
    inputs=[In(RSI, Keys, "a key")],
    reads=[Keys.key],
    calls=[callee],
    secret=[RAX],
    source="none",
)
def broken(a: Asm, keys: Keys) -> None:
    """Break one rule."""
    a.call(callee)
    a.mov(RAX, keys.key)
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = (
    "{here}: broken: reads Keys.key, which callee keeps secret; list it in `secret` of broken too"
)
