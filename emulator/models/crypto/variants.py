"""One model for the variants of a routine that differ in their instructions alone."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from emulator.effects import model

if TYPE_CHECKING:
    from collections.abc import Callable


def variant(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Register a function as the model of a routine of its module, under the routine's name.

    Args:
        name: The routine's name.
        function: Takes the world and the routine's inputs.
    """

    @functools.wraps(function)
    def named(*args: int, **inputs: int) -> Any:  # noqa: ANN401 - the outputs
        return function(*args, **inputs)

    named.__name__ = name
    return model(named)
