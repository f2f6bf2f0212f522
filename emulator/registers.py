"""Registers of a Unicorn engine, many at once: one call of its library with prepared arguments."""

from __future__ import annotations

import ctypes

import unicorn as uc
import unicorn.x86_const as ux
from unicorn.unicorn_py3.unicorn import uclib

GPR = (
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
    "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
)  # fmt: skip
UC_GPR = {n: getattr(ux, f"UC_X86_REG_{n.upper()}") for n in GPR}


class Snapshot:
    """Registers at once: 16 general-purpose ones in encoding order, RIP, RFLAGS; or XMM0-15.

    One call of the library with prepared arguments: the binding's own `reg_read` costs more than
    the instruction that it looks at.
    """

    def __init__(self, engine: uc.Uc) -> None:
        library = ctypes.PyDLL(uclib._name)  # keeps the interpreter lock: the call is that short
        self._read = library.uc_reg_read_batch
        self._read.restype = ctypes.c_int
        names = [*UC_GPR.values(), ux.UC_X86_REG_RIP, ux.UC_X86_REG_RFLAGS]
        values = (ctypes.c_uint64 * len(names))()
        self._general = self._arguments(engine, names, values)
        halves = (ctypes.c_uint64 * 32)()
        vectors = [ux.UC_X86_REG_XMM0 + n for n in range(16)]
        self._vector = self._arguments(engine, vectors, halves)
        # A view makes its list in half the time of a slice of the array.
        self._values = memoryview(values).cast("B").cast("Q")
        self._halves = memoryview(halves).cast("B").cast("Q")

    def _arguments(
        self, engine: uc.Uc, names: list[int], values: ctypes.Array[ctypes.c_uint64]
    ) -> tuple[object, ...]:
        count, start = len(names), ctypes.addressof(values)
        each = ctypes.sizeof(values) // count
        ids = (ctypes.c_int * count)(*names)
        places = (ctypes.c_void_p * count)(*(start + each * n for n in range(count)))
        return engine._uch, ids, places, count

    def take(self) -> list[int]:
        """Return the registers as they are now."""
        self._read(*self._general)
        return self._values.tolist()

    def vectors(self) -> list[int]:
        """Return XMM0-15 as 32 quadwords, the low half of each first."""
        self._read(*self._vector)
        return self._halves.tolist()


class RegisterWriter:
    """Sets some registers at once, for the same reason as `Snapshot`.

    Args:
        engine: whose registers.
        registers: of the library, in the order of the values.
    """

    def __init__(self, engine: uc.Uc, registers: tuple[int, ...]) -> None:
        library = ctypes.PyDLL(uclib._name)  # keeps the interpreter lock: the call is that short
        self._write = library.uc_reg_write_batch
        self._write.restype = ctypes.c_int
        count = len(registers)
        self._values = (ctypes.c_uint64 * count)()
        start = ctypes.addressof(self._values)
        ids = (ctypes.c_int * count)(*registers)
        places = (ctypes.c_void_p * count)(*(start + 8 * n for n in range(count)))
        self._arguments = engine._uch, ids, places, count

    def put(self, *values: int) -> None:
        """Set the registers."""
        self._values[:] = list(values)
        self._write(*self._arguments)
