"""Frames in: what is for us goes to its protocol, everything else is counted and dropped."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.net import (
    DHCP_CLIENT_PORT,
    DHCP_SERVER_PORT,
    ETHERNET_HEADER,
    IP_HEADER,
    NET,
    PROTOCOL_ICMP,
    PROTOCOL_TCP,
    PROTOCOL_UDP,
    TAG_BYTES,
    UDP_HEADER,
    WIRE,
    EthernetHeader,
    EtherType,
    Ipv4Header,
    NetCounters,
    NetState,
    Tag,
    UdpHeader,
    swapped,
)
from firmware.layouts.nic import NIC, Nic
from firmware.layouts.node import NETWORK, Network
from firmware.net.arp import arp_input
from firmware.net.checksum import checksum
from firmware.net.dhcp import dhcp_input
from firmware.net.icmp import icmp_input
from firmware.net.ip import LOOPBACK, MULTICAST
from firmware.net.udp import PSEUDO_PROTOCOL
from toolchain.asm import (
    AE,
    AX,
    BE,
    CF,
    DL,
    DX,
    EAX,
    ECX,
    EDX,
    ESI,
    NE,
    NZ,
    R8,
    R8D,
    R8W,
    R9D,
    R9W,
    R10D,
    R12,
    R12D,
    R12W,
    R13,
    R13D,
    R14,
    R14D,
    RAX,
    RBX,
    RDX,
    RSI,
    A,
    Asm,
    B,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    Z,
    mem8,
    mem16,
    routine,
)

VID_MASK = swapped(0x0FFF)
FRAGMENT_MASK = swapped(0x3FFF)
"""More-fragments and the offset; don't-fragment may be set."""
TCP_CHECKSUM = 16
TCP_HEADER = 20

DELIVERED = (
    Out(CF, "1 = a TCP segment for us"),
    Out(EAX, "PROTOCOL_TCP with CF = 1; PROTOCOL_UDP = a datagram for the node; 0 = done"),
    Out(RSI, "TCP segment or UDP payload"),
    Out(ECX, "its bytes"),
    Out(EDX, "source address"),
    Out(R8D, "TCP: destination address; UDP: source port"),
    Out(R9D, "UDP: destination port"),
)


def _nothing(a: Asm) -> None:
    """Return that the frame is done."""
    for reg in (EAX, ESI, ECX, EDX, R8D, R9D):  # unrolled: every output
        a.xor(reg, reg)
    a.ret()  # XOR has cleared CF


@routine(
    inputs=[
        In(RSI, int, "the datagram"),
        In(ECX, int, "bytes of the IPv4 payload"),
        In(EDX, int, "source address"),
        In(R8D, int, "destination address"),
    ],
    outputs=DELIVERED,
    clobbers=CALLER_SAVED,
    reads=[UdpHeader, Nic.trusted, Network.configured, Network.ip],
    writes=[NetCounters.udp_bad, NetCounters.udp_ports],
    calls=[checksum, dhcp_input],
    saves=[RBX, R12, R13, R14],
    source="RFC 768; RFC 1122 4.1.3",
)
def udp_input(a: Asm, datagram: Reg64, length: Reg32, source: Reg32, destination: Reg32) -> None:
    """Check a datagram; DHCP is handled here, what else is for our address goes to the node."""
    header, total, sender, target = UdpHeader.at(RBX), R12D, R13D, R14D
    done, port = a.label("done"), a.label("port")
    with a.block() as bad:
        a.cmp(length, UDP_HEADER)
        a.leave(B, bad)
        a.mov(RBX, datagram)
        a.movzx(total, header.length)
        a.rol(R12W, 8)
        a.cmp(total, UDP_HEADER)
        a.leave(B, bad)
        a.cmp(total, length)
        a.leave(A, bad)
        a.mov(sender, source)
        a.mov(target, destination)

        # No sum, or a host that vouches for it: nothing to check.
        with a.block() as good:
            a.cmp(header.checksum, 0)
            a.leave(E, good)
            a.cmp(NIC.it.trusted, 0)
            a.leave(NE, good)
            a.movzx(EAX, header.length)
            a.add(EAX, PSEUDO_PROTOCOL)
            a.add(RAX, R13)
            a.add(RAX, R14)
            a.mov(ECX, total)
            a.call(checksum)
            a.test(AX, AX)
            a.leave(NZ, bad)

        a.lea(RSI, mem8(RBX, UDP_HEADER, ref=WIRE))
        a.lea(ECX, mem8(R12, -UDP_HEADER, ref=WIRE))
        a.cmp(header.destination, swapped(DHCP_CLIENT_PORT))
        with a.if_(E):
            a.cmp(header.source, swapped(DHCP_SERVER_PORT))
            a.jne(port)
            a.call(dhcp_input)
            a.jmp(done)
        a.cmp(NETWORK.it.configured, 1)
        a.jne(port)
        a.cmp(target, NETWORK.it.ip)
        a.jne(port)
        a.mov(EDX, sender)
        a.movzx(R8D, header.source)
        a.rol(R8W, 8)
        a.movzx(R9D, header.destination)
        a.rol(R9W, 8)
        a.mov(EAX, PROTOCOL_UDP)
        a.clc()
        a.ret()
    a.inc(NET.it.counters.udp_bad)
    a.jmp(done)
    a.place(port)
    a.inc(NET.it.counters.udp_ports)
    a.place(done)
    _nothing(a)


