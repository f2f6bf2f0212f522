"""Read an image back from its ELF file with lief, which shares no code with the writer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import lief

from toolchain.link.elf import FACTS, write_elf
from toolchain.link.image import Image, Placed, Section
from toolchain.link.lines import read_lines
from toolchain.source import short_path

if TYPE_CHECKING:
    from collections.abc import Mapping


class ReadError(Exception):
    """The bytes are not an ELF file of ours; the message says what is missing."""


@dataclass(frozen=True)
class Stored:
    """A symbol of which only the file is known: its name, and whether it is code."""

    name: str
    is_routine: bool


def _text(name: str | bytes) -> str:
    """Return a name; lief gives bytes for what is not UTF-8."""
    return name if isinstance(name, str) else name.decode("latin-1")


def _sections(elf: lief.ELF.Binary, bits: Mapping[str, int]) -> list[Section]:
    flags = lief.ELF.Section.FLAGS
    found = []
    for s in elf.sections:
        if not s.has(flags.ALLOC):
            continue
        stored = b"" if s.type == lief.ELF.Section.TYPE.NOBITS else bytes(s.content)
        found.append(
            Section(
                _text(s.name),
                s.virtual_address,
                stored,
                s.size,
                s.has(flags.EXECINSTR),
                s.has(flags.WRITE),
                bits.get(_text(s.name), 64),
            )
        )
    return found


def read_image(contents: bytes, things: Mapping[str, Any] | None = None) -> Image:
    """Return the image in an ELF file that `write_elf` made.

    Args:
        contents: The file.
        things: The routine or data behind each symbol, where the caller has it.

    Raises:
        ReadError: lief cannot read it, or it is not one of ours.
    """
    elf = lief.ELF.parse(list(contents))
    if elf is None:
        raise ReadError("lief does not take this for an ELF file; build the image again")
    facts_section = elf.get_section(FACTS)
    if facts_section is None:
        raise ReadError(f"the ELF file has no section {FACTS}; use the one that the build writes")
    facts = json.loads(bytes(facts_section.content))
    sections = _sections(elf, facts["bits"])
    symbols: dict[str, Placed] = {}
    for symbol in elf.symtab_symbols:
        name = _text(symbol.name)
        if not name:
            continue
        section = _text(symbol.section.name) if symbol.section is not None else ""
        stored = Stored(name, symbol.type == lief.ELF.Symbol.TYPE.FUNC)
        thing = (things or {}).get(name, stored)
        symbols[name] = Placed(name, symbol.value, symbol.size, thing, section)
    line_section = elf.get_section(".debug_line")
    lines = read_lines(bytes(line_section.content)) if line_section is not None else []
    image = Image(sections, symbols, stack=facts["stack"], entry=elf.entrypoint)
    for address, file, lineno in lines:
        placed = image.symbol_at(address)
        image.lines.append((address, file, lineno, placed.name if placed is not None else ""))
    return image


def reloaded(image: Image) -> Image:
    """Return an image with the sections and symbols that lief reads in its ELF file.

    What runs in the emulator is thereby what an independent reader finds in the file, not what the
    linker remembers. Routines, data and source lines are those of `image`.
    """
    things = {name: placed.thing for name, placed in image.symbols.items()}
    back = read_image(write_elf(image, debug=False), things)
    back.lines = list(image.lines)
    return back


def checked_elf(image: Image) -> bytes:
    """Return the ELF file of an image after lief has read the same image back from it.

    Raises:
        ReadError: Sections, symbols or lines differ.
    """
    contents = write_elf(image)
    back = read_image(contents)
    faults = [
        f"section {a.name} differs"
        for a, b in zip(image.sections, back.sections, strict=True)
        if a != b
    ]
    ours = {(p.name, p.address, p.size, p.section) for p in image.symbols.values()}
    theirs = {(p.name, p.address, p.size, p.section) for p in back.symbols.values()}
    faults += [f"symbol {name} differs" for name, *_ in sorted(ours ^ theirs)]
    if [(at, short_path(file), n) for at, file, n, _ in image.lines] != [
        row[:3] for row in back.lines
    ]:
        faults.append("source lines differ")
    if faults:
        raise ReadError(
            f"the ELF file does not read back as it was linked: {faults[0]}; "
            "report it as a defect of toolchain/link/elf.py"
        )
    return contents
