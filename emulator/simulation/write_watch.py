"""Who stores into which workspace: one shard's code must never touch another's (invariant I1)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import unicorn as uc
import unicorn.x86_const as ux

from firmware.layouts.node import CORE, CoreState
from firmware.limits import PAGE, WORKSPACE_BASE, WORKSPACE_STRIDE

if TYPE_CHECKING:
    from emulator.simulation.node import ImageNode


class CrossWriteError(AssertionError):
    """A store into a foreign workspace; the text names the code and both shards."""


class WriteWatch:
    """Judges every store into a workspace while it is on; costs about a microsecond for each.

    While a shard's code runs, only its own workspace may change. Node code (the receive path)
    stores into the workspaces of the shards that a frame came for; the set is in `by_node`.

    Args:
        node: watched from here on, until `stop`.
    """

    def __init__(self, node: ImageNode) -> None:
        self.stores = 0
        self.by_node: set[int] = set()
        self._machine = node.machine
        region, offset, _ = self._machine.page(node.image.address(CORE))
        at = offset + node.image.address(CORE) % PAGE + CoreState.current_shard.offset
        read = struct.Struct("<Q").unpack_from
        buffer = region.buffer

        def visit(
            engine: uc.Uc, _kind: int, address: int, _size: int, _value: int, _data: object
        ) -> None:
            self.stores += 1
            (running,) = read(buffer, at)
            slot = (address - WORKSPACE_BASE) // WORKSPACE_STRIDE
            if running == 0:
                self.by_node.add(slot)
            elif (running - WORKSPACE_BASE) // WORKSPACE_STRIDE != slot:
                where = node.machine.where(engine.reg_read(ux.UC_X86_REG_RIP))
                raise CrossWriteError(
                    f"{where}: code of the shard at {running:#x} stored to {address:#x}, "
                    f"in the workspace of slot {slot}"
                )

        end = WORKSPACE_BASE + node.facts.shards * WORKSPACE_STRIDE - 1
        self._handle = node.machine.hook(uc.UC_HOOK_MEM_WRITE, visit, WORKSPACE_BASE, end)

    def take_node_stores(self) -> set[int]:
        """Return the slots that node code stored into since the last call."""
        found, self.by_node = self.by_node, set()
        return found

    def stop(self) -> None:
        """Watch no longer."""
        self._machine.unhook(self._handle)
        self._machine.engine.ctl_flush_tb()
