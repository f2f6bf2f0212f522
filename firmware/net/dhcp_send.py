"""DHCP messages out: DISCOVER, and REQUEST for an offer or a lease."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.clock import SECOND_MS
from firmware.layouts.net import (
    BROADCAST,
    DHCP,
    DHCP_CLIENT_PORT,
    DHCP_COOKIE,
    DHCP_FIXED,
    DHCP_MESSAGE,
    DHCP_SERVER_PORT,
    OUT,
    Dhcp,
    DhcpMessage,
    DhcpState,
    DhcpType,
)
from firmware.layouts.node import NETWORK, Clock, CoreState, Network, core
from firmware.net.arp import cycles
from firmware.net.udp import udp_begin, udp_finish
from toolchain.asm import (
    AX,
    CF,
    EAX,
    ECX,
    EDX,
    R8D,
    R9D,
    R12,
    R12D,
    RAX,
    RBX,
    RCX,
    RDI,
    RSI,
    A,
    Asm,
    B,
    E,
    Out,
    mem8,
    mem16,
    mem32,
    routine,
)
from toolchain.layout.data import constant

TYPE_AT = 242
CLIENT_AT = 246
REQUESTED_AT = 265
_REQUESTED = bytes((50, 4, 0, 0, 0, 0, 54, 4, 0, 0, 0, 0, 255))
# Type, client identifier (Ethernet, as boot ROMs send it), largest message, what we want to know.
_OPTIONS = bytes((53, 1, 0, 61, 7, 1, 0, 0, 0, 0, 0, 0, 57, 2, 0x05, 0xDC))
_OPTIONS += bytes((55, 7, 1, 3, 6, 51, 54, 58, 59))
_HEAD = bytes((1, 1, 6, 0)).ljust(DHCP_FIXED, b"\x00") + DHCP_COOKIE.to_bytes(4, "little")
TEMPLATE = constant(
    "dhcp_template",
    (_HEAD + _OPTIONS + b"\xff").ljust(DHCP_MESSAGE, b"\x00"),
    "our message with nothing filled in",
    align=8,
)


@routine(
    outputs=[Out(CF, "1 = not now")],
    clobbers=CALLER_SAVED,
    reads=[
        Dhcp.state,
        Dhcp.xid,
        Dhcp.offered,
        Dhcp.server,
        Dhcp.begun,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
        Network.mac,
        Network.ip,
    ],
    writes=[DhcpMessage, OUT],
    calls=[udp_begin, udp_finish],
    saves=[RBX, R12],
    source="RFC 2131 table 5",
)
def dhcp_send(a: Asm) -> None:
    """Send the message of the state: DISCOVER, or a REQUEST for an offer or a lease."""
    message, destination, state = DhcpMessage.at(RBX), R12D, DHCP.it.state
    a.mov(destination, BROADCAST)
    a.cmp(state, DhcpState.RENEWING)
    with a.if_(E):
        a.mov(destination, DHCP.it.server)
    a.mov(EDX, destination)
    a.call(udp_begin)
    with a.if_(B):
        a.ret()
    a.mov(RBX, RDI)
    a.lea(RSI, TEMPLATE.address)
    a.mov(ECX, DHCP_MESSAGE // 4)
    a.rep_movsd()
    a.mov(EAX, DHCP.it.xid)
    a.mov(message.xid, EAX)

    # Seconds since the exchange began, at most 16 bits.
    cycles(a, RCX, SECOND_MS)
    a.mov(RAX, core.now)
    a.sub(RAX, DHCP.it.begun)
    a.xor(EDX, EDX)
    a.div(RCX)
    a.mov(ECX, 0xFFFF)
    a.cmp(RAX, RCX)
    a.cmov(A, RAX, RCX)
    a.rol(AX, 8)
    a.mov(message.seconds, AX)

    a.mov(EAX, NETWORK.it.mac.m32())
    a.mov(message.chaddr.m32(), EAX)
    a.mov(mem32(RBX, CLIENT_AT, ref=OUT), EAX)
    a.mov(AX, NETWORK.it.mac.m16(4))
    a.mov(message.chaddr.m16(4), AX)
    a.mov(mem16(RBX, CLIENT_AT + 4, ref=OUT), AX)
    with a.block() as complete:
        a.cmp(state, DhcpState.SELECTING)
        with a.if_(E):
            a.mov(mem8(RBX, TYPE_AT, ref=OUT), DhcpType.DISCOVER)
            a.jmp(complete)
        a.mov(mem8(RBX, TYPE_AT, ref=OUT), DhcpType.REQUEST)
        a.cmp(state, DhcpState.REQUESTING)
        with a.if_(E):
            # The chosen OFFER: its address and its server.
            for n in range(0, 12, 4):  # unrolled: the two options, 12 bytes
                a.mov(mem32(RBX, REQUESTED_AT + n, ref=OUT), _word(_REQUESTED, n))
            a.mov(mem8(RBX, REQUESTED_AT + 12, ref=OUT), _REQUESTED[12])
            a.mov(EAX, DHCP.it.offered)
            a.mov(mem32(RBX, REQUESTED_AT + 2, ref=OUT), EAX)
            a.mov(EAX, DHCP.it.server)
            a.mov(mem32(RBX, REQUESTED_AT + 8, ref=OUT), EAX)
            a.jmp(complete)
        a.mov(EAX, NETWORK.it.ip)
        a.mov(message.ciaddr, EAX)
    a.mov(EDX, destination)
    a.mov(ECX, DHCP_MESSAGE)
    a.mov(R8D, DHCP_CLIENT_PORT)
    a.mov(R9D, DHCP_SERVER_PORT)
    a.call(udp_finish)
    a.clc()
    a.ret()


def _word(contents: bytes, at: int) -> int:
    return int.from_bytes(contents[at : at + 4], "little")
