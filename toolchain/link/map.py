"""The map: what lies where, how long it is, and how deep the stack grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolchain.link.flat import file_offsets, flat
from toolchain.source import short_path

if TYPE_CHECKING:
    from toolchain.link.image import Image


def map_text(image: Image) -> str:
    """Return sections, routines and data with address and size in bytes, and the deepest stack."""
    offsets = file_offsets(image)
    out = [f"{'section':12} {'address':>10} {'bytes':>8} {'in file at':>10}  rights"]
    for s in image.sections:
        at = f"{offsets[s.name]:#x}" if s.name in offsets else "-"
        rights = "r" + ("w" if s.writable else "-") + ("x" if s.executable else "-")
        out.append(f"{s.name:12} {s.address:#10x} {s.size:8} {at:>10}  {rights}")
    out.append(f"{'file':12} {'':10} {len(flat(image)):8}")
    out += ["", f"{'routine':32} {'address':>10} {'bytes':>6} {'stack':>6}  source"]
    for p in image.routines():
        stack = image.stack.get(p.name, 0)
        file, _, lineno = getattr(p.thing, "where", "").rpartition(":")
        source = f"{short_path(file)}:{lineno}" if file else ""
        out.append(f"{p.name:32} {p.address:#10x} {p.size:6} {stack:6}  {source}".rstrip())
    routines = {p.name for p in image.routines()}
    data = [p for p in image.symbols.values() if p.section and p.name not in routines]
    out += ["", f"{'data':32} {'address':>10} {'bytes':>6}  section"]
    for p in sorted(data, key=lambda p: (p.address, p.name)):
        out.append(f"{p.name:32} {p.address:#10x} {p.size:6}  {p.section}")
    deepest = max(image.stack.items(), key=lambda item: (item[1], item[0]), default=("none", 0))
    out += ["", f"deepest stack: {deepest[1]} bytes, from {deepest[0]}"]
    return "\n".join(out) + "\n"
