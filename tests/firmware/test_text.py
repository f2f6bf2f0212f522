"""Texts that the node writes."""

import pytest

from firmware.text import put_decimal, put_hex
from tests.support.lab import Lab

LAB = Lab(put_decimal, put_hex)


@pytest.mark.parametrize("value", [0, 1, 9, 10, 65535, 4294967295, 10**19, 2**64 - 1])
def test_put_decimal_writes_what_python_prints(value):
    LAB.reset()
    text = LAB.machine.alloc(32)
    end = LAB.call(put_decimal, text=text, value=value).outputs["rdi"]
    assert LAB.machine.read(text, end - text) == str(value).encode()


@pytest.mark.parametrize("value", [0, 9, 10, 0x3FA2C1D0, 0xDEADBEEF, 0x00ABCDEF, 2**32 - 1])
def test_put_hex_writes_eight_digits(value):
    LAB.reset()
    text = LAB.machine.alloc(16)
    end = LAB.call(put_hex, text=text, value=value).outputs["rdi"]
    assert LAB.machine.read(text, end - text) == b"%08x" % value
