"""DHCP's options: where they stand, which of a kind counts, and what is cut off."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.simulation import dhcp_message as dm
from firmware.layouts.net import DhcpState
from firmware.net.dhcp_options import dhcp_options, dhcp_parse
from tests.support.dhcp import LAB, answer, client, raw, take
from tests.support.net import ip32


def options(bench, field):
    at = LAB.machine.alloc(len(field) + 1)
    LAB.machine.write(at, field + b"\x01")
    LAB.machine.write(bench.dhcp_options.address_, bytes(0x30))
    bench.call(dhcp_options, options=at, length=len(field))
    return bench.dhcp_options


def test_dhcp_options_overload_reads_file_then_sname():
    bench = client(DhcpState.REQUESTING)
    message = answer(
        dm.ACK,
        [(dm.OPT_OVERLOAD, b"\x03")],
        file_options=[(dm.OPT_ROUTER, raw("10.0.2.2"))],
        sname_options=[(dm.OPT_DNS, raw("10.0.2.3"))],
    )
    take(bench, message)
    assert bench.network.router == ip32("10.0.2.2")
    assert bench.network.dns1 == ip32("10.0.2.3")


def test_dhcp_options_first_of_a_kind_counts():
    bench = client(DhcpState.REQUESTING)
    found = options(bench, bytes((3, 4, 1, 1, 1, 1, 3, 4, 2, 2, 2, 2, 255)))
    assert found.router == ip32("1.1.1.1")


@pytest.mark.parametrize(
    "field",
    [
        b"",
        b"\x36",  # a tag with no length
        b"\x36\xc8\x0a\x00\x00",  # 200 bytes announced, three there
        b"\x36\x04\x0a\x00\x00",
        b"\x36\x03\x0a\x00\x00\xff",  # too short for an address
        b"\x00" * 40,
        b"\xff\x36\x04\x0a\x00\x00\x01",
    ],
)
def test_dhcp_options_truncated_or_short_are_not_taken(field):
    assert options(client(DhcpState.REQUESTING), field).seen == 0


def test_dhcp_options_long_vendor_option_split_is_passed_over():
    bench = client(DhcpState.REQUESTING)
    field = b"\x2b\xff" + bytes(255) + b"\x2b\x0a" + bytes(10) + b"\x36\x04\x0a\x00\x00\x01\xff"
    assert options(bench, field).server == ip32("10.0.0.1")


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 1, 3, 6, 51, 52, 53, 54, 58, 59, 255, 43, 200]),
            st.binary(max_size=9),
        ),
        max_size=12,
    ),
    st.integers(0, 6),
)
def test_dhcp_options_any_field_agrees_with_the_model(items, cut):
    bench = client(DhcpState.REQUESTING)
    field = b"".join(bytes((code, len(value))) + value for code, value in items)
    options(bench, field[: len(field) - cut] if cut < len(field) else field)


def test_dhcp_parse_short_message_is_refused():
    bench = client(DhcpState.REQUESTING)
    at = LAB.machine.alloc(300)
    assert bench.call(dhcp_parse, message=at, length=239).outputs["cf"] == 1
