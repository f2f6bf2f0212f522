"""iced-x86 and Capstone read the same instructions in our bytes, and those that were written."""

import dataclasses

import pytest

from firmware.image import link_bios, link_direct
from tests.support.disassembly import Capstone, difference, disagreements, with_iced
from tests.support.forms import every_line, linked
from tests.support.program import program


@pytest.mark.parametrize("bits", [64, 32, 16])
def test_every_form_disassembles_alike(bits):
    section = linked(every_line(bits), bits).section(".text")
    found, unknown = disagreements(section.contents, section.address, bits)
    assert found == []
    assert unknown == set()


@pytest.mark.parametrize("link", [program, lambda: link_bios()[0], lambda: link_direct()[0]])
def test_every_routine_of_an_image_disassembles_alike(link):
    image = link()
    checked = 0
    for placed in image.routines():
        section = image.section(placed.section)
        start = placed.address - section.address
        code = section.contents[start : start + placed.size]
        found, unknown = disagreements(code, placed.address, placed.thing.bits)
        assert (placed.name, found, unknown) == (placed.name, [], set())
        starts = [ins.address for ins in with_iced(code, placed.address, placed.thing.bits)]
        lines = [address for address, *_, routine in image.lines if routine == placed.name]
        assert starts == lines, placed.name
        checked += len(starts)
    assert checked > 30


@pytest.mark.parametrize(
    ("code", "change", "text"),
    [
        ("4831c8", {"mnemonic": "or"}, "3 bytes or / 3 bytes xor"),
        ("4831c8", {"registers": ("rax", "rdx")}, "registers ('rax', 'rdx') / ('rax', 'rcx')"),
        ("8b4308", {"memory": (("rbx", "", 1, 9, ""),)}, "memory"),
        ("83c005", {"numbers": (6,)}, "numbers (6,) / (5,)"),
    ],
)
def test_difference_is_seen(code, change, text):
    raw = bytes.fromhex(code)
    ours = next(iter(with_iced(raw, 0, 64)))
    theirs = Capstone(64).decode(raw, 0)
    assert theirs is not None
    assert difference(ours, theirs) == ""
    assert text in difference(dataclasses.replace(ours, **change), theirs)
