"""The flat file of an image: its stored sections in a row, each at a known offset."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolchain.link.image import Image

PAGE = 4096


def file_offsets(image: Image) -> dict[str, int]:
    """Return the file offset of every section that holds bytes.

    The file is loaded at the address of the first section. Sections that follow each other in
    memory keep their distance; one that is linked elsewhere starts at the next page of the loaded
    file, so that page tables can map it.
    """
    offsets: dict[str, int] = {}
    first = here = end = 0
    for section in image.sections:
        if not section.contents:
            continue
        distance = section.address - end
        if not offsets:
            first = section.address
        elif 0 <= distance < PAGE:
            here += distance
        else:
            here += -(first + here) % PAGE
        offsets[section.name] = here
        here += len(section.contents)
        end = section.end
    return offsets


def file_size(image: Image) -> int:
    """Return the bytes of the file: whole pages from the load address on."""
    stored = [s for s in image.sections if s.contents]
    if not stored:
        return 0
    size = file_offsets(image)[stored[-1].name] + len(stored[-1].contents)
    return size + -(stored[0].address + size) % PAGE


def flat(image: Image) -> bytes:
    """Return the file."""
    out = bytearray()
    for name, offset in file_offsets(image).items():
        out += bytes(offset - len(out))
        out += image.section(name).contents
    return bytes(out) + bytes(file_size(image) - len(out))
