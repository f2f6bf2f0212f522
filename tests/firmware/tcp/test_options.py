"""Options of a SYN: what is meant, what is malformed, what ends."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from firmware.tcp.options import tcp_options
from tests.support.lab import Lab

LAB = Lab(tcp_options)
BUFFER = LAB.machine.alloc(64)


def read(data: bytes) -> tuple[int, int, int]:
    LAB.machine.write(BUFFER, data + b"\xee" * (48 - len(data)))
    got = LAB.call(tcp_options, at=BUFFER, left=len(data)).outputs
    return got["eax"], got["edx"], got["edi"]


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        ("", (0, 0, 0)),
        ("020405b4", (1460, 0, 0)),
        ("01010101020405b4", (1460, 0, 0)),
        ("00020405b4", (0, 0, 0)),
        ("030307", (0, 0x87, 0)),
        ("030300", (0, 0x80, 0)),
        ("0303ff", (0, 0x8E, 0)),
        ("0402", (0, 0, 1)),
        ("020405b4010303080101080a00000001000000000402", (1460, 0x88, 1)),
        ("fe03aa0402", (0, 0, 1)),
        ("01020000", (0, 0, 0)),  # length 0
        ("0201", (0, 0, 0)),  # length 1
        ("02", (0, 0, 0)),  # no length
        ("080a0102", (0, 0, 0)),  # truncated
        ("020405", (0, 0, 0)),  # truncated
        ("020305", (0, 0, 0)),  # an MSS of the wrong length is skipped
        ("03040700", (0, 0, 0)),
        ("040300", (0, 0, 0)),
        ("0202030307", (0, 0x87, 0)),
        ("020405b402040001", (1, 0, 0)),
    ],
)
def test_options_of_a_syn(data, wanted):
    assert read(bytes.fromhex(data)) == wanted


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from([0, 1, 2, 3, 4, 5, 8, 10, 255]), max_size=40))
@example([8, 40, *[0] * 38])
@example([1] * 40)
def test_any_bytes_match_the_model(data):
    read(bytes(data))
