"""The machine's own memory as structs: for setting things up and looking at them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.effects import World

if TYPE_CHECKING:
    from emulator.machine import Machine
    from toolchain.layout.fields import Field


class LiveWorld(World):
    """A world whose reads and stores go to the machine itself."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._live = machine

    def read(self, address: int, size: int) -> bytes:
        """Return bytes of memory."""
        return self._live.read(address, size)

    def store(self, address: int, contents: bytes, what: str, field: Field | None = None) -> None:
        """Set bytes of memory; nothing is recorded."""
        self._live.write(address, contents)
