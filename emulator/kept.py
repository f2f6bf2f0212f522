"""Which registers a routine must leave as they were, and whether it did."""

from __future__ import annotations

import functools
from operator import itemgetter
from typing import TYPE_CHECKING

from emulator.registers import GPR

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toolchain.asm.routine import Routine

    _Taker = Callable[[Sequence[int]], object]

_NAMES = (*GPR, *(f"xmm{n}" for n in range(16)))


def changed(
    routine: Routine,
    before: tuple[Sequence[int], Sequence[int]],
    after: tuple[Sequence[int], Sequence[int]],
) -> str:
    """Tell of the first register that the routine should have kept; nothing when all are kept.

    Args:
        routine: Whose contract says what it may change.
        before: At its entry: the 16 general registers or more, and the 32 halves of XMM0-15.
        after: The same behind its return.
    """
    general, halves = _takers(routine)
    if general(before[0]) == general(after[0]) and halves(before[1]) == halves(after[1]):
        return ""
    allowed = _allowed(routine)
    pairs = zip(_NAMES, _all(*before), _all(*after), strict=True)
    name, old, new = next(row for row in pairs if row[1] != row[2] and row[0] not in allowed)
    return f"{name} changed from {old:#x} to {new:#x}"


def _allowed(routine: Routine) -> set[str]:
    c = routine.contract
    return {r.full for r in c.clobbers} | {o.reg.full for o in c.outputs} | {"rsp"}


@functools.cache
def _takers(routine: Routine) -> tuple[_Taker, _Taker]:
    """Return what takes from the registers, and from the halves, those that must be kept."""
    allowed = _allowed(routine)
    kept = [n for n, name in enumerate(_NAMES) if name not in allowed]
    return (
        _taker([n for n in kept if n < 16]),
        _taker([2 * (n - 16) + half for n in kept if n >= 16 for half in (0, 1)]),
    )


def _taker(places: Sequence[int]) -> _Taker:
    return itemgetter(*places) if places else lambda _values: ()


def _all(registers: Sequence[int], halves: Sequence[int]) -> tuple[int, ...]:
    vectors = (low | high << 64 for low, high in zip(halves[::2], halves[1::2], strict=True))
    return (*registers[:16], *vectors)