@routine(
    inputs=[In(RSI, int, "the packet"), In(ECX, int, "bytes to the end of the frame")],
    outputs=DELIVERED,
    clobbers=CALLER_SAVED,
    reads=[Ipv4Header, Nic.trusted, Network.configured, Network.ip, Network.netmask],
    writes=[
        NetCounters.short_frames,
        NetCounters.ip_headers,
        NetCounters.ip_checksums,
        NetCounters.ip_fragments,
        NetCounters.ip_sources,
        NetCounters.ip_others,
        NetCounters.ip_protocols,
        WIRE,
    ],
    calls=[checksum, udp_input, icmp_input],
    saves=[RBX, R12, R13],
    source="RFC 791; RFC 1122 3.2.1",
)
def ip_input(a: Asm, packet: Reg64, length: Reg32) -> None:
    """Check an IPv4 packet and hand its payload on; fragments are never put together."""
    header, total, words = Ipv4Header.at(RBX), R12D, R13D
    counters = NET.it.counters
    done = a.label("done")
    others, protocols, udp = a.label("others"), a.label("protocols"), a.label("udp")

    a.cmp(length, IP_HEADER)
    with a.if_(B):
        a.inc(counters.short_frames)
        a.jmp(done)
    a.mov(RBX, packet)
    with a.block() as checked:
        with a.block() as wrong:
            a.movzx(words, header.version)
            a.sub(words, 0x45)
            a.leave(B, wrong)
            a.cmp(words, 0x4F - 0x45)
            a.leave(A, wrong)
            a.lea(words, mem8(None, IP_HEADER, ref=WIRE, index=R13, scale=4))
            a.movzx(total, header.total)
            a.rol(R12W, 8)
            a.cmp(total, words)
            a.leave(B, wrong)
            a.cmp(total, length)
            a.leave(BE, checked)
        a.inc(counters.ip_headers)
        a.jmp(done)
    a.xor(EAX, EAX)
    a.mov(ECX, words)
    a.call(checksum)
    a.test(AX, AX)
    with a.if_(NZ):
        a.inc(counters.ip_checksums)
        a.jmp(done)
    a.test(header.fragment, FRAGMENT_MASK)
    with a.if_(NZ):
        a.inc(counters.ip_fragments)
        a.jmp(done)
    with a.block() as believable:
        a.mov(EDX, header.source)
        with a.block() as strange:
            a.test(DL, DL)
            a.leave(Z, strange)
            a.cmp(DL, LOOPBACK)
            a.leave(E, strange)
            a.cmp(DL, MULTICAST)
            a.leave(B, believable)
        a.inc(counters.ip_sources)
        a.jmp(done)

    a.lea(RSI, mem8(RBX, ref=WIRE, index=R13))
    a.sub(total, words)
    a.mov(ECX, total)
    a.mov(R8D, header.destination)
    a.movzx(EAX, header.protocol)
    a.cmp(NETWORK.it.configured, 1)
    with a.if_(NE):
        # Before there is an address, an answer of a DHCP server may come to any.
        a.cmp(EAX, PROTOCOL_UDP)
        a.je(udp)
        a.jmp(others)
    a.cmp(R8D, NETWORK.it.ip)
    with a.if_(NE):
        # To everybody, or everybody of our network: UDP only.
        with a.block() as everybody:
            a.cmp(R8D, -1)
            a.leave(E, everybody)
            a.mov(R9D, NETWORK.it.netmask)
            a.mov(R10D, R8D)
            a.xor(R10D, NETWORK.it.ip)
            a.test(R10D, R9D)
            a.jnz(others)
            a.not_(R9D)
            a.mov(R10D, R8D)
            a.not_(R10D)
            a.test(R10D, R9D)
            a.jnz(others)
        a.cmp(EAX, PROTOCOL_UDP)
        a.je(udp)
        a.jmp(protocols)
    a.cmp(EAX, PROTOCOL_TCP)
    with a.if_(E):
        a.cmp(NIC.it.trusted, 0)
        with a.if_(NE):
            a.cmp(ECX, TCP_HEADER)
            with a.if_(AE):
                _complete(a)
        a.xor(R9D, R9D)
        a.mov(EAX, PROTOCOL_TCP)
        a.stc()
        a.ret()
    a.cmp(EAX, PROTOCOL_UDP)
    a.je(udp)
    a.cmp(EAX, PROTOCOL_ICMP)
    a.jne(protocols)
    a.call(icmp_input)
    a.jmp(done)

    a.place(udp)
    a.call(udp_input)
    a.ret()
    a.place(others)
    a.inc(counters.ip_others)
    a.jmp(done)
    a.place(protocols)
    a.inc(counters.ip_protocols)
    a.place(done)
    _nothing(a)


