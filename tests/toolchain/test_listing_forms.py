"""Real NASM assembles the listing of every instruction form to our bytes."""

import pytest

from tests.support.forms import every_line, linked, nasm
from toolchain.asm.instructions import FORMS
from toolchain.link.flat import flat
from toolchain.listing import image_listing


@pytest.mark.parametrize("bits", [64, 32, 16])
def test_every_form_reassembles(bits):
    lines = every_line(bits)
    image = linked(lines, bits)
    assert nasm(image_listing(image)) == flat(image)


def test_every_form_is_tried():
    mnemonics = {line.mnemonic for line in every_line(64)}
    assert set(FORMS) - mnemonics == {"popfd", "pushfd"}  # no 64-bit encoding
