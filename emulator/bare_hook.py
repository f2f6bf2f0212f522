"""Hooks of every instruction or access: the library calls the callback without the binding between.

The binding wraps each callback in two functions, which cost more than what a judge does in them.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import unicorn as uc
from unicorn.unicorn_py3.unicorn import (
    HOOK_CODE_CFUNC,
    HOOK_MEM_ACCESS_CFUNC,
    uc_hook_h,
    uclib,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_TYPES = {
    uc.UC_HOOK_CODE: HOOK_CODE_CFUNC,
    uc.UC_HOOK_MEM_READ: HOOK_MEM_ACCESS_CFUNC,
    uc.UC_HOOK_MEM_WRITE: HOOK_MEM_ACCESS_CFUNC,
}


class BareHook:
    """A callback that may be added to an engine many times.

    Args:
        kind: `UC_HOOK_CODE`, `UC_HOOK_MEM_READ` or `UC_HOOK_MEM_WRITE`.
        callback: Takes what the library gives it, the engine's pointer first. It may not raise:
            nobody would be told. `Machine.stop_with` ends the run with an error.
    """

    def __init__(self, kind: int, callback: Callable[..., None]) -> None:
        self._kind = kind
        self._function: Any = ctypes.cast(_TYPES[kind](callback), _TYPES[kind])

    def add(self, engine: uc.Uc, begin: int = 1, end: int = 0) -> int:
        """Add the hook for a range of addresses; return its handle for `hook_del`.

        Raises:
            UcError: The library refuses.
        """
        handle = uc_hook_h()
        status = uclib.uc_hook_add(
            engine._uch, ctypes.byref(handle), self._kind, self._function, None, begin, end
        )
        if status != uc.UC_ERR_OK:
            raise uc.UcError(status)
        engine._callbacks[handle.value] = self._function  # `hook_del` forgets it
        return int(handle.value)
