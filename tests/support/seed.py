"""The seed's own NASM listings, assembled against our layouts with the real NASM."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from firmware.layouts.nasm import ALIASES, EQUS
from tests.support.forms import nasm
from toolchain.layout.render import nasm_include

if TYPE_CHECKING:
    from toolchain.link import Image

LISTINGS = Path(__file__).parents[1] / "firmware" / "seed"


def seed_bytes(image: Image, routine: str, callees: dict[str, str] | None = None) -> bytes:
    """Assemble a listing of the seed at the address of our routine.

    Args:
        image: Holds the routine and the node-wide data that it uses.
        routine: Name of our routine, and of the listing.
        callees: The seed's name of a called routine -> ours.
    """
    text = f"bits 64\n{nasm_include(EQUS, ALIASES, image)}"
    for theirs, ours in (callees or {}).items():
        text += f"section .{theirs} nobits vstart={image.address(ours):#x} valign=1\n"
        text += f"{theirs}: resb 1\n"
    text += f"section .text vstart={image.address(routine):#x}\n"
    return nasm(text + (LISTINGS / f"{routine}.asm").read_text(encoding="utf-8"))


def our_bytes(image: Image, routine: str) -> bytes:
    """Return the linked bytes of a routine."""
    placed, text = image.symbols[routine], image.section(".text")
    start = placed.address - text.address
    return text.contents[start : start + placed.size]
