"""ICMP: pings are answered, nothing else is believed."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.net import (
    ETHERNET_HEADER,
    IP_HEADER,
    NET,
    OUT,
    PAYLOAD_OFFSET,
    PROTOCOL_ICMP,
    TTL,
    EthernetHeader,
    EtherType,
    IcmpHeader,
    Ipv4Header,
    NetCounters,
    NetState,
    swapped,
)
from firmware.layouts.node import NETWORK, Network
from firmware.limits import FRAME_MAX
from firmware.net.answer import net_answer
from firmware.net.checksum import checksum
from firmware.nic.queue import nic_commit, nic_reserve
from toolchain.asm import (
    AX,
    EAX,
    ECX,
    EDX,
    NE,
    NZ,
    R12,
    R12D,
    R13,
    R13D,
    R14,
    RBX,
    RDI,
    RSI,
    A,
    Asm,
    B,
    In,
    Reg32,
    Reg64,
    mem8,
    routine,
)

ECHO_REQUEST = 8
ECHO_MAX = FRAME_MAX - ETHERNET_HEADER - IP_HEADER
"""The longest message whose answer fits in a frame."""


@routine(
    inputs=[
        In(RSI, int, "the message"),
        In(ECX, int, "its bytes"),
        In(EDX, int, "who asks"),
    ],
    clobbers=CALLER_SAVED,
    reads=[IcmpHeader, NetState.rx_frame, NetState.ident, EthernetHeader, Network.ip, Network.mac],
    writes=[
        EthernetHeader,
        Ipv4Header,
        IcmpHeader,
        NetState.ident,
        NetCounters.icmp_bad,
        NetCounters.icmp_others,
        NetCounters.tx_no_buffer,
        NetCounters.echo_replies,
    ],
    calls=[checksum, net_answer, nic_reserve, nic_commit],
    saves=[RBX, R12, R13, R14],
    source="RFC 792; RFC 1122 3.2.2.6",
)
def icmp_input(a: Asm, message: Reg64, length: Reg32, source: Reg32) -> None:
    """Answer an echo request to the Ethernet address that it came from; no table is touched."""
    request, total, asker, out = RBX, R12D, R13D, R14
    counters = NET.it.counters
    with a.block() as bad:
        a.cmp(length, IcmpHeader.SIZE)
        a.leave(B, bad)
        a.cmp(length, ECHO_MAX)
        a.leave(A, bad)
        a.mov(request, message)
        a.mov(total, length)
        a.mov(asker, source)
        a.xor(EAX, EAX)
        a.call(checksum)
        a.test(AX, AX)
        a.leave(NZ, bad)
        a.cmp(IcmpHeader.at(request).kind, ECHO_REQUEST)
        with a.if_(NE):
            a.inc(counters.icmp_others)
            a.ret()
        a.cmp(IcmpHeader.at(request).code, 0)
        a.leave(NE, bad)
        a.call(net_answer)
        with a.if_(B):
            a.ret()
        a.call(nic_reserve)
        with a.if_(B):
            a.inc(counters.tx_no_buffer)
            a.ret()
        a.inc(counters.echo_replies)
        a.mov(out, RDI)

        ether, came = EthernetHeader.at(out), EthernetHeader.at(RSI)
        a.mov(RSI, NET.it.rx_frame)
        a.mov(EAX, came.source.m32())
        a.mov(ether.destination.m32(), EAX)
        a.mov(AX, came.source.m16(4))
        a.mov(ether.destination.m16(4), AX)
        a.mov(EAX, NETWORK.it.mac.m32())
        a.mov(ether.source.m32(), EAX)
        a.mov(AX, NETWORK.it.mac.m16(4))
        a.mov(ether.source.m16(4), AX)
        a.mov(ether.kind, swapped(EtherType.IPV4))

        header = Ipv4Header.at(out, ETHERNET_HEADER)
        a.mov(header.version, 0x45)
        a.mov(header.service, 0)
        a.lea(EAX, mem8(R12, IP_HEADER, ref=OUT))
        a.rol(AX, 8)
        a.mov(header.total, AX)
        a.inc(NET.it.ident)
        a.mov(AX, NET.it.ident)
        a.rol(AX, 8)
        a.mov(header.ident, AX)
        a.mov(header.fragment, 0)
        a.mov(header.ttl, TTL)
        a.mov(header.protocol, PROTOCOL_ICMP)
        a.mov(header.checksum, 0)
        a.mov(EAX, NETWORK.it.ip)
        a.mov(header.source, EAX)
        a.mov(header.destination, asker)
        a.xor(EAX, EAX)
        a.lea(RSI, header.version)
        a.mov(ECX, IP_HEADER)
        a.call(checksum)
        a.mov(header.checksum, AX)

        # The same message, type 0 instead of 8, with a new sum.
        reply = IcmpHeader.at(out, PAYLOAD_OFFSET)
        a.lea(RDI, reply.kind)
        a.mov(RSI, request)
        a.mov(ECX, total)
        a.rep_movsb()
        a.mov(reply.kind, 0)
        a.mov(reply.checksum, 0)
        a.xor(EAX, EAX)
        a.lea(RSI, reply.kind)
        a.mov(ECX, total)
        a.call(checksum)
        a.mov(reply.checksum, AX)
        a.lea(ECX, mem8(R12, PAYLOAD_OFFSET, ref=OUT))
        a.call(nic_commit)
        a.ret()
    a.inc(counters.icmp_bad)
    a.ret()
