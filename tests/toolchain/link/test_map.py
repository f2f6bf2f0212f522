"""The map names every section, routine and datum, and the deepest stack."""

import re

from tests.support.program import program
from toolchain.link.map import map_text

IMAGE = program()
MAP = map_text(IMAGE)


def test_map_lists_everything_that_was_placed():
    names = {line.split()[0] for line in MAP.splitlines() if line}
    placed = {p.name for p in IMAGE.symbols.values() if p.section}
    assert placed | {s.name for s in IMAGE.sections} <= names


def test_map_shows_sizes_rights_and_sources():
    assert re.search(r"^\.boot +0x7c00 +\d+ +0x0  rwx$", MAP, re.MULTILINE)
    assert re.search(r"^\.text +0x60000000 +\d+ +0x400  r-x$", MAP, re.MULTILINE)
    assert re.search(r"^\.bss +0x60002000 +\d+ +-  rw-$", MAP, re.MULTILINE)
    size = IMAGE.symbols["main"].size
    stack = IMAGE.stack["main"]
    line = rf"^main +0x60000000 +{size} +{stack}  tests/support/program.py:\d+$"
    assert re.search(line, MAP, re.MULTILINE)


def test_map_names_the_deepest_stack():
    # main pushes R12, takes 16 bytes of locals and calls.
    assert MAP.endswith("deepest stack: 32 bytes, from main\n")
