"""Who stores into which workspace: one shard's code must never touch another's (invariant I1)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import unicorn.x86_const as ux

from emulator.simulation.store_judge import StoreJudge
from firmware.layouts.nic import RX_BUFFERS_MAX
from firmware.layouts.node import CORE, LEASE, CoreState
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import TcpContext
from firmware.limits import PAGE, WORKSPACE_BASE, WORKSPACE_STRIDE
from firmware.node.step import FRAMES_PER_TURN

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
    """Judges every store into a workspace while it is on; cheap enough for every turn.

    While a shard's code runs, only its own workspace may change. Node code (the receive path) may
    store into the workspaces of the shards that a frame came for, and into all of them when the
    lease expires; `judge`, put into `Attachment.after_turn`, compares.

    Args:
        node: watched from here on, until `stop`.
    """

    def __init__(self, node: ImageNode) -> None:
        self.by_node: set[int] = set()
        self._node = node
        self._ports = [0] * node.facts.shards
        self._frames: deque[list[bytes]] = deque(maxlen=RX_BUFFERS_MAX // FRAMES_PER_TURN)
        self._tcp_ports = [
            node.part(slot, ShardContext.tcp.offset + TcpContext.local_port.offset, 2)
            for slot in range(node.facts.shards)
        ]
        machine = node.machine
        core = node.image.address(CORE)
        region, offset, _ = machine.page(core)
        running = region.pointer + offset + core % PAGE + CoreState.current_shard.offset
        machine.retranslate()
        self._judge = StoreJudge(machine.engine, node.facts.shards, running, self._breach)

    @property
    def stores(self) -> int:
        """Stores judged so far."""
        return self._judge.stores

    def _breach(self, address: int, running: int) -> None:
        machine = self._node.machine
        slot = (address - WORKSPACE_BASE) // WORKSPACE_STRIDE
        where = machine.where(machine.engine.reg_read(ux.UC_X86_REG_RIP))
        machine.stop_with(
            CrossWriteError(
                f"{where}: code of the shard at {running:#x} stored to {address:#x}, "
                f"in the workspace of slot {slot}"
            )
        )

    def judge(self, _attachment: Attachment | None = None) -> None:
        """Look at what node code stored in the turn, and at whom its frames were for.

        Raises:
            CrossWriteError: Node code stored into a workspace that no frame was for. What a shard's
                code stores into a foreign workspace is raised by the turn itself.
        """
        found, self.by_node = self.by_node | self._judge.take_by_node(), set()
        node = self._node
        now = [int.from_bytes(port, "little") for port in self._tcp_ports]
        # The budget of a turn may leave frames for later ones, until a full ring is empty.
        self._frames.append(node.turn_received)
        ports = {_port(frame) for frames in self._frames for frame in frames}
        before, self._ports = self._ports, now
        if not found:
            return
        allowed = {
            slot for slot, both in enumerate(zip(now, before, strict=True)) if ports & {*both}
        }
        foreign = found - allowed
        if foreign and not node.g(LEASE).expired:
            raise CrossWriteError(
                f"node code stored into the workspaces of slots {sorted(foreign)}, "
                f"but the frames of this turn were for ports {sorted(ports)}"
            )

    def stop(self) -> None:
        """Watch no longer."""
        self._judge.stop()
        self._node.machine.engine.ctl_flush_tb()
