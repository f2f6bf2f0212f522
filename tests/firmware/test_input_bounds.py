"""Every routine that reads what others wrote, at every cut of its input, at the edge of memory.

The input ends where nothing is mapped, or begins there, so that a load past that edge faults; at
the other edge the lockstep refuses a load of a byte that the model does not look at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from dnslib import CNAME, QTYPE, RR, A, DNSHeader, DNSRecord
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers import inet, l2
from scapy.layers.l2 import Dot1Q, Ether

from emulator.simulation import dhcp_message as dm
from emulator.simulation.dhcp_message import DhcpMessage
from firmware.crypto.base64 import base64_encode
from firmware.crypto.sha1 import sha1_digest
from firmware.gateway.poll import gateway_chunk
from firmware.json.feed import json_feed
from firmware.layouts.config import CONFIG
from firmware.layouts.control import CONTROL
from firmware.layouts.crypto import SHA1_MESSAGE_MAX
from firmware.layouts.dns import DNS, DnsState
from firmware.layouts.net import NET, DhcpState
from firmware.layouts.shard import ShardContext
from firmware.layouts.status import STATUS_REQUEST_MAGIC, StatusReply
from firmware.layouts.tcp import TcpState
from firmware.layouts.websocket import WsState
from firmware.net.arp import arp_input
from firmware.net.checksum import checksum
from firmware.net.dhcp import dhcp_input
from firmware.net.dhcp_options import dhcp_options, dhcp_parse
from firmware.net.dns import dns_resolve
from firmware.net.dns_message import dns_input, dns_walk
from firmware.net.dns_name import dns_expand, dns_parse_quad, dns_same_name
from firmware.net.icmp import icmp_input
from firmware.net.input import ip_input, net_input, udp_input
from firmware.net.start import net_start
from firmware.node.console import parse_milliseconds
from firmware.node.control import operator_input
from firmware.node.diagnostics import diagnostics_input
from firmware.tcp.demux import tcp_parse
from firmware.tcp.input import tcp_input
from firmware.tcp.options import tcp_options
from firmware.websocket.close import ws_peer_close
from firmware.websocket.frames import ws_pong
from firmware.websocket.header import ws_header
from firmware.websocket.request import ws_write_request
from firmware.websocket.response import ws_response
from firmware.websocket.utf8 import UTF8_ACCEPT, utf8_check
from tests.support.control import BOOT, KEY, command
from tests.support.lab import Lab
from tests.support.net import IP, MAC, NEEDED, PEER, PEER_MAC, ROUTER, START, NetBench, ip32
from tests.support.pages import tables_region
from toolchain.layout.pack import pack

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolchain.asm import Routine

ROUTINES = (
    arp_input, base64_encode, checksum, dhcp_input, dhcp_options, dhcp_parse, diagnostics_input,
    dns_expand, dns_input, dns_parse_quad, dns_resolve, dns_same_name, dns_walk, gateway_chunk,
    icmp_input, ip_input, json_feed, net_start, operator_input, parse_milliseconds, sha1_digest, tcp_input,
    tcp_options, tcp_parse, udp_input, utf8_check, ws_header, ws_peer_close, ws_pong, ws_response,
    ws_write_request,
)  # fmt: skip
LAB = Lab(*NEEDED, *ROUTINES, slots=1, semantics=False, extra=(tables_region(),))
NAME = b"gateway.test"
XID, DNS_ID, DNS_PORT, OUR_PORT = 0x1234_5678, 0x1234, 50_000, 50_123
ACCEPT = b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


@dataclass
class Case:
    """One routine and inputs for it.

    Attributes:
        routine: What reads the input.
        pointer: Name of the routine's input that points at it.
        length: Name of the one that holds its length.
        samples: Good inputs, which are cut at every length.
        prepare: Sets the node up; returns the other inputs.
        least: Shortest length that the contract allows.
    """

    routine: Routine
    pointer: str
    length: str
    samples: tuple[bytes, ...]
    prepare: Callable[[], dict[str, int]] = field(default=dict)
    least: int = 0

    def run(self, contents: bytes, *, first: bool) -> None:
        given = self.prepare()
        given |= {self.pointer: LAB.put(contents, first=first), self.length: len(contents)}
        LAB.call(self.routine, **given)


def fresh(**more: int) -> Callable[[], dict[str, int]]:
    """Return a preparation that starts from empty memory."""

    def prepare() -> dict[str, int]:
        LAB.reset()
        return dict(more)

    return prepare


def buffer(name: str, size: int, **more: int) -> Callable[[], dict[str, int]]:
    """Return a preparation with a buffer that the routine writes."""

    def prepare() -> dict[str, int]:
        LAB.reset()
        return {name: LAB.machine.alloc(size), **more}

    return prepare


def shard(**fields: int) -> Callable[[], dict[str, int]]:
    """Return a preparation with a shard whose WebSocket is in a state."""

    def prepare() -> dict[str, int]:
        LAB.reset()
        at = LAB.shard()
        context = LAB.view(ShardContext, at)
        context.websocket.accept[:] = ACCEPT
        context.tcp.state = TcpState.ESTABLISHED
        for name, value in fields.items():
            setattr(context.websocket, name, value)
        return {"shard": at}

    return prepare


def network(**more: int) -> Callable[[], dict[str, int]]:
    """Return a preparation with a started card, an address and a neighbour."""

    def prepare() -> dict[str, int]:
        bench = NetBench(LAB)
        bench.learn(PEER)
        LAB.g(NET).rx_frame = bench.put(FRAMES[0])
        return dict(more)

    return prepare


def commanded() -> dict[str, int]:
    """A node that takes commands."""
    given = network(source=ip32(PEER), port=4000)()
    config = LAB.g(CONFIG)
    config.control_key_len = len(KEY)
    config.control_key[:] = KEY.ljust(64, b"\0")
    LAB.g(CONTROL).boot = BOOT
    return given


def parser() -> dict[str, int]:
    """A parser where it belongs: in a shard's context."""
    LAB.reset()
    at = LAB.view(ShardContext, LAB.shard()).gateway.parser.address_
    LAB.machine.call("json_reset", {"rdi": at})
    return {"parser": at}


