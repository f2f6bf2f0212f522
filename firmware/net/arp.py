"""Neighbours: a table that only our own traffic fills, aged, asked for again, never flooded."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.net import (
    ARP,
    ARP_ENTRIES,
    ARP_LIFE_MS,
    ARP_REFRESH_MS,
    ARP_RETRY_MS,
    ETHERNET_HEADER,
    NET,
    WIRE,
    ArpEntry,
    ArpPacket,
    ArpState,
    EthernetHeader,
    EtherType,
    NetCounters,
    swapped,
)
from firmware.layouts.node import CLOCK, NETWORK, Clock, CoreState, Network, core
from firmware.nic.queue import nic_commit, nic_reserve
from toolchain.asm import (
    AE,
    AX,
    CF,
    EAX,
    ECX,
    EDX,
    ESI,
    NE,
    NZ,
    R8,
    R12,
    R12D,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    B,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    Z,
    mem16,
    mem32,
    routine,
)

ARP_LENGTH = ETHERNET_HEADER + ArpPacket.SIZE
REQUEST, REPLY = 1, 2
# Hardware 1, protocol IPv4, lengths 6 and 4, as six bytes of the wire.
FIXED_LOW = 0x0008_0100
FIXED_HIGH = 0x0406


def cycles(a: Asm, into: Reg64, milliseconds: int) -> None:
    """Load a time span in TSC cycles."""
    a.imul(into, CLOCK.it.tsc_cycles_per_ms, milliseconds)


@routine(
    inputs=[In(EDX, int, "IPv4 address")],
    outputs=[Out(RSI, "its ArpEntry; 0 = none")],
    clobbers=[RCX],
    reads=[ArpEntry.ip, ArpEntry.state],
    source="RFC 826",
)
def arp_find(a: Asm, ip: Reg32) -> None:
    """Find the entry of an address."""
    entry, left = ArpEntry.at(RSI), ECX
    a.lea(RSI, ARP.it.entries.address)
    a.mov(left, ARP_ENTRIES)
    with a.loop() as search:
        a.cmp(entry.ip, ip)
        with a.if_(E):
            a.cmp(entry.state, ArpState.FREE)
            with a.if_(NE):
                a.ret()
        a.add(RSI, ArpEntry.SIZE)
        a.dec(left)
        a.again(NZ, search)
    a.xor(ESI, ESI)
    a.ret()


@routine(
    inputs=[In(EDX, int, "IPv4 address without an entry")],
    outputs=[Out(RSI, "its new ArpEntry, ASKING")],
    clobbers=[RAX, RCX, RDI, R8],
    reads=[
        ArpEntry.ip,
        ArpEntry.state,
        ArpEntry.used,
        Network.router,
        Network.dns1,
        Network.dns2,
    ],
    writes=[ArpEntry],
    source="firmware/docs/network.md#neighbours",
)
def arp_create(a: Asm, ip: Reg32) -> None:
    """Make an entry: a free one, else the one unused for longest, never the router's or a DNS's."""
    entry, chosen = ArpEntry.at(RDI), ArpEntry.at(RSI)
    left, best, network = ECX, R8, NETWORK.it
    a.lea(RDI, ARP.it.entries.address)
    a.mov(left, ARP_ENTRIES)
    a.mov(best, -1)
    a.mov(RSI, RDI)
    with a.loop() as search:
        with a.block() as pinned:
            a.xor(EAX, EAX)  # a free entry is older than all others
            a.cmp(entry.state, ArpState.FREE)
            with a.if_(NE):
                a.mov(EAX, entry.ip)
                for kept in (network.router, network.dns1, network.dns2):  # unrolled: three of them
                    a.cmp(EAX, kept)
                    a.leave(E, pinned)
                a.mov(RAX, entry.used)
            a.cmp(RAX, best)
            with a.if_(B):
                a.mov(best, RAX)
                a.mov(RSI, RDI)
        a.add(RDI, ArpEntry.SIZE)
        a.dec(left)
        a.again(NZ, search)
    a.xor(EAX, EAX)
    a.mov(chosen.ip, ip)
    a.mov(chosen.state, ArpState.ASKING)
    a.mov(chosen.expires, RAX)
    a.mov(chosen.asked, RAX)
    a.mov(chosen.used, RAX)
    a.ret()


@routine(
    inputs=[In(RSI, ArpEntry, "whom to ask for")],
    clobbers=CALLER_SAVED,
    reads=[
        Clock.tsc_cycles_per_ms,
        CoreState.now,
        ArpEntry.asked,
        ArpEntry.ip,
        Network.mac,
        Network.ip,
    ],
    writes=[
        ArpEntry.asked,
        NetCounters.arp_requests,
        NetCounters.tx_no_buffer,
        EthernetHeader,
        ArpPacket,
    ],
    calls=[nic_reserve, nic_commit],
    saves=[RBX],
    source="RFC 826; RFC 1122 2.3.2.1",
)
def arp_ask(a: Asm, entry: ArpEntry) -> None:
    """Broadcast a request, at most one a second for each address."""
    asked = ArpEntry.at(RBX)
    a.mov(RBX, RSI)
    a.mov(RCX, asked.asked)
    a.test(RCX, RCX)
    with a.if_(NZ):
        cycles(a, RAX, ARP_RETRY_MS)
        a.mov(RDX, core.now)
        a.sub(RDX, RCX)
        a.cmp(RDX, RAX)
        with a.if_(B):
            a.ret()
    a.call(nic_reserve)
    with a.if_(B):
        a.inc(NET.it.counters.tx_no_buffer)
        a.ret()
    a.mov(RAX, core.now)
    a.mov(asked.asked, RAX)
    a.inc(NET.it.counters.arp_requests)
    ether = EthernetHeader.at(RDI)
    packet = ArpPacket.at(RDI, ETHERNET_HEADER)
    a.mov(EAX, -1)
    a.mov(ether.destination.m32(), EAX)
    a.mov(ether.destination.m16(4), AX)
    _own_half(a, ether, packet, REQUEST)
    a.xor(EAX, EAX)
    a.mov(packet.target_mac.m32(), EAX)
    a.mov(packet.target_mac.m16(4), AX)
    a.mov(EAX, asked.ip)
    a.mov(packet.target_ip, EAX)
    a.mov(ECX, ARP_LENGTH)
    a.call(nic_commit)
    a.ret()


def _own_half(a: Asm, ether: EthernetHeader, packet: ArpPacket, operation: int) -> None:
    """Write all but the target: source, type, fixed fields, operation, sender. Clobbers EAX."""
    a.mov(EAX, NETWORK.it.mac.m32())
    a.mov(ether.source.m32(), EAX)
    a.mov(packet.sender_mac.m32(), EAX)
    a.mov(AX, NETWORK.it.mac.m16(4))
    a.mov(ether.source.m16(4), AX)
    a.mov(packet.sender_mac.m16(4), AX)
    a.mov(ether.kind, swapped(EtherType.ARP))
    a.mov(packet.hardware, swapped(1))
    a.mov(packet.protocol, swapped(EtherType.IPV4))
    a.mov(packet.hardware_bytes, 6)
    a.mov(packet.protocol_bytes, 4)
    a.mov(packet.operation, swapped(operation))
    a.mov(EAX, NETWORK.it.ip)
    a.mov(packet.sender_ip, EAX)


@routine(
    inputs=[In(EDX, int, "address on the link")],
    outputs=[
        Out(RSI, "its ArpEntry; the MAC holds when CF is 0"),
        Out(CF, "1 = not known yet; it has been asked for"),
    ],
    clobbers=CALLER_SAVED,
    reads=[CoreState.now, Clock.tsc_cycles_per_ms, ArpEntry.state, ArpEntry.expires],
    writes=[ArpEntry.used, ArpEntry.state],
    calls=[arp_find, arp_create, arp_ask],
    saves=[RBX],
    source="firmware/docs/network.md#neighbours",
)
def arp_lookup(a: Asm, ip: Reg32) -> None:
    """Return a neighbour, refreshed in good time so that an answer in use never runs out."""
    entry, now = ArpEntry.at(RBX), RAX
    unknown = a.label("unknown")
    a.call(arp_find)
    a.test(RSI, RSI)
    with a.if_(Z):
        a.call(arp_create)
    a.mov(RBX, RSI)
    a.mov(now, core.now)
    a.mov(entry.used, now)
    a.cmp(entry.state, ArpState.KNOWN)
    a.jne(unknown)
    a.mov(RCX, entry.expires)
    a.cmp(now, RCX)
    with a.if_(AE):
        a.mov(entry.state, ArpState.ASKING)
        a.jmp(unknown)
    cycles(a, RDX, ARP_LIFE_MS - ARP_REFRESH_MS)
    a.sub(RCX, now)
    a.cmp(RCX, RDX)
    with a.if_(B):
        a.mov(RSI, RBX)
        a.call(arp_ask)
    a.mov(RSI, RBX)
    a.clc()
    a.ret()
    a.place(unknown)
    a.mov(RSI, RBX)
    a.call(arp_ask)
    a.mov(RSI, RBX)
    a.stc()
    a.ret()


@routine(
    clobbers=[RAX, RCX, RSI],
    reads=[ArpEntry.state, CoreState.now],
    writes=[ArpEntry.expires],
    source="firmware/docs/network.md#neighbours",
)
def arp_doubt(a: Asm) -> None:
    """Let every known entry run out now: the link was down, the neighbours may be others."""
    entry, left = ArpEntry.at(RSI), ECX
    a.lea(RSI, ARP.it.entries.address)
    a.mov(left, ARP_ENTRIES)
    a.mov(RAX, core.now)
    with a.loop() as each:
        a.cmp(entry.state, ArpState.KNOWN)
        with a.if_(E):
            a.mov(entry.expires, RAX)
        a.add(RSI, ArpEntry.SIZE)
        a.dec(left)
        a.again(NZ, each)
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "the ARP packet"),
        In(ECX, int, "bytes from there to the end of the frame"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        ArpPacket,
        WIRE,
        Network.mac,
        Network.ip,
        Network.configured,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[
        ArpEntry.mac,
        ArpEntry.state,
        ArpEntry.expires,
        NetCounters.short_frames,
        NetCounters.arp_bad,
        NetCounters.arp_conflicts,
        NetCounters.arp_others,
        NetCounters.arp_replies,
        NetCounters.tx_no_buffer,
        EthernetHeader,
        ArpPacket,
    ],
    calls=[arp_find, nic_reserve, nic_commit],
    saves=[RBX, R12],
    source="RFC 826; RFC 5227 2.4",
)
def arp_input(a: Asm, packet: Reg64, length: Reg32) -> None:
    """Update a known neighbour; answer who asks for us. Strangers change nothing."""
    got, counters = ArpPacket.at(RBX), NET.it.counters
    bad, answer = a.label("bad"), a.label("answer")
    a.mov(RBX, packet)
    a.cmp(length, ArpPacket.SIZE)
    with a.if_(B):
        a.inc(counters.short_frames)
        a.ret()
    a.cmp(mem32(RBX, ref=WIRE), FIXED_LOW)
    a.jne(bad)
    a.cmp(mem16(RBX, 4, ref=WIRE), FIXED_HIGH)
    a.jne(bad)
    a.test(got.sender_mac.m8(), 1)  # a group address is no sender
    a.jnz(bad)

    a.mov(EDX, got.sender_ip)
    a.xor(R12D, R12D)
    a.test(EDX, EDX)
    a.jz(answer)  # a probe: somebody asks before taking an address
    a.cmp(EDX, NETWORK.it.ip)
    with a.if_(E):
        a.inc(counters.arp_conflicts)
        a.ret()
    a.call(arp_find)
    a.test(RSI, RSI)
    with a.if_(NZ):
        known = ArpEntry.at(RSI)
        a.mov(EAX, got.sender_mac.m32())
        a.mov(known.mac.m32(), EAX)
        a.mov(AX, got.sender_mac.m16(4))
        a.mov(known.mac.m16(4), AX)
        cycles(a, RAX, ARP_LIFE_MS)
        a.add(RAX, core.now)
        a.mov(known.expires, RAX)
        a.mov(known.state, ArpState.KNOWN)
        a.inc(R12D)

    a.place(answer)
    with a.block() as other:
        a.cmp(got.operation, swapped(REQUEST))
        a.leave(NE, other)
        a.cmp(NETWORK.it.configured, 1)
        a.leave(NE, other)
        a.mov(EAX, got.target_ip)
        a.cmp(EAX, NETWORK.it.ip)
        a.leave(NE, other)
        a.call(nic_reserve)
        with a.if_(B):
            a.inc(counters.tx_no_buffer)
            a.ret()
        a.inc(counters.arp_replies)
        ether, reply = EthernetHeader.at(RDI), ArpPacket.at(RDI, ETHERNET_HEADER)
        _own_half(a, ether, reply, REPLY)
        a.mov(EAX, got.sender_mac.m32())
        a.mov(ether.destination.m32(), EAX)
        a.mov(reply.target_mac.m32(), EAX)
        a.mov(AX, got.sender_mac.m16(4))
        a.mov(ether.destination.m16(4), AX)
        a.mov(reply.target_mac.m16(4), AX)
        a.mov(EAX, got.sender_ip)
        a.mov(reply.target_ip, EAX)
        a.mov(ECX, ARP_LENGTH)
        a.call(nic_commit)
        a.ret()
    a.test(R12D, R12D)
    with a.if_(Z):
        a.inc(counters.arp_others)
    a.ret()
    a.place(bad)
    a.inc(counters.arp_bad)
    a.ret()
