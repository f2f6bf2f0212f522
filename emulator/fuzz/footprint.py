"""The memory of a machine around one run: put back before it, compared outside of what may change."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from emulator.machine import Machine
    from emulator.memory import Region

_C = ctypes.CDLL(None)
_C.memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class OutOfFootprintError(Exception):
    """Code stored where it must not; the message says where and what."""


class Footprint:
    """The state of a machine to which it returns, and the places where code may store.

    Args:
        machine: As it is now.
        allowed: Address and size of each place. The stack is one anyway.
    """

    def __init__(self, machine: Machine, allowed: Iterable[tuple[int, int]]) -> None:
        self._machine = machine
        self._kept = {
            r.address: ctypes.create_string_buffer(r.buffer[:], r.size) for r in _of(machine)
        }
        self._allowed: list[tuple[Region, int, int]] = []
        for address, size in allowed:
            region, offset, _ = machine.page(address)
            self._allowed.append((region, offset + address % 4096, size))
        self._forbidden = [
            (region, start, end - start)
            for region in _of(machine)
            for start, end in self._gaps(region)
        ]

    def _gaps(self, region: Region) -> list[tuple[int, int]]:
        """Return what lies between the allowed places of a region."""
        at, gaps = 0, []
        mine = sorted((start, start + size) for one, start, size in self._allowed if one is region)
        for start, end in [*mine, (region.size, region.size)]:
            if start > at:
                gaps.append((at, start))
            at = max(at, end)
        return gaps

    def restore(self) -> None:
        """Put back what may have changed."""
        for region, start, size in self._allowed:
            ctypes.memmove(region.pointer + start, self._at(region, start), size)

    def restore_all(self) -> None:
        """Put everything back, after a store where there must be none."""
        for region in _of(self._machine):
            ctypes.memmove(region.pointer, self._at(region, 0), region.size)

    def judge(self) -> None:
        """Compare everything else.

        Raises:
            OutOfFootprintError: Some of it changed.
        """
        for region, start, size in self._forbidden:
            if _C.memcmp(region.pointer + start, self._at(region, start), size):
                before, after = self._kept[region.address].raw, region.buffer[:]
                at = next(n for n in range(start, start + size) if before[n] != after[n])
                where = self._machine.where(region.address + at)
                raise OutOfFootprintError(
                    f"{region.name}: {where} was {before[at]:#04x} and is {after[at]:#04x}, "
                    "outside of what may change"
                )

    def _at(self, region: Region, offset: int) -> int:
        return ctypes.addressof(self._kept[region.address]) + offset


def _of(machine: Machine) -> list[Region]:
    return [region for region in machine.regions if region.writable and region.name != "stack"]
