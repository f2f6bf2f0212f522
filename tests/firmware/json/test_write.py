"""Numbers in outgoing texts."""

import pytest

from firmware.json.write import put_decimal
from tests.support.lab import Lab

LAB = Lab(put_decimal)


@pytest.mark.parametrize("value", [0, 1, 9, 10, 65535, 4294967295, 10**19, 2**64 - 1])
def test_put_decimal_writes_what_python_prints(value):
    LAB.reset()
    text = LAB.machine.alloc(32)
    end = LAB.call(put_decimal, text=text, value=value).outputs["rdi"]
    assert LAB.machine.read(text, end - text) == str(value).encode()
