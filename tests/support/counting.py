"""Instructions that a machine runs, counted by blocks: quick enough for millions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import iced_x86 as ix
import unicorn as uc

if TYPE_CHECKING:
    from emulator.machine import Machine


class Counter:
    """Counts from its making on; a block that faults in its middle counts whole.

    Attributes:
        instructions: How many so far.
    """

    def __init__(self, machine: Machine) -> None:
        self.instructions = 0
        self._sizes: dict[int, int] = {}
        machine.engine.hook_add(uc.UC_HOOK_BLOCK, self._block)

    def _block(self, engine: Any, address: int, size: int, _data: object) -> None:
        count = self._sizes.get(address)
        if count is None:
            code = bytes(engine.mem_read(address, size))
            count = self._sizes[address] = sum(1 for _ in ix.Decoder(64, code, ip=address))
        self.instructions += count
