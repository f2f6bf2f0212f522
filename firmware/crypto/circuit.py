"""Straight circuits of AND and XOR over vector registers: a value for each wire, no branch, no table.

A circuit with more wires alive than there are registers keeps some in memory: always those whose next
use is farthest away (Belady's rule). The order of the gates stays as it is written.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolchain.asm import Asm, Xmm


class Gate(NamedTuple):
    """One wire: the AND (`&`) or XOR (`^`) of two others."""

    wire: str
    operation: str
    one: str
    other: str


def parse(text: str) -> tuple[Gate, ...]:
    """Return the gates of lines `wire = one ^ other`; `;` separates them too."""
    gates = []
    for statement in text.replace(";", "\n").split("\n"):
        if statement.strip():
            wire, _, one, operation, other = statement.split()
            gates.append(Gate(wire, operation, one, other))
    return tuple(gates)


class _Placed:
    """Which register or slot holds which wire while a circuit is emitted."""

    def __init__(
        self, a: Asm, registers: Sequence[Xmm], slots: int, uses: dict[str, list[int]]
    ) -> None:
        self._a, self._registers, self._uses = a, registers, uses
        self.held: dict[str, Xmm] = {}
        self._slot: dict[str, int] = {}
        self._free_slots = list(range(slots))

    def fetch(self, wire: str, pinned: tuple[str, ...]) -> Xmm:
        """Return the register of a wire, from memory if it must be."""
        if wire not in self.held:
            register = self.take(pinned)
            self._a.movdqu(register, self._a.local(16, 16 * self._slot[wire]))
            self.held[wire] = register
        return self.held[wire]

    def take(self, pinned: tuple[str, ...]) -> Xmm:
        """Return a register that holds nothing; a wire goes to memory if it must."""
        busy = set(self.held.values())
        for register in self._registers:
            if register not in busy:
                return register
        victim = max((w for w in self.held if w not in pinned), key=lambda w: self._uses[w][0])
        register = self.held.pop(victim)
        if victim not in self._slot:
            if not self._free_slots:
                raise self._a.error(
                    f"the circuit has no local left for wire {victim}",
                    "give emit_circuit more slots, and the contract more stack",
                )
            self._slot[victim] = self._free_slots.pop(0)
            self._a.movdqu(self._a.local(16, 16 * self._slot[victim]), register)
        return register

    def forget(self, wire: str) -> None:
        """Give up what a wire that is used no more has taken."""
        self.held.pop(wire, None)
        if wire in self._slot:
            self._free_slots.append(self._slot.pop(wire))


def emit_circuit(
    a: Asm,
    gates: Sequence[Gate],
    inputs: dict[str, Xmm],
    outputs: dict[str, Xmm],
    registers: Sequence[Xmm],
    slots: int,
) -> None:
    """Emit the gates.

    Args:
        a: The routine; its first `slots` locals of 16 bytes are the circuit's.
        gates: The circuit in order.
        inputs: Where the wires that come in are.
        outputs: Where those that go out shall be; the registers are among `registers`.
        registers: All that may be used, at least those of the inputs.
        slots: Locals of 16 bytes.
    """
    never = len(gates) + 1
    uses: dict[str, list[int]] = defaultdict(list)
    for n, gate in enumerate(gates):
        uses[gate.one].append(n)
        uses[gate.other].append(n)
    for wire in outputs:
        uses[wire].append(len(gates))
    for wires in uses.values():
        wires.append(never)
    placed = _Placed(a, registers, slots, uses)
    placed.held.update(inputs)
    for gate in gates:
        pair = (gate.one, gate.other)
        for wire in pair:
            uses[wire].pop(0)
        one, other = (placed.fetch(wire, pair) for wire in pair)
        if uses[gate.one][0] == never:
            target, operand = one, other
        elif uses[gate.other][0] == never:
            target, operand = other, one
        else:
            target, operand = placed.take(pair), other
            a.movdqa(target, one)
        for wire in pair:
            if uses[wire][0] == never:
                placed.forget(wire)
        (a.pand if gate.operation == "&" else a.pxor)(target, operand)
        placed.held[gate.wire] = target
    for wire in outputs:
        placed.fetch(wire, tuple(outputs))
    _settle(a, {outputs[w]: placed.held[w] for w in outputs}, registers)


def _settle(a: Asm, moves: dict[Xmm, Xmm], registers: Sequence[Xmm]) -> None:
    """Move registers all at once; a ring of moves takes a free one."""
    moves = {to: source for to, source in moves.items() if to is not source}
    spare = next(r for r in registers if r not in moves and r not in moves.values())
    while moves:
        ready = next((to for to in moves if to not in moves.values()), None)
        if ready is None:
            to, source = next(iter(moves.items()))
            a.movdqa(spare, source)
            moves[to] = spare
            continue
        a.movdqa(ready, moves.pop(ready))