def _complete(a: Asm) -> None:
    """Finish a TCP checksum that the host vouches for but left half done.

    RSI, ECX, EDX and R8D are the segment as handed on; they are the same afterwards.
    """
    header = Ipv4Header.at(RBX)
    a.mov(mem16(RSI, TCP_CHECKSUM, ref=WIRE), 0)
    a.mov(EAX, ECX)
    a.rol(AX, 8)
    a.add(EAX, PROTOCOL_TCP << 8)
    a.add(RAX, RDX)
    a.add(RAX, R8)
    a.call(checksum)
    a.lea(RSI, mem8(RBX, ref=WIRE, index=R13))
    a.mov(mem16(RSI, TCP_CHECKSUM, ref=WIRE), AX)
    a.mov(ECX, R12D)
    a.mov(EDX, header.source)


@routine(
    inputs=[In(RSI, int, "the frame"), In(ECX, int, "its bytes, at least 14")],
    outputs=DELIVERED,
    clobbers=CALLER_SAVED,
    reads=[EthernetHeader, Tag, Network.mac],
    writes=[
        NetState.rx_frame,
        NetCounters.not_for_us,
        NetCounters.tagged,
        NetCounters.other_types,
        NetCounters.short_frames,
    ],
    calls=[arp_input, ip_input],
    source="firmware/docs/layers.md; RFC 894; IEEE 802.1Q 9.6",
)
def net_input(a: Asm, frame: Reg64, length: Reg32) -> None:
    """Handle one received frame; a tag with VID 0 is only a priority."""
    ether, tag = EthernetHeader.at(RSI), Tag.at(RSI, 12)
    counters = NET.it.counters
    done = a.label("done")
    a.mov(NET.it.rx_frame, frame)
    with a.block() as ours:
        with a.block() as other:
            a.mov(EAX, ether.destination.m32())
            a.movzx(EDX, ether.destination.m16(4))
            a.cmp(EAX, NETWORK.it.mac.m32())
            with a.if_(E):
                a.cmp(DX, NETWORK.it.mac.m16(4))
                a.leave(E, ours)
            a.cmp(EAX, -1)
            a.leave(NE, other)
            a.cmp(EDX, 0xFFFF)
            a.leave(E, ours)
        a.inc(counters.not_for_us)
        a.jmp(done)
    a.movzx(EAX, ether.kind)
    a.sub(ECX, ETHERNET_HEADER)
    a.cmp(EAX, swapped(EtherType.TAG))
    with a.if_(E):
        a.sub(ECX, TAG_BYTES)
        with a.if_(B):
            a.inc(counters.short_frames)
            a.jmp(done)
        a.test(tag.control, VID_MASK)
        with a.if_(NZ):
            a.inc(counters.tagged)
            a.jmp(done)
        a.movzx(EAX, tag.inner)
        a.add(RSI, TAG_BYTES)
    a.add(RSI, ETHERNET_HEADER)
    a.cmp(EAX, swapped(EtherType.IPV4))
    with a.if_(E):
        a.call(ip_input)
        a.ret()
    a.cmp(EAX, swapped(EtherType.ARP))
    with a.if_(E):
        a.call(arp_input)
        a.jmp(done)
    a.inc(counters.other_types)
    a.place(done)
    _nothing(a)
