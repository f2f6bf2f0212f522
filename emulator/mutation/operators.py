"""The mutants of a routine: changes of the same length to the bytes of one instruction.

A mutant names its routine and offset and holds for every image that the routine is linked into:
bytes that the linker fills in are never replaced, a displacement is only moved.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import iced_x86 as ix

from emulator.mutation.words import NAMES, after_of, before_of
from toolchain.asm.assemble import assemble
from toolchain.asm.operands import Mem
from toolchain.layout.fields import Field

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolchain.asm.assemble import Unit
    from toolchain.asm.assembler import Line
    from toolchain.asm.routine import Routine

OPERATORS = ("condition", "operands", "immediate", "drop", "displacement")
NOP = 0x90
# Condition codes: the opposite, the neighbour that treats equality otherwise, and the one of the
# other signedness (b, ae, be, a against l, ge, le, g).
_BOUNDARY = {0x2: 0x6, 0x6: 0x2, 0x3: 0x7, 0x7: 0x3, 0xC: 0xE, 0xE: 0xC, 0xD: 0xF, 0xF: 0xD}
_SIGNEDNESS = {0x2: 0xC, 0xC: 0x2, 0x3: 0xD, 0xD: 0x3, 0x6: 0xE, 0xE: 0x6, 0x7: 0xF, 0xF: 0x7}
_PREFIXES = frozenset((0x66, 0x67, 0xF2, 0xF3, 0x2E, 0x36, 0x3E, 0x26, 0x64, 0x65, 0xF0))
# SSE moves whose load and store forms differ in the last opcode byte.
_SSE_TURNED = {0x10: 0x11, 0x11: 0x10, 0x28: 0x29, 0x29: 0x28, 0x6F: 0x7F, 0x7F: 0x6F}


@dataclass(frozen=True)
class Mutant:
    """One fault.

    Attributes:
        routine: The routine's name.
        offset: Of the instruction in the routine.
        size: Of the instruction in bytes.
        operator: One of `OPERATORS`.
        before: The instruction as the source has it.
        after: What it became.
        where: File and line of the generator.
        replaced: Bytes of the instruction that change, as (position, new bytes).
        moved: A little-endian number in it that changes, as (position, size, delta).
        line: Index of the instruction in the routine.
        value: The new immediate, the delta of a displacement, or the new condition code.
        ordinal: Which one it is of those that read the same in the routine, from 1.
    """

    routine: str
    offset: int
    size: int
    operator: str
    before: str
    after: str
    where: str
    replaced: tuple[tuple[int, bytes], ...] = ()
    moved: tuple[int, int, int] | None = None
    line: int = 0
    value: int = 0
    ordinal: int = 1

    @property
    def key(self) -> str:
        """How the table of survivors names it within its routine."""
        number = f" #{self.ordinal}" if self.ordinal > 1 else ""
        return f"{self.before} -> {self.after}{number}"

    def patched(self, code: bytes) -> bytes:
        """Return the mutated bytes of the instruction whose linked bytes are given."""
        raw = bytearray(code)
        for at, new in self.replaced:
            raw[at : at + len(new)] = new
        if self.moved is not None:
            at, size, delta = self.moved
            value = int.from_bytes(raw[at : at + size], "little") + delta
            raw[at : at + size] = (value % (1 << 8 * size)).to_bytes(size, "little")
        return bytes(raw)


@dataclass(frozen=True)
class _Place:
    """One instruction, with all that the operators look at."""

    routine: Routine
    number: int
    line: Line
    ins: ix.Instruction
    code: bytes
    constants: ix.ConstantOffsets
    fixed: frozenset[int]

    def mutant(
        self,
        operator: str,
        after: str,
        value: int = 0,
        *,
        replaced: tuple[tuple[int, bytes], ...] = (),
        moved: tuple[int, int, int] | None = None,
    ) -> Mutant:
        """Return a mutant of this instruction."""
        return Mutant(
            self.routine.name,
            self.ins.ip,
            len(self.code),
            operator,
            before_of(self.line),
            after,
            self.line.where,
            replaced,
            moved,
            self.number,
            value,
        )

    @property
    def opcode(self) -> int:
        """The position of the first opcode byte, behind prefixes and REX."""
        at = 0
        while self.code[at] in _PREFIXES:
            at += 1
        return at + (self.code[at] & 0xF0 == 0x40)


def mutants(routine: Routine) -> list[Mutant]:
    """Return the mutants of a 64-bit routine in the order of its instructions."""
    seen: Counter[str] = Counter()
    found = []
    for place in _places(routine):
        for mutant in (m for make in _MAKERS for m in make(place)):
            seen[mutant.key] += 1
            found.append(replace(mutant, ordinal=seen[mutant.key]))
    return found


def _places(routine: Routine) -> Iterator[_Place]:
    unit, lines = assemble(routine), routine.lines()
    fixed = _filled_in(unit)
    decoder = ix.Decoder(64, unit.code, ip=0)
    for number, (line, offset) in enumerate(zip(lines, unit.offsets, strict=True)):
        ins = decoder.decode()
        if ins.ip != offset:
            raise AssertionError(f"{line.where}: {line.mnemonic} is not one instruction")
        code = unit.code[offset : offset + ins.len]
        own = frozenset(n - offset for n in fixed if offset <= n < offset + ins.len)
        yield _Place(routine, number, line, ins, code, decoder.get_constant_offsets(ins), own)


def _filled_in(unit: Unit) -> set[int]:
    """Return the offsets of bytes that the linker fills in."""
    return {n for f in unit.fixups for n in range(f.offset, f.offset + f.size)}


# -- conditions --------------------------------------------------------------------------------------
def _conditions(place: _Place) -> Iterator[Mutant]:
    """Turn the condition of a branch, SETcc or CMOVcc around; move its edge; change its sign."""
    if place.ins.condition_code == ix.ConditionCode.NONE:
        return
    at = place.opcode
    at += place.code[at] == 0x0F
    old = place.code[at]
    if old & 0xF0 not in (0x40, 0x70, 0x80, 0x90):
        return  # loop and jrcxz name their condition otherwise
    code = old & 0x0F
    for new in dict.fromkeys((code ^ 1, _BOUNDARY.get(code), _SIGNEDNESS.get(code))):
        if new is not None:
            after = after_of(place.line, condition=new)
            replaced = ((at, bytes([old & 0xF0 | new])),)
            yield place.mutant("condition", after, new, replaced=replaced)


# -- operands ----------------------------------------------------------------------------------------
def _operands(place: _Place) -> Iterator[Mutant]:
    """Exchange source and destination."""
    ins = place.ins
    if ins.op_count != 2 or len(place.line.ops) != 2:
        return
    both = all(ins.op_kind(n) == ix.OpKind.REGISTER for n in (0, 1))
    if both and ins.op_register(0) == ins.op_register(1):
        return
    at = place.opcode
    new = _turned(place.code, at)
    if new is not None:
        after = after_of(place.line, turned=True)
        yield place.mutant("operands", after, replaced=((new[0], bytes([new[1]])),))
    elif both and ins.mnemonic in _EXCHANGEABLE:
        other = ins.copy()
        other.op0_register, other.op1_register = ins.op1_register, ins.op0_register
        encoder = ix.Encoder(64)
        if encoder.encode(other, ins.ip) == len(place.code):
            after = after_of(place.line, turned=True)
            yield place.mutant("operands", after, replaced=((0, encoder.take_buffer()),))


def _turned(code: bytes, at: int) -> tuple[int, int] | None:
    """Return position and value of the opcode byte that names the other direction."""
    opcode = code[at]
    if (opcode < 0x40 and opcode & 7 < 4 and opcode != 0x0F) or 0x88 <= opcode <= 0x8B:
        return at, opcode ^ 2
    if opcode == 0x0F and code[at + 1] in _SSE_TURNED:
        return at + 1, _SSE_TURNED[code[at + 1]]
    return None


_EXCHANGEABLE = frozenset(
    (ix.Mnemonic.IMUL, *(getattr(ix.Mnemonic, f"CMOV{n.upper()}") for n in NAMES))
)


# -- immediates --------------------------------------------------------------------------------------
def _immediates(place: _Place) -> Iterator[Mutant]:
    """Add one, take one away, make it zero."""
    size, at = place.constants.immediate_size, place.constants.immediate_offset
    if not size or at in place.fixed or place.line.target is not None:
        return
    bits = 8 * size
    old = int.from_bytes(place.code[at : at + size], "little")
    for raw in dict.fromkeys(new % (1 << bits) for new in (old + 1, old - 1, 0)):
        if raw == old or _jumps(old, raw, bits, place.ins):
            continue
        code = place.code[:at] + raw.to_bytes(size, "little") + place.code[at + size :]
        shown = _immediate(ix.Decoder(64, code, ip=place.ins.ip).decode())
        replaced = ((at, raw.to_bytes(size, "little")),)
        after = after_of(place.line, immediate=shown)
        yield place.mutant("immediate", after, shown, replaced=replaced)


def _jumps(old: int, raw: int, bits: int, ins: ix.Instruction) -> bool:
    """Tell whether the immediate is extended by its sign, and one more or less turns that sign."""
    edge = 1 << (bits - 1)
    extended = any(ins.op_kind(n) in _EXTENDED for n in range(ins.op_count))
    return extended and {old, raw} == {edge, edge - 1}


def _immediate(ins: ix.Instruction) -> int:
    for n in range(ins.op_count):
        if ins.op_kind(n) in _IMMEDIATES:
            return int(ins.immediate(n))
    raise AssertionError(f"{ins} has no immediate")


_KINDS = {n: getattr(ix.OpKind, n) for n in dir(ix.OpKind) if n.startswith("IMMEDIATE")}
_IMMEDIATES = frozenset(_KINDS.values())
_EXTENDED = frozenset(kind for name, kind in _KINDS.items() if "TO" in name)


# -- dropped instructions ----------------------------------------------------------------------------
def _drops(place: _Place) -> Iterator[Mutant]:
    """Put NOPs in its place."""
    if place.ins.mnemonic != ix.Mnemonic.NOP:
        replaced = ((0, bytes([NOP]) * len(place.code)),)
        yield place.mutant("drop", "nop", replaced=replaced)


# -- displacements -----------------------------------------------------------------------------------
def _displacements(place: _Place) -> Iterator[Mutant]:
    """Take the neighbour on either side, and one further field of the same size."""
    size, at = place.constants.displacement_size, place.constants.displacement_offset
    memory = next((op for op in place.line.ops if isinstance(op, Mem)), None)
    if not size or memory is None or place.line.target is not None:
        return
    width = memory.size or 1
    old = int.from_bytes(place.code[at : at + size], "little", signed=True)
    deltas = [width, -width, _other_field(memory)]
    for delta in dict.fromkeys(d for d in deltas if d):
        if size == 1 and not -128 <= old + delta <= 127:
            continue
        after = after_of(place.line, delta=delta)
        yield place.mutant("displacement", after, delta, moved=(at, size, delta))


def _other_field(memory: Mem[int]) -> int:
    """Return the way to the next field of the same size that is no neighbour, or 0."""
    ref = memory.ref
    if not isinstance(ref, Field):
        return 0
    same = [f for f in ref.owner.fields() if f.size == ref.size and type(f) is type(ref)]
    place = next((n for n, f in enumerate(same) if f is ref), None)
    if place is None:
        return 0
    around = same[place + 1 :] + same[:place]
    near = (0, memory.size, -memory.size)
    return next((d for f in around if (d := f.offset - ref.offset) not in near), 0)


_MAKERS = (_conditions, _operands, _immediates, _drops, _displacements)
