"""The token at boot."""

import pytest

from firmware.layouts.config import CONFIG
from firmware.layouts.token import TOKEN
from firmware.limits import TOKEN_MAX
from firmware.node.token import token_adopt
from tests.support.lab import Lab

LAB = Lab(token_adopt)


@pytest.mark.parametrize("length", [0, 1, 72, TOKEN_MAX])
def test_token_adopt_takes_what_is_configured(length):
    LAB.reset()
    text = bytes(range(1, 65)) * 4
    LAB.g(TOKEN).wipe()
    config = LAB.g(CONFIG)
    config.token_len = length
    config.token[:] = text[:length].ljust(TOKEN_MAX, b"\0")
    LAB.call(token_adopt)
    token = LAB.g(TOKEN)
    assert (token.length, bytes(token.text)[:length]) == (length, text[:length])


@pytest.mark.parametrize("length", [TOKEN_MAX + 1, 2**31, 2**32 - 1])
def test_token_adopt_takes_none_that_is_longer_than_its_place(length):
    LAB.reset()
    LAB.g(TOKEN).wipe()
    LAB.g(CONFIG).token_len = length
    LAB.call(token_adopt)
    assert LAB.g(TOKEN).length == 0
