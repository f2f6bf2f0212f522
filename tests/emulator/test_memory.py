"""Runs of bytes are cut at the pages."""

import pytest

from emulator.memory import PAGE, split


@pytest.mark.parametrize("size", [0, 1, PAGE, PAGE + 1, 3 * PAGE])
@pytest.mark.parametrize("offset", [0, 1, PAGE - 1])
def test_split_covers_the_run_page_by_page(offset, size):
    parts = split(PAGE * 5 + offset, size)
    assert sum(length for _, length in parts) == size
    at = PAGE * 5 + offset
    for start, length in parts:
        assert start == at
        assert length > 0
        assert start // PAGE == (start + length - 1) // PAGE
        at += length
