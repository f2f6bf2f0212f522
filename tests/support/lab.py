"""A bench for routine tests: linked bytes in a machine, shard workspaces, lockstep calls."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

import unicorn.x86_const as ux

from emulator.effects import World
from emulator.lockstep import Lockstep, Result, registers_of
from emulator.machine import Machine
from emulator.memory import Region
from emulator.workspace import SECTIONS, workspace_regions
from firmware import limits
from firmware.layouts import node
from firmware.layouts.node import CLOCK, CORE, LEASE, NETWORK
from firmware.layouts.shard import ShardContext
from toolchain.link import Linker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.environment import Environment
    from toolchain.asm import Routine
    from toolchain.layout import Global, Struct
    from toolchain.link import Image

INPUT = 0x6A00_0000
INPUT_BYTES = 0x4000
"""Memory for one input; the pages before and behind it are not mapped."""


@functools.cache
def _linked(roots: tuple[Routine, ...], replaced: tuple[Routine, ...]) -> Image:
    keep = (CORE, CLOCK, LEASE, NETWORK, node.PLAN)
    return Linker(roots, SECTIONS, keep=keep, replace={one.name: one for one in replaced}).link()


class Lab:
    """Routines under test in one machine with `slots` shard workspaces.

    Args:
        routines: What to link; what they call comes along.
        slots: Workspaces.
        semantics: Let the Python semantics judge each instruction too. On by default; the
            environment variable SHARDFW_SEMANTICS=0 turns the default off.
        extra: Further memory (page tables, device windows).
        replaced: Routines that are linked in place of those of the same name.
    """

    def __init__(
        self,
        *routines: Routine,
        slots: int = 2,
        semantics: bool | None = None,
        extra: Sequence[Region] = (),
        replaced: tuple[Routine, ...] = (),
    ) -> None:
        if semantics is None:
            semantics = os.environ.get("SHARDFW_SEMANTICS", "1") != "0"
        self.image = _linked(routines, replaced)
        regions = [r for n in range(slots) for r in workspace_regions(n)]
        regions.append(Region("dma", limits.WINDOW_DMA, limits.DMA_BYTES, foreign=True))
        regions.append(Region("input", INPUT, INPUT_BYTES, foreign=True))
        regions += extra
        self.machine = Machine(self.image, tuple(regions))
        self.machine.engine.reg_write(ux.UC_X86_REG_GS_BASE, self.image.address(CORE))
        native = os.environ.get("SHARDFW_NATIVE", "1") != "0"
        self.lockstep = Lockstep(self.machine, semantics=semantics, native=native)

    def reset(self) -> None:
        """Put the memory back as it was at the start."""
        self.machine.reset()

    def shard(self, slot: int = 0, *, wipe: bool = True) -> int:
        """Return the address of a shard context, its state pages zeroed unless told otherwise."""
        base = limits.WORKSPACE_BASE + slot * limits.WORKSPACE_STRIDE
        address = base + limits.WORKSPACE_STATE
        if wipe:
            self.machine.write(address, bytes(ShardContext.SIZE))
        shard = self.view(ShardContext, address)
        shard.tx_base = base + limits.WORKSPACE_TX
        shard.ring_base = base + limits.WORKSPACE_RING
        shard.slot = slot
        return address

    def put(self, contents: bytes, *, first: bool = False) -> int:
        """Lay one input down so that nothing is mapped behind it, or before it; return its address.

        Whoever reads past that end faults, the model too. An input of no bytes has no byte that
        could be read.

        Args:
            contents: The input, up to INPUT_BYTES.
            first: Nothing is mapped before it, instead of behind it.
        """
        at = INPUT if first else INPUT + INPUT_BYTES - len(contents)
        if contents:
            self.machine.write(at, contents)
        elif first:
            at -= 1
        return at

    def view(self, struct: type[Struct], address: int) -> Any:
        """Return a live view of a struct in the machine's own memory."""
        return LiveWorld(self.machine).view(struct, address)

    def g(self, global_: Global[Any]) -> Any:
        """Return a live view of a node-wide struct."""
        return LiveWorld(self.machine).g(global_)

    def call(
        self, routine: Routine, environment: Environment | None = None, /, **inputs: int
    ) -> Result:
        """Call routine and model in lockstep."""
        return self.lockstep.call(routine, environment, **inputs)

    def free(self, routine: Routine, /, **inputs: int) -> dict[str, int]:
        """Call the routine alone, without hooks: where published vectors judge, and long inputs.

        Returns:
            The general registers and `flags` afterwards.
        """
        return self.machine.call(routine.name, registers_of(self.machine, routine, inputs))


class LiveWorld(World):
    """A world whose reads and stores go to the machine itself: for setting up and looking."""

    def __init__(self, machine: Machine) -> None:
        self._live = machine
        self._machine = machine
        self.effects = []
        self.ordered = ()

    def read(self, address: int, size: int) -> bytes:
        return self._live.read(address, size)

    def store(self, address: int, contents: bytes, what: str, field: object = None) -> None:
        self._live.write(address, contents)
