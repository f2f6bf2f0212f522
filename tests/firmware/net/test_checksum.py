"""The Internet checksum against RFC 1071 and against itself."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from firmware.net.checksum import checksum
from tests.support.lab import Lab

LAB = Lab(checksum)
BUFFER = LAB.machine.alloc(2048)


def of(data: bytes, start: int = 0) -> int:
    LAB.machine.write(BUFFER, data)
    return LAB.call(checksum, total=start, data=BUFFER, length=len(data)).outputs["ax"]


def test_checksum_of_the_example_in_rfc_1071():
    assert of(bytes.fromhex("0001f203f4f5f6f7")) == int.from_bytes(bytes.fromhex("220d"), "little")


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 2**64 - 1))
@example(b"\xff" * 64, 2**64 - 1)
@example(b"\xff" * 200, 2**64 - 1)
@example(b"", 0)
@example(b"\xff\xff\x00\x00", 0)
def test_checksum_any_bytes_matches_the_rule(data, start):
    of(data, start)


@settings(max_examples=30, deadline=None)
@given(st.binary(min_size=4, max_size=1480))
def test_checksum_of_a_packet_that_holds_its_sum_is_zero(data):
    words = data[: len(data) // 2 * 2]
    found = of(words[2:])
    assert of(found.to_bytes(2, "little") + words[2:]) == 0