def in_string() -> dict[str, int]:
    """A parser that stands inside a string."""
    inputs = parser()
    LAB.call(json_feed, **inputs, text=LAB.put(b'{"x":"'), length=6)
    return inputs


def requesting() -> dict[str, int]:
    """A DHCP client that waits for its answer."""
    dhcp = NetBench(LAB, configured=False).dhcp
    dhcp.state, dhcp.xid, dhcp.server = DhcpState.REQUESTING, XID, ip32(ROUTER)
    dhcp.offered, dhcp.begun = ip32(IP), START
    return {}


def asking() -> dict[str, int]:
    """A question that waits for its answer."""
    NetBench(LAB)
    entry = LAB.g(DNS).entries[2]
    entry.state, entry.server, entry.port, entry.id = DnsState.PENDING, ip32(PEER), DNS_PORT, DNS_ID
    entry.name[0 : len(NAME)] = NAME
    entry.name_len = len(NAME)
    return {"source": ip32(PEER), "port": 53, "own_port": DNS_PORT}


def connected() -> dict[str, int]:
    NetBench(LAB).learn(PEER)
    LAB.shard()
    return {"source": ip32(PEER), "destination": ip32(IP)}


def _frame(payload: Any, **fields: Any) -> bytes:
    ether = Ether(dst=MAC.hex(":"), src=PEER_MAC.hex(":"))
    return bytes(ether / inet.IP(**({"src": PEER, "dst": IP} | fields)) / payload)


