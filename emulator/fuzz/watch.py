"""Which blocks of chosen routines run, from one hook each, and how many instructions that is."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from typing import TYPE_CHECKING

import iced_x86 as ix
import unicorn as uc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from emulator.machine import Machine
    from toolchain.link.image import Placed

GAP = 64
"""Filler between routines that is no reason for a hook of its own."""


PATIENCE_S = 30.0
"""Longest run, what is not watched included: cryptography takes milliseconds."""


class BudgetError(Exception):
    """The code runs longer than it may."""


class Watch:
    """Watches the routines that `chosen` picks; what they call beside them runs without hooks.

    Args:
        machine: Whose code.
        chosen: Tells whether a routine is watched.
        budget: Instructions of theirs that one run may take.

    Attributes:
        hooks: Handles of its hooks.
        places: Blocks of the watched routines, by routine and offset, as the decoder sees them.
    """

    def __init__(self, machine: Machine, chosen: Callable[[Placed], bool], budget: int) -> None:
        self._machine, self._budget = machine, budget
        self._ran: list[tuple[int, int]] = []
        self._counts: dict[tuple[int, int], int] = {}
        self._since = 0.0
        self._expired = False
        watched = [placed for placed in machine.image.routines() if chosen(placed)]
        self.places = {
            (placed.name, start - placed.address)
            for placed in watched
            for start in block_starts(machine, placed)
        }
        ran, append = self._ran, self._ran.append

        def visit(engine: uc.Uc, address: int, size: int, _data: object) -> None:
            append((address, size))
            # A block has one instruction at least, so this ends every run that does not end.
            if len(ran) > budget:
                engine.emu_stop()

        self.hooks = [
            machine.hook(uc.UC_HOOK_BLOCK, visit, start, end - 1) for start, end in _runs(watched)
        ]

    def begin(self) -> None:
        """Forget the run before."""
        self._ran.clear()
        self._expired = False
        self._since = time.monotonic()

    def end(self) -> tuple[frozenset[tuple[int, int]], int]:
        """Return the edges of the run, from block to block, and its instructions.

        Raises:
            BudgetError: They were too many.
        """
        self._since, ran = 0.0, self._ran
        if self._expired:
            raise BudgetError(f"still running after {PATIENCE_S:.0f} s")
        count = sum(map(self._count, ran))
        if count > self._budget or len(ran) > self._budget:
            where = self._machine.where(ran[-1][0])
            raise BudgetError(f"{where}: still running after {self._budget} instructions")
        starts = [address for address, _ in ran]
        return frozenset(zip(itertools.chain((0,), starts), starts, strict=False)), count

    def place(self, address: int) -> tuple[str, int]:
        """Return routine and offset of a block."""
        placed = self._machine.image.symbol_at(address)
        return ("", address) if placed is None else (placed.name, address - placed.address)

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """End runs that hang where no block is watched; Unicorn's own clock costs more than a run."""
        over = threading.Event()

        def look() -> None:
            while not over.wait(1.0):
                since = self._since
                if since and time.monotonic() - since > PATIENCE_S:
                    self._expired = True
                    self._machine.engine.emu_stop()

        guard = threading.Thread(target=look, daemon=True)
        guard.start()
        try:
            yield
        finally:
            over.set()
            guard.join()

    def _count(self, block: tuple[int, int]) -> int:
        known = self._counts.get(block)
        if known is None:
            address, size = block
            code = self._machine.read(address, size)
            known = self._counts[block] = sum(1 for _ in ix.Decoder(64, code, ip=address))
        return known


def block_starts(machine: Machine, placed: Placed) -> set[int]:
    """Return the first address of each block of a routine: its entry, and what follows a branch."""
    code = machine.read(placed.address, placed.size)
    starts, ends = {placed.address}, placed.address + placed.size
    for ins in ix.Decoder(64, code, ip=placed.address):
        if ins.flow_control == ix.FlowControl.NEXT:
            continue
        if ins.op0_kind == ix.OpKind.NEAR_BRANCH64:
            starts.add(ins.near_branch64)
        starts.add(ins.next_ip)
    return {start for start in starts if placed.address <= start < ends}


def _runs(watched: list[Placed]) -> list[tuple[int, int]]:
    """Return where watched routines lie, neighbours together."""
    runs: list[tuple[int, int]] = []
    for placed in watched:
        start, end = placed.address, placed.address + placed.size
        if runs and start - runs[-1][1] < GAP:
            runs[-1] = runs[-1][0], end
        else:
            runs.append((start, end))
    return runs
