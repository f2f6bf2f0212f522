"""IPv4 out: the next hop, the Ethernet and IP headers in place in the transmit buffer."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.net import (
    BROADCAST,
    ETHERNET_HEADER,
    IP_HEADER,
    NET,
    OUT,
    PAYLOAD_OFFSET,
    TTL,
    ArpEntry,
    EthernetHeader,
    EtherType,
    Ipv4Header,
    NetCounters,
    NetState,
    swapped,
)
from firmware.layouts.node import NETWORK, Network
from firmware.net.arp import arp_lookup
from firmware.net.checksum import checksum
from firmware.nic.queue import nic_commit, nic_reserve
from toolchain.asm import (
    AL,
    AX,
    CF,
    CX,
    DL,
    EAX,
    EBX,
    ECX,
    EDI,
    EDX,
    NE,
    NZ,
    R12,
    R12D,
    R12W,
    RAX,
    RBX,
    RCX,
    RDI,
    RSI,
    Asm,
    B,
    E,
    In,
    Out,
    Reg8,
    Reg32,
    Z,
    mem8,
    routine,
)

DONT_FRAGMENT = 0x4000
VERSION_WORDS = 0x45
LOOPBACK = 127
MULTICAST = 224
"""Addresses from 224.0.0.0 on are no hosts."""


@routine(
    inputs=[In(EDX, int, "destination")],
    outputs=[
        Out(EDX, "neighbour to send to; BROADCAST = everybody on the link"),
        Out(CF, "1 = no address of our own, or nobody can be meant"),
    ],
    clobbers=[RAX, RCX],
    reads=[Network.configured, Network.ip, Network.netmask, Network.router],
    source="RFC 1122 3.3.1.1",
)
def ip_next_hop(a: Asm, destination: Reg32) -> None:
    """Choose the next hop: the host itself on our link, else the router."""
    refused, found = a.label("refused"), a.label("found")
    network, mask = NETWORK.it, ECX
    a.cmp(destination, -1)
    a.je(found)
    a.cmp(network.configured, 1)
    a.jne(refused)
    # The first byte of the wire is the low one.
    a.cmp(DL, MULTICAST)
    a.jae(refused)
    a.cmp(DL, LOOPBACK)
    a.je(refused)
    a.test(DL, DL)
    a.jz(refused)
    a.cmp(destination, network.ip)
    a.je(refused)

    a.mov(mask, network.netmask)
    a.mov(EAX, destination)
    a.xor(EAX, network.ip)
    with a.block() as remote:
        a.test(mask, mask)
        a.leave(Z, remote)  # an unknown mask: leave it to the router, when there is one
        a.test(EAX, mask)
        a.leave(NZ, remote)
        a.not_(mask)
        a.mov(EAX, destination)
        a.not_(EAX)
        a.test(EAX, mask)
        a.jnz(found)
        a.mov(EDX, BROADCAST)
        a.jmp(found)
    a.mov(EAX, network.router)
    a.test(EAX, EAX)
    a.cmov(NZ, EDX, EAX)
    a.place(found)
    a.clc()
    a.ret()
    a.place(refused)
    a.stc()
    a.ret()


@routine(
    inputs=[In(EDX, int, "destination")],
    outputs=[Out(RDI, "where the payload goes"), Out(CF, "1 = not now")],
    clobbers=CALLER_SAVED,
    reads=[Network.mac, ArpEntry.mac],
    writes=[
        EthernetHeader,
        NetState.tx_frame,
        NetCounters.tx_no_address,
        NetCounters.tx_unresolved,
        NetCounters.tx_no_buffer,
    ],
    calls=[ip_next_hop, arp_lookup, nic_reserve],
    saves=[RBX, R12],
    source="firmware/docs/layers.md; RFC 894",
)
def ip_begin(a: Asm, destination: Reg32) -> None:
    """Reserve a frame for the next hop and write its Ethernet header."""
    counters, low, high = NET.it.counters, EBX, R12D
    fail = a.label("fail")
    a.call(ip_next_hop)
    with a.if_(B):
        a.inc(counters.tx_no_address)
        a.jmp(fail)
    a.mov(low, -1)
    a.mov(high, low)
    a.cmp(EDX, BROADCAST)
    with a.if_(NE):
        a.call(arp_lookup)
        with a.if_(B):
            a.inc(counters.tx_unresolved)
            a.jmp(fail)
        neighbour = ArpEntry.at(RSI)
        a.mov(low, neighbour.mac.m32())
        a.movzx(high, neighbour.mac.m16(4))
    a.call(nic_reserve)
    with a.if_(B):
        a.inc(counters.tx_no_buffer)
        a.jmp(fail)
    ether = EthernetHeader.at(RDI)
    a.mov(NET.it.tx_frame, RDI)
    a.mov(ether.destination.m32(), low)
    a.mov(ether.destination.m16(4), R12W)
    a.mov(EAX, NETWORK.it.mac.m32())
    a.mov(ether.source.m32(), EAX)
    a.mov(AX, NETWORK.it.mac.m16(4))
    a.mov(ether.source.m16(4), AX)
    a.mov(ether.kind, swapped(EtherType.IPV4))
    a.add(RDI, PAYLOAD_OFFSET)
    a.clc()
    a.ret()
    a.place(fail)
    a.xor(EDI, EDI)
    a.stc()
    a.ret()


@routine(
    inputs=[
        In(EDX, int, "destination, as in ip_begin"),
        In(ECX, int, "payload bytes"),
        In(AL, int, "protocol"),
    ],
    clobbers=CALLER_SAVED,
    reads=[NetState.tx_frame, NetState.ident, Network.ip, Network.configured],
    writes=[Ipv4Header, NetState.ident],
    calls=[checksum, nic_commit],
    saves=[RBX, R12],
    source="RFC 791; RFC 6864",
)
def ip_finish(a: Asm, destination: Reg32, length: Reg32, protocol: Reg8) -> None:
    """Complete the IPv4 header of the reserved frame and queue the frame."""
    header, total = Ipv4Header.at(RBX), R12D
    a.mov(RBX, NET.it.tx_frame)
    a.add(RBX, ETHERNET_HEADER)
    a.lea(total, mem8(RCX, IP_HEADER, ref=OUT))
    a.mov(header.version, VERSION_WORDS)
    a.mov(header.service, 0)
    a.mov(ECX, total)
    a.rol(CX, 8)
    a.mov(header.total, CX)
    a.inc(NET.it.ident)
    a.mov(CX, NET.it.ident)
    a.rol(CX, 8)
    a.mov(header.ident, CX)
    a.mov(header.fragment, swapped(DONT_FRAGMENT))
    a.mov(header.ttl, TTL)
    a.mov(header.protocol, protocol)
    a.mov(header.checksum, 0)
    # Before there is an address, only DHCP sends: from 0.0.0.0.
    a.xor(ECX, ECX)
    a.cmp(NETWORK.it.configured, 1)
    with a.if_(E):
        a.mov(ECX, NETWORK.it.ip)
    a.mov(header.source, ECX)
    a.mov(header.destination, destination)
    a.xor(EAX, EAX)
    a.mov(RSI, RBX)
    a.mov(ECX, IP_HEADER)
    a.call(checksum)
    a.mov(header.checksum, AX)
    a.lea(ECX, mem8(R12, ETHERNET_HEADER, ref=OUT))
    a.call(nic_commit)
    a.ret()
