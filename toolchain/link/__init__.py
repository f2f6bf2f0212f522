"""From routines and data to an image: reachability, placement, fixups, stack depth, map."""

from toolchain.link.image import Image, Placed, Section
from toolchain.link.linker import Linker, LinkError, LinkerSymbol, SectionPlan

__all__ = ["Image", "LinkError", "Linker", "LinkerSymbol", "Placed", "Section", "SectionPlan"]
