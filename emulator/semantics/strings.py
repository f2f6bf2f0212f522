"""String instructions with 64-bit addresses, with and without a repeat prefix.

SDM Vol. 2, MOVS, STOS, LODS, CMPS, SCAS, and REP/REPE/REPNE. A repeated instruction is translated
as a whole, or as one visit: a visit with RCX = 0 moves on, any other does one iteration and leaves
RIP in place unless the condition of REPE or REPNE ended it. Unicorn's code hook reports visits.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from iced_x86 import Instruction, Mnemonic, OpKind

from emulator.semantics.builder import MASK64, SEGMENT_BASES, Builder
from emulator.semantics.flags import cut, difference_flags
from emulator.semantics.step import STATUS

_SOURCE, _TARGET = "si", "di"
_ADVANCE = {_SOURCE: f"si = si + d & {MASK64:#x}", _TARGET: f"di = di + d & {MASK64:#x}"}


def _source(b: Builder) -> str:
    """Return text for the linear address of the element at RSI; only this one obeys FS or GS."""
    base = SEGMENT_BASES.get(b.instruction.memory_segment)
    return "si" if base is None else f"(si + {base} & {MASK64:#x})"


def _move(b: Builder, size: int) -> None:
    """MOVS: a later iteration of the same instruction sees what an earlier one stored."""
    source = _source(b)
    b.let("v", f"read_fresh(read, m, {source}, {size}) if m else read({source}, {size})")
    b.line(f"w.append((di, {size}, v))")
    b.line(f"if o: put_fresh(m, di, {size}, v)")


def _store(b: Builder, size: int) -> None:
    """STOS."""
    b.line(f"w.append((di, {size}, {b.register(0, size * 8)}))")


def _load(b: Builder, size: int) -> None:
    """LODS."""
    b.put_register(0, size * 8, f"read({_source(b)}, {size})")


def _compare(b: Builder, size: int, first: str) -> None:
    """CMPS and SCAS: flags of first - [RDI]."""
    b.let("a", first)
    b.let("b", f"read(di, {size})")
    b.let("t", "a - b")
    b.let("v", cut("t", size * 8))
    b.flags(STATUS, difference_flags("a", "b", "t", "v", size * 8))


def _compare_memory(b: Builder, size: int) -> None:
    """CMPS."""
    _compare(b, size, f"read({_source(b)}, {size})")


def _scan(b: Builder, size: int) -> None:
    """SCAS."""
    _compare(b, size, b.register(0, size * 8))


def _string(
    b: Builder, size: int, element: Callable[[Builder, int], None], pointers: tuple[str, ...]
) -> None:
    """Translate a string instruction around the text of one element."""
    ins = b.instruction
    compares = element in (_compare_memory, _scan)
    repeated = ins.has_repe_prefix or ins.has_repne_prefix
    b.let("d", f"-{size} if f & 0x400 else {size}")
    b.let("si, di, w, m", "r[6], r[7], [], {}")
    b.let("c", "r[1]" if repeated else "1")
    b.let("go, ended", "c, not c")
    overlap = element is _move and repeated and not b.once
    b.let("o", f"abs({_source(b)} - di) < (c + 1) * {size}" if overlap else "False")
    with b.block("while go"):
        element(b, size)
        for pointer in pointers:
            b.line(_ADVANCE[pointer])
        b.line("c -= 1")
        stop = ("not v" if ins.has_repne_prefix else "v") if compares and repeated else "False"
        b.let("ended", stop)
        b.let("go", "0 if ended else c")
        if b.once:
            b.line("break")
    if repeated:
        b.line("n[1] = c")
        if b.once:
            b.next_rip = "NEXT if ended else IP"
    for pointer in pointers:
        b.line("n[6] = si" if pointer == _SOURCE else "n[7] = di")
    b.write_list = "w"


def supported(ins: Instruction) -> bool:
    """Tell whether the prefixes and the address size of a string instruction are covered."""
    plain = ins.mnemonic in _WITHOUT_CONDITION and ins.has_repne_prefix
    narrow = any(
        ins.op_kind(operand) in (OpKind.MEMORY_SEG_ESI, OpKind.MEMORY_ESEDI)
        for operand in range(ins.op_count)
    )
    return not plain and not narrow


_ELEMENTS: Final = {
    "MOVS": (_move, (_SOURCE, _TARGET)),
    "STOS": (_store, (_TARGET,)),
    "LODS": (_load, (_SOURCE,)),
    "CMPS": (_compare_memory, (_SOURCE, _TARGET)),
    "SCAS": (_scan, (_TARGET,)),
}
_SIZES: Final = {"B": 1, "W": 2, "D": 4, "Q": 8}
_WITHOUT_CONDITION: Final = frozenset(
    getattr(Mnemonic, stem + suffix) for stem in ("MOVS", "STOS", "LODS") for suffix in _SIZES
)

HANDLERS: Final[dict[int, Callable[[Builder], None]]] = {
    getattr(Mnemonic, stem + suffix): partial(
        _string, size=size, element=element, pointers=pointers
    )
    for stem, (element, pointers) in _ELEMENTS.items()
    for suffix, size in _SIZES.items()
}
