"""Memory for reference models that run without a machine: addresses and constants of an image, own bytes."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from emulator.effects import World
from emulator.workspace import SECTIONS
from firmware.fleet.guard import fleet_guard
from firmware.fleet.ticket import ticket_spend, ticket_take
from firmware.fleet.turn import fleet_next, fleet_setup, fleet_tick
from toolchain.link import Linker

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolchain.link import Image

SCRATCH, SCRATCH_BYTES = 0x7000_0000, 0x4000
"""Memory for messages, and for a shard's context."""


ROUTINES = (fleet_next, fleet_tick, fleet_guard, fleet_setup, ticket_take, ticket_spend)


@functools.cache
def image() -> Image:
    """Return an image of the fleet, for addresses and constants."""
    return Linker(ROUTINES, SECTIONS).link()


class Memory(World):
    """A world that keeps its own bytes; nothing is recorded.

    Args:
        made: Where addresses and constants come from; by default the image of the fleet.
    """

    def __init__(self, made: Image | None = None) -> None:
        self.image = made or image()
        self._sections = []
        for section in self.image.sections:
            raw = bytearray(section.size)
            raw[: len(section.contents)] = section.contents
            self._sections.append((section.address, section.address + section.size, raw))
        self._sections.sort(key=lambda one: one[0], reverse=True)  # what changes comes first
        self._sections.insert(0, (SCRATCH, SCRATCH + SCRATCH_BYTES, bytearray(SCRATCH_BYTES)))
        self.now: Callable[[], int] = lambda: 0

    def _place(self, address: int, size: int) -> tuple[bytearray, int]:
        for low, high, raw in self._sections:
            if low <= address and address + size <= high:
                return raw, address - low
        raise LookupError(f"no memory at {address:#x}")

    def read(self, address: int, size: int) -> bytes:
        raw, at = self._place(address, size)
        return bytes(raw[at : at + size])

    def store(self, address: int, contents: bytes, what: str, field: object = None) -> None:
        raw, at = self._place(address, len(contents))
        raw[at : at + len(contents)] = contents

    def address(self, thing: Any) -> int:
        return self.image.address(thing)

    def g(self, global_: Any) -> Any:
        return self.view(global_.struct, self.image.address(global_))

    def rdtsc(self) -> int:
        return self.now()

    def _event(self, *key: object) -> None:
        pass

    def enter(self, name: str, arguments: dict[str, int]) -> None:
        pass

    def leave(self, name: str, outputs: tuple[int | None, ...], line: str) -> None:
        pass
