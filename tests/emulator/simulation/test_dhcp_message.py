from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.dhcp import BOOTP, DHCP

from emulator.simulation import dhcp_message as d
from emulator.simulation.packet import PacketError, ip

MAC = bytes.fromhex("525400000001")
HEAD = d.DhcpMessage(2, 7, MAC).encode()[:236]


def reply(**fields) -> d.DhcpMessage:
    options = [(d.OPT_TYPE, bytes([d.OFFER])), (d.OPT_SERVER, ip("10.0.0.1"))]
    return d.DhcpMessage(2, 0x12345678, MAC, options, **fields)


def test_scapy_reads_what_we_write():
    message = reply(yiaddr=ip("10.0.0.50"), siaddr=ip("10.0.0.1"), file=b"nbp.bin")
    message.options += [(d.OPT_LEASE, (3600).to_bytes(4, "big")), (d.OPT_ROUTER, ip("10.0.0.1"))]
    seen = BOOTP(message.encode())
    assert (seen.xid, seen.yiaddr, seen.siaddr) == (0x12345678, "10.0.0.50", "10.0.0.1")
    assert seen.file.rstrip(b"\x00") == b"nbp.bin"
    assert seen[DHCP].options[:4] == [
        ("message-type", 2), ("server_id", "10.0.0.1"), ("lease_time", 3600), ("router", "10.0.0.1"),
    ]  # fmt: skip


def test_we_read_what_scapy_writes():
    options = [("message-type", "request"), ("requested_addr", "10.0.0.9"), "end"]
    raw = bytes(BOOTP(op=1, xid=5, chaddr=MAC, ciaddr="10.0.0.9") / DHCP(options=options))
    seen = d.DhcpMessage.decode(raw)
    assert (seen.op, seen.xid, seen.chaddr, seen.kind) == (1, 5, MAC, d.REQUEST)
    assert seen.option(d.OPT_REQUESTED_IP) == seen.ciaddr == ip("10.0.0.9")
    assert seen.option(d.OPT_ROUTER) is None


def test_overloaded_fields_hold_options():
    message = reply()
    message.options.append((d.OPT_OVERLOAD, b"\x03"))
    message.file_options = [(d.OPT_ROUTER, ip("10.0.2.2"))]
    message.sname_options = [(d.OPT_DNS, ip("10.0.2.3"))]
    raw = message.encode()
    assert raw[108:115] == bytes.fromhex("03040a000202ff")
    assert raw[44:51] == bytes.fromhex("06040a000203ff")
    seen = d.DhcpMessage.decode(raw)
    assert seen.option(d.OPT_ROUTER) == ip("10.0.2.2")
    assert seen.option(d.OPT_DNS) == ip("10.0.2.3")


@given(st.binary(max_size=700), st.lists(st.integers(0, 255), max_size=5))
def test_a_split_option_is_joined(value, sizes):
    value = value[: sum(sizes) + 255]
    message = reply()
    message.options += d.split_option(43, value, sizes)
    seen = d.DhcpMessage.decode(message.encode())
    assert seen.option(43) == (value if value or sizes else None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("350102" + "36", "DHCP option 54 runs past its field at byte 3"),
        ("36c8010203", "DHCP option 54 runs past its field at byte 0"),
    ],
)
def test_an_option_past_its_end_is_refused(options, message):
    with pytest.raises(PacketError, match=message):
        d.DhcpMessage.decode(HEAD + d.MAGIC + bytes.fromhex(options))


def test_options_that_do_not_fit_a_field_are_refused():
    message = reply(sname_options=[(43, bytes(70))])
    with pytest.raises(PacketError, match="73 bytes of options do not fit a field of 64"):
        message.encode()


def test_a_message_may_end_inside_an_option():
    message = reply(tail=b"\x36", minimum=0)
    assert message.encode()[-1:] == b"\x36"
    with pytest.raises(PacketError, match="option 54 runs past its field"):
        d.DhcpMessage.decode(message.encode())


@given(st.binary(max_size=80))
def test_no_options_do_more_than_raise_a_packet_error(options):
    with contextlib.suppress(PacketError):
        assert d.DhcpMessage.decode(HEAD + d.MAGIC + options).op == 2