def _dhcp() -> bytes:
    message = DhcpMessage(2, int.from_bytes(XID.to_bytes(4, "little"), "big"), MAC)
    raw = {n: bytes(map(int, n.split("."))) for n in (IP, ROUTER, PEER)}
    message.yiaddr = raw[IP]
    message.options = [
        (dm.OPT_TYPE, b"\5"), (dm.OPT_SERVER, raw[ROUTER]), (dm.OPT_MASK, b"\xff\xff\xff\0"),
        (dm.OPT_ROUTER, raw[ROUTER]), (dm.OPT_DNS, raw[ROUTER] + raw[PEER]),
        (dm.OPT_LEASE, (3600).to_bytes(4, "big")),
    ]  # fmt: skip
    return message.encode()


def _answer() -> bytes:
    wire_id = int.from_bytes(DNS_ID.to_bytes(2, "little"), "big")
    record = DNSRecord(DNSHeader(id=wire_id, qr=1, ra=1), q=DNSRecord.question(NAME.decode()).q)
    record.add_answer(RR(NAME.decode(), QTYPE.CNAME, rdata=CNAME("b.test"), ttl=60))
    record.add_answer(RR("b.test", QTYPE.A, rdata=A("192.0.2.7"), ttl=60))
    return bytes(record.pack())


DHCP, ANSWER = _dhcp(), _answer()
TEXT = "0123456789abcdeé0123456789abcdef and ASCII behind it \U0001f600".encode()
HEAD = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket \r\nConnection: x, Upgrade\r\n"
    b"Sec-WebSocket-Accept: " + ACCEPT + b"\r\n\r\n\x81\x02{}"
)
REFUSED = b"HTTP/1.1 429 Too Many\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"
ENVELOPE = (
    b'{"t":"READY","s":12,"op":0,"d":{"session_id":"0123456789abcdef","x":[true,null,-1.5e3,"'
    + b"y" * 40
    + b'"],"resume_gateway_url":"wss://gateway.test/\\u00e9"}}'
)
SEGMENT = bytes(
    inet.TCP(sport=443, dport=OUR_PORT, flags="PA", options=[("MSS", 1460), ("WScale", 7)])
    / b"payload of the segment"
)
PING = bytes(inet.ICMP(type=8, id=7, seq=9) / b"some bytes")
ARP = bytes(l2.ARP(op=1, hwsrc=PEER_MAC.hex(":"), psrc=PEER, pdst=IP))
DATAGRAM = bytes(inet.UDP(sport=4000, dport=5000) / b"status?")
COMMAND = command(size=128)
STATUS = pack(StatusReply, {"magic": STATUS_REQUEST_MAGIC, "slot": 0, "nonce": 7})
OPTIONS = bytes.fromhex("020405b4010303080101080a00000001000000000402")
FRAMES = (
    bytes(Ether(dst=MAC.hex(":")) / ARP),
    _frame(inet.UDP(sport=4000, dport=5000) / b"status?"),
    _frame(inet.ICMP(type=8, id=7, seq=9) / b"some bytes"),
    _frame(inet.TCP(sport=443, dport=OUR_PORT), options=[inet.IPOption(b"\x94\x04\0\0")]),
    bytes(Ether(dst=MAC.hex(":")) / Dot1Q(vlan=0) / inet.IP(src=PEER, dst=IP) / PING),
)
IP_PACKETS = tuple(frame[14:] for frame in FRAMES[1:4])
SEEN = {"source": ip32(PEER), "destination": ip32(IP)}

