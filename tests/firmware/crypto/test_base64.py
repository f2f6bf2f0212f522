"""Base64 against RFC 4648 section 10 and the standard library."""

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.crypto.base64 import base64_encode
from tests.support.lab import Lab

LAB = Lab(base64_encode)


def text_of(data):
    LAB.reset()
    source, text = LAB.machine.alloc(64), LAB.machine.alloc(128)
    LAB.machine.write(source, data)
    end = LAB.call(base64_encode, source=source, length=len(data), text=text).outputs["rdi"]
    return LAB.machine.read(text, end - text)


@pytest.mark.parametrize("length", range(7))
def test_base64_encode_rfc_4648_examples(length):
    wanted = [b"", b"Zg==", b"Zm8=", b"Zm9v", b"Zm9vYg==", b"Zm9vYmE=", b"Zm9vYmFy"]
    assert text_of(b"foobar"[:length]) == wanted[length]


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=40))
def test_base64_encode_any_bytes(data):
    assert text_of(data) == base64.b64encode(data)
