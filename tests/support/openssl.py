"""Functions of libcrypto, by address for the stopwatch's loop, and called here to set up."""

from __future__ import annotations

import ctypes
import ctypes.util

Argument = int | bytes | None


class OpenSsl:
    """The libcrypto of this machine.

    Attributes:
        version: What it calls itself.
    """

    def __init__(self) -> None:
        name = ctypes.util.find_library("crypto")
        if not name:
            raise RuntimeError("libcrypto is missing: apt-get install libssl3")
        self._crypto = ctypes.CDLL(name)
        self._crypto.OpenSSL_version.restype = ctypes.c_char_p
        self.version = self._crypto.OpenSSL_version(0).decode().rsplit(" ", 3)[0]

    def address(self, name: str) -> int:
        """Return where a function is."""
        found = ctypes.cast(getattr(self._crypto, name), ctypes.c_void_p).value
        if found is None:
            raise RuntimeError(f"libcrypto has no {name}")
        return found

    def call(self, name: str, *arguments: Argument) -> int:
        """Call a function that returns a pointer, or 1; fail when it returns nothing."""
        function = getattr(self._crypto, name)
        function.restype = ctypes.c_void_p
        result: int | None = function(*_shown(arguments))
        if not result:
            raise RuntimeError(f"{name} of libcrypto failed")
        return result

    def done(self, name: str, *arguments: Argument) -> None:
        """Call a function that returns 1 for success, and something else for a failure."""
        function = getattr(self._crypto, name)
        function.restype = ctypes.c_int
        if function(*_shown(arguments)) != 1:
            raise RuntimeError(f"{name} of libcrypto failed")


def _shown(arguments: tuple[Argument, ...]) -> list[bytes | ctypes.c_void_p]:
    return [a if isinstance(a, bytes) else ctypes.c_void_p(a) for a in arguments]
