"""From a checked routine to bytes: shortest branches, and fixups for what the linker knows."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import iced_x86 as ix

from toolchain.asm.assembler import Label, Line, Offset
from toolchain.asm.operands import Mem

if TYPE_CHECKING:
    from toolchain.asm.routine import Routine

_CONDITIONS = {
    "o": 0, "no": 1, "b": 2, "c": 2, "ae": 3, "nb": 3, "nc": 3, "z": 4, "e": 4, "nz": 5, "ne": 5,
    "be": 6, "a": 7, "s": 8, "ns": 9, "p": 10, "np": 11, "l": 12, "ge": 13, "le": 14, "g": 15,
}  # fmt: skip


@dataclass(frozen=True)
class Fixup:
    """A place that gets an address at link time.

    Args:
        offset: Bytes from the start of the unit.
        size: 2, 4 or 8 bytes.
        symbol: The routine or data.
        addend: Added to the symbol's address.
        base: For a relative fixup the offset of the next instruction, else None (absolute).
    """

    offset: int
    size: int
    symbol: Any
    addend: int = 0
    base: int | None = None


@dataclass
class Unit:
    """The bytes of one routine, its fixups, and where each line starts."""

    code: bytes
    fixups: list[Fixup] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)


def _branch(line: Line, short: bool, bits: int) -> bytes:
    """Return the opcode of a branch to a label, its displacement left zero."""
    near = 2 if bits == 16 else 4
    if line.mnemonic == "jmp":
        return b"\xeb\0" if short else b"\xe9" + bytes(near)
    code = _CONDITIONS[line.mnemonic[1:]]
    return bytes([0x70 + code, 0]) if short else bytes([0x0F, 0x80 + code]) + bytes(near)


def _far(line: Line, bits: int) -> tuple[bytes, int]:
    """Return the opcode of a far jump to a 32-bit offset and where the offset lies."""
    prefix = b"\x66\xea" if bits == 16 else b"\xea"
    return prefix + bytes(4) + int(line.ops[0]).to_bytes(2, "little"), len(prefix)


def _target(line: Line, offset: int, bits: int) -> tuple[bytes, Fixup]:
    """Return the bytes and the fixup of a call or jump to another routine."""
    if line.mnemonic == "jmp far":
        code, at = _far(line, bits)
        return code, Fixup(offset + at, 4, line.target)
    size = 2 if bits == 16 else 4
    if line.mnemonic in ("call", "jmp"):
        opcode = b"\xe8" if line.mnemonic == "call" else b"\xe9"
    else:
        opcode = bytes([0x0F, 0x80 + _CONDITIONS[line.mnemonic[1:]]])
    end = offset + len(opcode) + size
    return opcode + bytes(size), Fixup(offset + len(opcode), size, line.target, 0, end)


def _fixups(line: Line, offset: int, size: int, bits: int) -> list[Fixup]:
    """Return the fixups of an ordinary instruction: symbols in memory operands and immediates."""
    found: list[Fixup] = []
    constants = None
    for op in line.ops:
        symbol = getattr(op, "symbol", None)
        if symbol is None or line.ins is None:
            continue
        if constants is None:
            encoder = ix.Encoder(bits)
            encoder.encode(line.ins, 0)
            constants = encoder.get_constant_offsets()
        if isinstance(op, Mem):
            at, width = constants.displacement_offset, constants.displacement_size
            base = offset + size if bits == 64 else None
            found.append(Fixup(offset + at, width, symbol, op.disp, base))
        elif isinstance(op, Offset):
            at, width = constants.immediate_offset, constants.immediate_size
            found.append(Fixup(offset + at, width, symbol, op.addend))
    return found


@functools.cache
def assemble(routine: Routine) -> Unit:
    """Encode a routine, once; branches to labels take the short form wherever it reaches."""
    lines, bits = routine.lines(), routine.bits
    fixed = [line.code for line in lines]
    local = [n for n, line in enumerate(lines) if isinstance(line.target, Label)]
    at = {label: n for n, line in enumerate(lines) for label in line.labels}
    long_: set[int] = set()
    while True:
        offsets, sizes = _place(lines, fixed, long_, bits)
        grown = set()
        for n in local:
            target = lines[n].target
            distance = offsets[at[target]] - offsets[n] - sizes[n]  # type: ignore[index]
            if n not in long_ and not -128 <= distance <= 127:
                grown.add(n)
        if not grown:
            break
        long_ |= grown
    code = bytearray()
    unit = Unit(b"")
    for n, line in enumerate(lines):
        unit.offsets.append(len(code))
        if n in local:
            raw = _branch(line, n not in long_, bits)
            width = 1 if n not in long_ else 2 if bits == 16 else 4
            distance = offsets[at[line.target]] - offsets[n] - sizes[n]  # type: ignore[index]
            code += raw[:-width] + distance.to_bytes(width, "little", signed=True)
        elif line.target is not None:
            raw, fixup = _target(line, offsets[n], bits)
            unit.fixups.append(fixup)
            code += raw
        else:
            unit.fixups += _fixups(line, offsets[n], sizes[n], bits)
            code += fixed[n]
    unit.code = bytes(code)
    return unit


def _place(
    lines: list[Line], fixed: list[bytes], long_: set[int], bits: int
) -> tuple[list[int], list[int]]:
    offsets, sizes, here = [], [], 0
    for n, line in enumerate(lines):
        if isinstance(line.target, Label):
            size = len(_branch(line, n not in long_, bits))
        elif line.target is not None:
            size = len(_target(line, 0, bits)[0])
        else:
            size = len(fixed[n])
        offsets.append(here)
        sizes.append(size)
        here += size
    return offsets, sizes
