"""Who stores into which workspace: one shard's code must never touch another's (invariant I1)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import unicorn as uc
import unicorn.x86_const as ux

from firmware.layouts.node import CORE, LEASE, CoreState
from firmware.limits import PAGE, WORKSPACE_BASE, WORKSPACE_STRIDE

if TYPE_CHECKING:
    from emulator.simulation.node import ImageNode
    from emulator.simulation.world import Attachment


def _port(frame: bytes) -> int:
    """Return the TCP or UDP port that a frame is for, or -1."""
    at = 14 + 4 * (frame[14] & 15) + 2 if len(frame) > 14 else 0
    if len(frame) < at + 2 or frame[12:14] != b"\x08\x00":
        return -1
    return int.from_bytes(frame[at : at + 2], "big")


class CrossWriteError(AssertionError):
    """A store into a foreign workspace; the text names the code and both shards."""


class WriteWatch:
    """Judges every store into a workspace while it is on; costs about a microsecond for each.

    While a shard's code runs, only its own workspace may change. Node code (the receive path) may
    store into the workspaces of the shards that a frame came for, and into all of them when the
    lease expires; `judge`, put into `Attachment.after_turn`, compares.

    Args:
        node: watched from here on, until `stop`.
    """

    def __init__(self, node: ImageNode) -> None:
        self.stores = 0
        self.by_node: set[int] = set()
        self._node = node
        self._machine = node.machine
        self._ports = [0] * node.facts.shards
        self._frames: list[bytes] = []
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

    def judge(self, _attachment: Attachment | None = None) -> None:
        """Compare the workspaces that node code stored into with the frames of the turn.

        Raises:
            CrossWriteError: One of them belongs to a shard that no frame was for.
        """
        found, self.by_node = self.by_node, set()
        node = self._node
        now = [node.shard(slot).tcp.local_port for slot in range(node.facts.shards)]
        ports = {_port(frame) for frame in self._frames + node.turn_received}
        allowed = {
            slot for slot, both in enumerate(zip(now, self._ports, strict=True)) if ports & {*both}
        }
        self._ports = now
        # The budget of a turn may leave frames for the next.
        self._frames = node.turn_received
        foreign = found - allowed
        if foreign and not node.g(LEASE).expired:
            raise CrossWriteError(
                f"node code stored into the workspaces of slots {sorted(foreign)}, "
                f"but the frames of this turn were for ports {sorted(ports)}"
            )

    def stop(self) -> None:
        """Watch no longer."""
        self._machine.unhook(self._handle)
        self._machine.engine.ctl_flush_tb()
