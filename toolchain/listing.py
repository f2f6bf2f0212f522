"""The image as NASM source that real `nasm -f bin` assembles to the same bytes.

Comments, symbols, labels and field names come along, so that the listing is what a reader of
assembly would want to have written.
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, Any

import iced_x86 as ix

from toolchain.asm.assembler import STACK, Label, Line, Offset
from toolchain.asm.instructions import FORMS
from toolchain.asm.operands import SIZE_WORDS, Mem
from toolchain.asm.registers import LOW8, LOW16, LOW32, WHOLE, Reg
from toolchain.asm.routine import Routine
from toolchain.layout.data import Table
from toolchain.layout.struct import Struct
from toolchain.link.flat import file_offsets, file_size
from toolchain.source import Comments, short_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolchain.link.image import Image, Placed, Section

_RESERVED = (
    {r.name for table in (LOW8, LOW16, LOW32, WHOLE) for r in table.values()}
    | set(FORMS)
    | set("ah bh ch dh cs ds es fs gs ss".split())
    | set("abs align at bits byte call common cpu db dd default dq dt dw dword equ extern".split())
    | set("far global incbin int istruc jmp loop near nosplit oword org ptr qword rel resb".split())
    | set(
        "resq ret retf section seg short strict struc times to tword use16 use32 word wrt".split()
    )
)
# Instructions whose memory operand has no size of its own, or another than NASM's word says.
_UNSIZED = {
    "lea", "lgdt", "lidt", "sgdt", "sidt", "invlpg", "fxsave", "fxrstor", "fxsave64", "fxrstor64",
    "call far", "prefetchnta", "prefetcht0", "prefetcht1", "prefetcht2", "prefetchw", "clflush",
    "lddqu", "movntdqa", "palignr", "pshufd", "pshufhw", "pshuflw", "xsave", "xrstor", "xsave64", "xrstor64",
}  # fmt: skip
# NASM reads the bare names in the mode's own width; iced's are the 16-bit ones.
_WORD_FORMS = {"iret": "iretw", "popf": "popfw", "pushf": "pushfw"}
_COMMENT_COLUMN = 44


def symbol(name: str) -> str:
    """Return a symbol as NASM reads it; names that it reserves get a dollar sign."""
    return "$" + name if name.lower() in _RESERVED else name


def _number(value: int) -> str:
    return f"-{-value:#x}" if value < 0 else f"{value:#x}" if value > 9 else str(value)


def _offset(name: str, disp: int) -> str:
    return symbol(name) + (f"{'-' if disp < 0 else '+'}{abs(disp):#x}" if disp else "")


def memory_text(op: Mem[Any], bits: int, *, sized: bool = True) -> str:
    """Return a memory operand in NASM syntax."""
    parts: list[str] = []
    if op.base is not None:
        parts.append(str(op.base))
    if op.index is not None:
        parts.append(f"{op.index}*{op.scale}" if op.scale != 1 or not parts else str(op.index))
    if op.symbol is not None:
        parts.insert(0, _offset(op.symbol.name, op.disp))
    elif op.disp or not parts:
        parts.append(_number(op.disp))
    body = "+".join(parts).replace("+-", "-")
    if op.segment is not None:
        body = f"{op.segment}:{body}"
    elif op.symbol is not None and bits == 64:
        body = f"rel {body}"
    word = SIZE_WORDS[op.size] if sized else ""
    return f"{word} [{body}]".lstrip()


def _operand(line: Line, op: object, bits: int) -> str:
    if isinstance(op, Mem):
        return memory_text(op, bits, sized=line.mnemonic not in _UNSIZED)
    if isinstance(op, Offset):
        return _offset(op.symbol.name, op.addend)
    if isinstance(op, int):
        # NASM warns of a negative count or selector; the byte is the same.
        return _number(int(op) & 0xFF if int(op) < 0 and _byte_immediate(line) else int(op))
    return str(op)


def _byte_immediate(line: Line) -> bool:
    ins = line.ins
    return ins is not None and any(
        ins.op_kind(n) == ix.OpKind.IMMEDIATE8 for n in range(ins.op_count)
    )


def instruction_text(line: Line, labels: dict[Label, str], bits: int, *, near: bool = False) -> str:
    """Return one instruction in NASM syntax.

    Args:
        line: The instruction.
        labels: Printed names of the routine's labels.
        bits: 16, 32 or 64.
        near: The branch was encoded in its long form.
    """
    target = line.target
    if isinstance(target, Label):
        # NASM settles on the long form of some branches that reach their target in the short one.
        return f"{line.mnemonic} {'near' if near else 'short'} {labels[target]}"
    if target is not None:
        name = symbol(target.name)
        if line.mnemonic == "jmp far":
            return f"jmp {'dword ' if bits == 16 else ''}{_number(int(line.ops[0]))}:{name}"
        return f"{line.mnemonic} {'' if line.mnemonic == 'call' else 'near '}{name}"
    operands = ", ".join(_operand(line, op, bits) for op in line.ops)
    mnemonic = line.mnemonic if bits == 16 else _WORD_FORMS.get(line.mnemonic, line.mnemonic)
    return f"{mnemonic} {operands}".rstrip()


def _meaning(line: Line) -> str:
    """Return the declared names behind the numbers of an instruction."""
    found = []
    for op in line.ops:
        if isinstance(op, Mem) and op.ref is not None and op.ref is not STACK:
            if op.symbol is not op.ref:
                found.append(repr(op.ref))
        elif isinstance(op, enum.Flag):
            found.append("|".join(f"{type(op).__name__}.{m.name}" for m in op) or "none")
        elif isinstance(op, enum.Enum):
            found.append(f"{type(op).__name__}.{op.name}")
    return ", ".join(found)


def label_names(lines: Iterable[Line]) -> dict[Label, str]:
    """Return a name for each label, unique in the routine."""
    names: dict[Label, str] = {}
    taken: set[str] = set()
    for line in lines:
        for label in line.labels:
            stem = "." + re.sub(r"\W", "_", label.name)
            name, n = stem, 2
            while name in taken:
                name, n = f"{stem}_{n}", n + 1
            taken.add(name)
            names[label] = name
    return names


def _registers(registers: Iterable[Reg]) -> str:
    return ", ".join(r.name for r in registers)


def _header(routine: Routine, image: Image | None) -> list[str]:
    """Return the contract as comment lines."""
    c = routine.contract
    file, _, lineno = routine.where.rpartition(":")
    rows: list[tuple[str, str]] = []
    for i in c.inputs:
        kind = f" -> {i.kind.__name__}" if issubclass(i.kind, Struct) else ""
        rows.append(("in", f"{i.reg}{kind}: {i.meaning}"))
    rows += [("out", f"{o.reg}: {o.meaning}") for o in c.outputs]
    for title, text in (
        ("changes", _registers(c.clobbers)),
        ("saves", _registers(c.saves)),
        ("reads", ", ".join(map(repr, c.reads))),
        ("writes", ", ".join(map(repr, c.writes))),
        ("calls", ", ".join(r.name for r in (*c.calls, *c.indirect()))),
        ("secret", ", ".join(map(repr, c.secret))),
    ):
        if text:
            rows.append((title, text))
    if image is not None and routine.name in image.stack:
        rows.append(("stack", f"{image.stack[routine.name]} bytes with all it calls"))
    rows += [("source", c.source), ("at", f"{short_path(file)}:{lineno}")]
    out = [f"; {routine.name}"]
    out += [f"; {text}".rstrip() for text in routine.doc.splitlines()]
    for title, text in rows:
        out += _wrapped(f"{title + ':':8} ", text)
    return out


def _wrapped(title: str, text: str, width: int = 100) -> list[str]:
    lines, here = [], f";   {title}"
    for word in " ".join(text.split()).split(" "):
        if len(here) + len(word) > width and here.strip("; "):
            lines.append(here.rstrip())
            here = ";   " + " " * len(title)
        here += word + " "
    return [*lines, here.rstrip()]


def routine_text(routine: Routine, image: Image | None = None) -> list[str]:
    """Return the NASM lines of one routine, its contract above it."""
    lines, bits = routine.lines(), routine.bits
    near = _near_branches(routine)
    out = [*_header(routine, image), f"{symbol(routine.name)}:"]
    labels, comments = label_names(lines), Comments()
    home = short_path(routine.where.rpartition(":")[0])
    for n, line in enumerate(lines):
        above, beside = comments.take(line.file, line.lineno)
        if above:
            out += ["", *(f"        ; {text}" for text in above)]
        out += [f"{labels[label]}:" for label in line.labels]
        text = "        " + instruction_text(line, labels, bits, near=n in near)
        file = short_path(line.file)
        place = f"{file if file != home else file.rpartition('/')[2]}:{line.lineno}"
        remark = "; ".join(part for part in (_meaning(line), beside, place) if part)
        out.append(f"{text:{_COMMENT_COLUMN}} ; {remark}")
    return out


def _near_branches(routine: Routine) -> set[int]:
    from toolchain.asm.assemble import assemble  # noqa: PLC0415 - only listings need it here

    unit, lines = assemble(routine), routine.lines()
    ends = [*unit.offsets[1:], len(unit.code)]
    return {
        n
        for n, line in enumerate(lines)
        if isinstance(line.target, Label) and ends[n] - unit.offsets[n] > 2
    }


def _bytes(contents: bytes) -> list[str]:
    out = []
    for start in range(0, len(contents), 16):
        row = contents[start : start + 16]
        # A backslash at the end of a comment would join the next line to it.
        shown = "".join(chr(b) if 32 <= b < 127 and b != 0x5C else "." for b in row)
        text = "        db " + ",".join(f"0x{b:02x}" for b in row)
        out.append(f"{text:{_COMMENT_COLUMN}} ; {shown}")
    return out


def _data(placed: Placed, section: Section) -> list[str]:
    thing = placed.thing
    doc = getattr(thing, "doc", "")
    out = [f"; {line}".rstrip() for line in doc.splitlines()]
    out.append(f"{symbol(placed.name)}:")
    start = placed.address - section.address
    contents = section.contents[start : start + placed.size]
    if isinstance(thing, Table):
        return out + [f"        dq {symbol(r.name)}" for r in thing.entries()]
    if not section.contents and section.size:
        return [*out, f"        resb {placed.size}"] if placed.size else out
    if len(contents) >= 32 and not any(contents):
        return [*out, f"        times {len(contents)} db 0"]
    return out + _bytes(contents)


def _gap(section: Section, start: int, end: int) -> list[str]:
    if start == end:
        return []
    if not section.contents:
        return [f"        resb {end - start}"]
    filler = section.contents[start - section.address : end - section.address]
    if len(set(filler)) == 1:
        return [f"        times {len(filler)} db 0x{filler[0]:02x}"]
    return _bytes(filler)


def section_text(image: Image, section: Section) -> list[str]:
    """Return the NASM lines of one section, after its header."""
    stem = section.name.lstrip(".")
    out = [f"{stem}_start:"] if f"{stem}_start" in image.symbols else []
    inside = [p for p in image.symbols.values() if p.section == section.name]
    here, bits = section.address, 0
    for placed in sorted(inside, key=lambda p: (p.address, p.size, p.name)):
        out += _gap(section, here, placed.address)
        out.append("")
        if isinstance(placed.thing, Routine):
            if placed.thing.bits != bits:
                bits = placed.thing.bits
                out.append(f"bits {bits}")
            out += routine_text(placed.thing, image)
        else:
            out += _data(placed, section)
        here = placed.address + placed.size
    out += _gap(section, here, section.end)
    if f"{stem}_end" in image.symbols:
        out.append(f"{stem}_end:")
    return out


def _joined(lines: Iterable[str]) -> str:
    # A backslash at the end of a comment would join it with the next line.
    return "".join(f"{line}.\n" if line.endswith("\\") else f"{line}\n" for line in lines)


def image_listing(image: Image) -> str:
    """Return NASM source whose `nasm -f bin` output is the flat image, byte for byte."""
    offsets = file_offsets(image)
    last = next(reversed(offsets), "")
    out = ["; Generated from Python; see the file and line beside each instruction.", "org 0"]
    for section in image.sections:
        if section.name in offsets:
            place = f"start={offsets[section.name]:#x} vstart={section.address:#x} align=1"
        elif section.size or section.name == ".bss":
            place = f"nobits vstart={section.address:#x} valign=1"
        else:  # NASM knows some names as progbits; an empty section takes no room either way
            place = f"vstart={section.address:#x} align=1"
        out += ["", f"section {section.name} {place}"]
        out += section_text(image, section)
        if section.name == last:
            rest = file_size(image) - offsets[last] - len(section.contents)
            out += [f"        times {rest} db 0 ; to the end of the page"] if rest else []
    return _joined(out)


def routine_listing(image: Image, name: str) -> str:
    """Return the NASM source of one routine, its contract as comments.

    Raises:
        KeyError: The image has no routine of that name.
    """
    thing = image.symbols[name].thing
    if not isinstance(thing, Routine):
        raise KeyError(name)
    return _joined([f"bits {thing.bits}", *routine_text(thing, image)])


def routine_hex(image: Image, name: str) -> str:
    """Return the linked bytes of one symbol as hex digits, 16 bytes a line, and nothing else."""
    return _hex(_contents(image, image.symbols[name]))


def image_hex(image: Image) -> str:
    """Return the bytes of every routine of the image as hex digits, 16 bytes a line."""
    return "".join(_hex(_contents(image, placed)) for placed in image.routines())


def _contents(image: Image, placed: Placed) -> bytes:
    section = image.section(placed.section)
    start = placed.address - section.address
    return section.contents[start : start + placed.size]


def _hex(contents: bytes) -> str:
    rows = (contents[n : n + 16] for n in range(0, len(contents), 16))
    return "".join(f"{row.hex(' ')}\n" for row in rows)
