"""The encoders and decoders against scapy, and against damaged input."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Raw

from emulator.simulation import packet as p

A, B = "10.0.0.1", "192.0.2.77"
MAC_A, MAC_B = "52:54:00:00:00:01", "52:54:00:00:00:02"
payloads = st.binary(max_size=200)
words = st.integers(0, 0xFFFFFFFF)
ports = st.integers(0, 0xFFFF)


def ones_complement_sum(data: bytes) -> int:
    """RFC 1071 as it stands, word by word."""
    data += b"\x00" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return int(total) ^ 0xFFFF


@given(
    st.one_of(st.binary(), st.sampled_from([b"\xff\xff", b"\xff\xff\xff\xff", b"\x00\x01\xff\xfe"]))
)
def test_checksum_is_the_ones_complement_sum(data):
    assert p.checksum(data) == ones_complement_sum(data)


def test_addresses_are_read_and_written():
    assert p.mac(MAC_A) == bytes.fromhex("525400000001")
    assert p.mac_text(p.mac(MAC_A)) == MAC_A
    assert p.ip_text(p.ip(B)) == B


@pytest.mark.parametrize("text", ["10.0.0", "10.0.0.256", "10.0.0.x", ""])
def test_a_bad_address_says_what_to_write(text):
    with pytest.raises(p.PacketError, match=r"no IPv4 address: write four numbers, 10\.0\.0\.1"):
        p.ip(text)


@given(st.tuples(payloads, words, words, st.integers(0, 63), ports, ports, ports))
def test_tcp_over_ethernet_is_what_scapy_builds(values):
    payload, seq, ack, flags, window, sport, dport = values
    options = p.TcpOptions(mss=1460, scale=7, sack_ok=True)
    ours = p.Tcp(sport, dport, seq, ack, flags, window, payload, options.encode())
    packet = p.Ipv4(p.ip(A), p.ip(B), 6, ours.encode(p.ip(A), p.ip(B)), ident=9)
    frame = p.Ethernet(p.mac(MAC_B), p.mac(MAC_A), 0x800, packet.encode()).encode()
    theirs = (
        Ether(dst=MAC_B, src=MAC_A)
        / IP(src=A, dst=B, id=9, flags="DF", ttl=64)
        / TCP(sport=sport, dport=dport, seq=seq, ack=ack, flags=flags, window=window,
              options=[("MSS", 1460), ("SAckOK", b""), ("WScale", 7), ("NOP", None),
                       ("NOP", None), ("NOP", None)])
        / Raw(payload)
    )  # fmt: skip
    assert frame == bytes(theirs)
    read = p.Tcp.decode(p.Ipv4.decode(p.Ethernet.decode(frame).payload).payload, p.ip(A), p.ip(B))
    assert read == ours
    found = p.TcpOptions.decode(read.options)
    assert (found.mss, found.scale, found.sack_ok, found.order) == (1460, 7, True, (2, 4, 3))


@given(payloads, ports, ports)
def test_udp_is_what_scapy_builds(payload, sport, dport):
    ours = p.Udp(sport, dport, payload)
    raw = ours.encode(p.ip(A), p.ip(B))
    theirs = IP(src=A, dst=B) / UDP(sport=sport, dport=dport) / Raw(payload)
    assert raw == bytes(theirs)[20:]
    assert p.Udp.decode(raw, p.ip(A), p.ip(B)) == ours


def test_udp_without_checksum_is_accepted_and_a_wrong_one_is_not():
    plain = p.Udp(1, 2, b"abc")
    raw = plain.encode(p.ip(A), p.ip(B), checksummed=False)
    assert p.Udp.decode(raw, p.ip(A), p.ip(B)) == plain
    with pytest.raises(p.PacketError, match="UDP datagram with a wrong checksum"):
        p.Udp.decode(raw[:6] + b"\x12\x34" + raw[8:], p.ip(A), p.ip(B))


@given(payloads)
def test_icmp_echo_is_what_scapy_builds(payload):
    ours = p.Icmp(8, 0, b"\x00\x07\x00\x03", payload)
    assert ours.encode() == bytes(ICMP(type=8, id=7, seq=3) / Raw(payload))
    assert p.Icmp.decode(ours.encode()) == ours


def test_arp_is_what_scapy_builds():
    ours = p.Arp(1, p.mac(MAC_A), p.ip(A), p.ZERO_MAC, p.ip(B))
    assert ours.encode() == bytes(ARP(op=1, hwsrc=MAC_A, psrc=A, hwdst="00:00:00:00:00:00", pdst=B))
    assert p.Arp.decode(ours.encode() + bytes(18)) == ours


def test_a_tagged_frame_is_what_scapy_builds():
    ours = p.Ethernet(p.mac(MAC_B), p.mac(MAC_A), 0x800, b"abc", vlan=0xE000)
    theirs = Ether(dst=MAC_B, src=MAC_A) / Dot1Q(prio=7, vlan=0, type=0x800) / Raw(b"abc")
    assert ours.encode() == bytes(theirs)
    assert p.Ethernet.decode(ours.encode()) == ours


@given(st.binary(min_size=1, max_size=3000), st.integers(68, 1500))
def test_fragments_are_what_scapy_reassembles(payload, mtu):
    pieces = p.Ipv4(p.ip(A), p.ip(B), 17, payload, ident=5).fragments(mtu)
    assert all(len(piece.encode()) <= mtu for piece in pieces)
    joined = b""
    for piece in pieces:
        seen = IP(piece.encode())
        assert seen.frag * 8 == len(joined)
        joined += piece.payload
        assert bool(seen.flags.MF) == (piece is not pieces[-1])
    assert joined == payload


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("01020000", "TCP option 2 has length 0 at byte 1"),
        ("0201", "TCP option 2 has length 1 at byte 0"),
        ("080a0000", "TCP option 8 has length 10 at byte 0"),
        ("0502ff", "TCP option 255 has length 0 at byte 2"),
    ],
)
def test_broken_tcp_options_are_refused(options, message):
    with pytest.raises(p.PacketError, match=message):
        p.TcpOptions.decode(bytes.fromhex(options))


def test_sack_and_timestamps_survive():
    options = p.TcpOptions(sack=((1, 2), (0xFFFFFFF0, 3)), timestamps=(7, 9))
    found = p.TcpOptions.decode(options.encode())
    assert (found.sack, found.timestamps) == (options.sack, options.timestamps)


@given(st.binary(max_size=80))
def test_no_input_does_more_than_raise_a_packet_error(data):
    readers = (
        p.Ethernet.decode,
        p.Arp.decode,
        p.Ipv4.decode,
        p.Icmp.decode,
        lambda raw: p.Udp.decode(raw, p.ip(A), p.ip(B)),
        lambda raw: p.Tcp.decode(raw, p.ip(A), p.ip(B)),
        p.TcpOptions.decode,
    )
    for read in readers:
        with contextlib.suppress(p.PacketError):
            assert read(data) is not None


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda raw: b"\x55" + raw[1:], "starts with 0x55"),
        (lambda raw: raw[:2] + b"\xff\xff" + raw[4:], "total length of 65535 in 23 bytes"),
        (lambda raw: raw[:8] + b"\x01" + raw[9:], "wrong checksum"),
        (lambda raw: raw[:12], "has no header"),
    ],
)
def test_a_damaged_ipv4_header_is_refused(damage, message):
    raw = p.Ipv4(p.ip(A), p.ip(B), 17, b"abc").encode()
    with pytest.raises(p.PacketError, match=message):
        p.Ipv4.decode(damage(raw))