CASES = {
    case.routine.name + suffix: case
    for suffix, case in (
        ("", Case(json_feed, "text", "length", (ENVELOPE,), parser)),
        ("-string", Case(json_feed, "text", "length", (b"y" * 49 + b'"}', TEXT), in_string)),
        ("", Case(gateway_chunk, "part", "length", (ENVELOPE, b'{"op":11}'),
                  lambda: shard(state=WsState.OPEN)() | {"place": 3})),
        ("", Case(utf8_check, "text", "length", (TEXT,), fresh(state=UTF8_ACCEPT))),
        ("", Case(ws_header, "frame", "available",
                  (b"\x81\x05hello", b"\x82\x7e\x01\x00", b"\x81\x7f" + (70000).to_bytes(8, "big")),
                  shard(state=WsState.OPEN))),
        ("", Case(ws_response, "head", "length", (HEAD, REFUSED), shard(state=WsState.HANDSHAKE))),
        ("", Case(ws_peer_close, "body", "length", (b"\x0f\xa0" + TEXT, b"\x03\xe8"),
                  shard(state=WsState.OPEN))),
        ("", Case(ws_pong, "payload", "length", (TEXT,), shard(state=WsState.OPEN))),
        ("", Case(ws_write_request, "host", "host_length", (NAME,),
                  lambda: shard()() | {"port": 443, "path": 0, "path_length": 0})),
        ("", Case(checksum, "data", "length", (DATAGRAM * 5 + b"!",), fresh(total=0))),
        ("", Case(sha1_digest, "message", "length", (bytes(range(SHA1_MESSAGE_MAX)),),
                  buffer("digest", 20))),
        ("", Case(base64_encode, "source", "length", (TEXT,), buffer("text", 128))),
        ("", Case(parse_milliseconds, "digits", "count", (b"4294967295",), fresh())),
        ("", Case(dns_parse_quad, "text", "length", (b"192.168.100.254",), fresh())),
        ("", Case(dns_resolve, "name", "length", (NAME, b"10.0.0.1"), network(), 1)),
        ("", Case(dns_expand, "message", "length", (ANSWER,), buffer("text", 256, start=12))),
        ("", Case(dns_input, "message", "length", (ANSWER,), asking)),
        ("", Case(dhcp_options, "options", "length", (DHCP[240:],), requesting)),
        ("", Case(dhcp_parse, "message", "length", (DHCP,), requesting)),
        ("", Case(dhcp_input, "message", "length", (DHCP,), requesting)),
        ("", Case(net_start, "ack", "length", (DHCP,), requesting)),
        ("", Case(arp_input, "packet", "length", (ARP,), network())),
        ("", Case(icmp_input, "message", "length", (PING, PING + b"!"), network(source=ip32(PEER)))),
        ("", Case(udp_input, "datagram", "length", (DATAGRAM,), network(**SEEN))),
        ("", Case(ip_input, "packet", "length", IP_PACKETS, network())),
        ("", Case(net_input, "frame", "length", FRAMES, network(), 14)),
        ("", Case(diagnostics_input, "request", "length", (STATUS,),
                  network(source=ip32(PEER), port=4000))),
        ("", Case(operator_input, "datagram", "length", (COMMAND,), commanded)),
        ("", Case(tcp_options, "at", "left", (OPTIONS, b"\x01" * 40), fresh())),
        ("", Case(tcp_parse, "segment", "length", (SEGMENT,), connected)),
        ("", Case(tcp_input, "segment", "length", (SEGMENT,), connected)),
    )
}  # fmt: skip


def cuts(length: int) -> list[int]:
    """Every length up to 80, some of the longer ones, and the last ones."""
    return [n for n in range(length + 1) if n <= 80 or n % 13 == 0 or n + 2 >= length]


@pytest.mark.parametrize("first", [False, True], ids=["ends", "begins"])
@pytest.mark.parametrize("name", CASES)
def test_no_routine_reads_past_its_input_at_any_length(name, first):
    case = CASES[name]
    for sample in case.samples:
        for cut in cuts(len(sample)):
            if cut >= case.least:
                case.run(sample[:cut], first=first)


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_no_routine_reads_past_its_input_when_bytes_are_wrong(name, data):
    """Lengths, offsets and counts inside the input say what they like."""
    case = CASES[name]
    sample = bytearray(data.draw(st.sampled_from(case.samples)))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(sample) - 1))
        sample[at] = data.draw(
            st.one_of(st.sampled_from([0, 1, 0x7F, 0x80, 0xC0, 0xFF]), st.integers(0, 255))
        )
    cut = data.draw(st.integers(case.least, len(sample)))
    case.run(bytes(sample[:cut]), first=data.draw(st.booleans()))
