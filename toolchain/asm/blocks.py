"""The blocks of `with`: each tells the assembler that it was entered, and places its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from toolchain.asm.assembler import Asm, Label


class If:
    """The block of `with a.if_(cc):`; `a.else_()` after it needs the object's label."""

    def __init__(self, asm: Asm, end: Label) -> None:
        self._asm, self._end = asm, end

    def __bool__(self) -> bool:
        raise TypeError("a block has no truth value at build time; write `with a.if_(...):`")

    def __enter__(self) -> None:
        self._asm.opened(self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if kind is None:
            self._asm.place(self._end)
            self._asm.closed_if = (len(self._asm.lines), self._end)


class Loop:
    """The block of `with a.loop() as top:`; repeat with `a.again(cc, top)`, leave with `top.out`."""

    def __init__(self, asm: Asm, top: Label, out: Label) -> None:
        self._asm, self.top, self.out = asm, top, out

    def __bool__(self) -> bool:
        raise TypeError("a block has no truth value at build time; write `with a.loop() as top:`")

    def __enter__(self) -> Loop:
        self._asm.opened(self)
        self._asm.place(self.top)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if kind is None:
            self._asm.place(self.out)


class Block:
    """The block of `with a.block() as out:`; `a.leave(cc, out)` jumps past its end."""

    def __init__(self, asm: Asm, out: Label) -> None:
        self._asm, self._out = asm, out

    def __bool__(self) -> bool:
        raise TypeError("a block has no truth value at build time; write `with a.block() as out:`")

    def __enter__(self) -> Label:
        self._asm.opened(self)
        return self._out

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if kind is None:
            self._asm.place(self._out)
