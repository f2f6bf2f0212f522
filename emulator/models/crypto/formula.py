"""Programs of field operations, read as the image holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.models.crypto.variants import variant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from emulator.effects import World

_MUL, _SQR, _ADD, _SUB, _COPY, _BOTH = range(1, 7)
_SIGNS = {_MUL: "*", _ADD: "+", _SUB: "-", _BOTH: "+-"}


def interpreter_model(
    name: str,
    module: str,
    work: Any,  # noqa: ANN401 - a global of the image
    leaves: Mapping[str, Callable[..., object]],
) -> Callable[..., None]:
    """Return the model of an interpreter of a module; `leaves` by sign."""

    def run(w: World, program: int) -> None:
        """One operation for each four bytes."""
        base = w.address(work)
        while w.u8(program):
            what, *places, last = w.read(program, 4)
            out, x, y = (base + 8 * place for place in (*places, last))
            if what == _COPY:
                w.write(out, w.read(x, 32))
            elif what == _SQR:
                for _ in range(last):
                    leaves["^"](w, out, x)
                    x = out
            else:
                leaves[_SIGNS[what]](w, out, x, y)
            program += 4

    run.__module__ = module
    return variant(name, run)
