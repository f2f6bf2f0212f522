"""UDP out: as IPv4, with ports and a checksum."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.net import (
    HARDWARE,
    NET,
    OUT,
    PAYLOAD_OFFSET,
    PROTOCOL_UDP,
    UDP_HEADER,
    EthernetHeader,
    EtherType,
    NetCounters,
    NetState,
    UdpHeader,
    swapped,
)
from firmware.layouts.node import NETWORK, Network
from firmware.net.answer import net_answer
from firmware.net.checksum import checksum
from firmware.net.ip import ip_begin, ip_finish
from firmware.nic.queue import nic_reserve
from toolchain.asm import (
    AE,
    AL,
    AX,
    CF,
    CX,
    EAX,
    ECX,
    EDI,
    EDX,
    R8D,
    R9D,
    R12,
    R12D,
    R13,
    R13D,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    C,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    Z,
    mem8,
    mem16,
    mem32,
    routine,
)

PSEUDO_PROTOCOL = PROTOCOL_UDP << 8
"""The pseudo-header's zero byte and protocol, as a word of the wire."""


@routine(
    inputs=[In(EDX, int, "destination")],
    outputs=[Out(RDI, "where the payload goes"), Out(CF, "1 = not now")],
    clobbers=CALLER_SAVED,
    calls=[ip_begin],
    source="firmware/docs/layers.md",
)
def udp_begin(a: Asm, destination: Reg32) -> None:
    """Reserve a frame; the payload lies after the UDP header."""
    a.call(ip_begin)
    with a.if_(AE):
        a.add(RDI, UDP_HEADER)
        a.clc()
    a.ret()


@routine(
    inputs=[In(RSI, int, "an Ethernet address, six bytes; not in a transmit buffer")],
    outputs=[Out(RDI, "where the payload goes"), Out(CF, "1 = not now")],
    clobbers=CALLER_SAVED,
    reads=[HARDWARE, Network.mac],
    writes=[EthernetHeader, NetState.tx_frame, NetCounters.tx_no_buffer],
    calls=[nic_reserve],
    saves=[RBX],
    source="firmware/docs/network.md#answers",
)
def udp_to(a: Asm, hardware: Reg64) -> None:
    """As `udp_begin`, to an Ethernet address that is known; no table is touched."""
    ether = EthernetHeader.at(RDI)
    a.mov(RBX, hardware)
    a.call(nic_reserve)
    with a.if_(C):
        a.inc(NET.it.counters.tx_no_buffer)
        a.xor(EDI, EDI)
        a.stc()
        a.ret()
    a.mov(NET.it.tx_frame, RDI)
    a.mov(EAX, mem32(RBX, ref=HARDWARE))
    a.mov(ether.destination.m32(), EAX)
    a.mov(AX, mem16(RBX, 4, ref=HARDWARE))
    a.mov(ether.destination.m16(4), AX)
    a.mov(EAX, NETWORK.it.mac.m32())
    a.mov(ether.source.m32(), EAX)
    a.mov(AX, NETWORK.it.mac.m16(4))
    a.mov(ether.source.m16(4), AX)
    a.mov(ether.kind, swapped(EtherType.IPV4))
    a.add(RDI, PAYLOAD_OFFSET + UDP_HEADER)
    a.clc()
    a.ret()


@routine(
    outputs=[Out(RDI, "where the payload goes"), Out(CF, "1 = not now")],
    clobbers=CALLER_SAVED,
    reads=[NetState.rx_frame],
    calls=[net_answer, udp_to],
    source="firmware/docs/network.md#answers",
)
def udp_answer(a: Asm) -> None:
    """As `udp_to`, to whoever sent the frame in hand, within the turn's bound.

    Whoever forges sources could otherwise fill the neighbours' table with them.
    """
    a.call(net_answer)
    with a.if_(C):
        a.xor(EDI, EDI)
        a.stc()
        a.ret()
    a.mov(RAX, NET.it.rx_frame)
    a.lea(RSI, EthernetHeader.at(RAX).source.address)
    a.jmp(udp_to)


@routine(
    inputs=[
        In(EDX, int, "destination, as in udp_begin"),
        In(ECX, int, "payload bytes"),
        In(R8D, int, "source port"),
        In(R9D, int, "destination port"),
    ],
    clobbers=CALLER_SAVED,
    reads=[NetState.tx_frame, Network.ip, Network.configured],
    writes=[UdpHeader],
    calls=[checksum, ip_finish],
    saves=[RBX, R12, R13],
    source="RFC 768",
)
def udp_finish(
    a: Asm, destination: Reg32, length: Reg32, source_port: Reg32, destination_port: Reg32
) -> None:
    """Complete UDP and IPv4 headers and queue the frame."""
    header, total, to = UdpHeader.at(RBX), R12D, R13D
    a.mov(to, destination)
    a.lea(total, mem8(RCX, UDP_HEADER, ref=OUT))
    a.mov(RBX, NET.it.tx_frame)
    a.add(RBX, PAYLOAD_OFFSET)
    a.mov(EAX, source_port)
    a.rol(AX, 8)
    a.mov(header.source, AX)
    a.mov(EAX, destination_port)
    a.rol(AX, 8)
    a.mov(header.destination, AX)
    a.mov(ECX, total)
    a.rol(CX, 8)
    a.mov(header.length, CX)
    a.mov(header.checksum, 0)

    # Pseudo-header: addresses, protocol, length, all as loaded from the wire.
    a.movzx(EAX, CX)
    a.add(EAX, PSEUDO_PROTOCOL)
    a.mov(EDX, to)
    a.add(RAX, RDX)
    a.cmp(NETWORK.it.configured, 1)
    with a.if_(E):
        a.mov(EDX, NETWORK.it.ip)
        a.add(RAX, RDX)
    a.mov(RSI, RBX)
    a.mov(ECX, total)
    a.call(checksum)
    a.test(AX, AX)
    with a.if_(Z):
        a.dec(EAX)  # 0 would say that there is no checksum
    a.mov(header.checksum, AX)
    a.mov(EDX, to)
    a.mov(ECX, total)
    a.mov(AL, PROTOCOL_UDP)
    a.call(ip_finish)
    a.ret()
