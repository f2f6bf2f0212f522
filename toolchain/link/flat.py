"""The flat file of an image: its stored sections in a row, each at a known offset."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolchain.link.image import Image

ALIGN = 4096
"""A section at an address of its own starts at a multiple of this in the file, for page tables."""


def file_offsets(image: Image) -> dict[str, int]:
    """Return the file offset of every section that holds bytes.

    Sections that follow each other in memory keep their distance; one that lies elsewhere starts
    at the next multiple of `ALIGN`.
    """
    offsets: dict[str, int] = {}
    here = end = 0
    for section in image.sections:
        if not section.contents:
            continue
        distance = section.address - end
        here = here + distance if offsets and 0 <= distance < ALIGN else -(-here // ALIGN) * ALIGN
        offsets[section.name] = here
        here += len(section.contents)
        end = section.end
    return offsets


def flat(image: Image) -> bytes:
    """Return the file."""
    out = bytearray()
    for name, offset in file_offsets(image).items():
        out += bytes(offset - len(out))
        out += image.section(name).contents
    return bytes(out)
