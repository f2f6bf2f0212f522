"""The listing of the release images assembles to the files that are booted."""

import pytest

from firmware.image import link_bios, link_direct
from tests.support.forms import nasm
from toolchain.link.flat import flat
from toolchain.link.reader import checked_elf
from toolchain.listing import image_listing


@pytest.mark.parametrize("link", [link_bios, link_direct])
def test_whole_image_reassembles_to_the_booted_file(link):
    image, file = link()
    assert flat(image) == file
    assert nasm(image_listing(image)) == file


@pytest.mark.parametrize("link", [link_bios, link_direct])
def test_elf_of_the_image_reads_back(link):
    image, _ = link()
    assert checked_elf(image).startswith(b"\x7fELF")
