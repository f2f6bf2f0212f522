"""The one place where TCP segments leave the node."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC, FleetConfig
from firmware.layouts.node import LEASE, NETWORK, Lease, Network
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import ADDRESS, PROTOCOL_TCP, TCP_OUT, TRANSMIT, TcpHeader
from firmware.net.checksum import checksum
from firmware.net.ip import ip_begin, ip_finish
from toolchain.asm import (
    AE,
    AL,
    AX,
    CF,
    CX,
    EAX,
    ECX,
    EDX,
    NE,
    R12,
    R13,
    R13D,
    R14,
    R14D,
    R15,
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
    Reg32,
    Reg64,
    mem8,
    routine,
)


@routine(
    inputs=[
        In(RBX, ShardContext, "whose it is; 0 = nobody's"),
        In(EDX, int, "where to, as loaded from the wire"),
        In(RSI, int, "payload"),
        In(ECX, int, "bytes of payload, at most SEND_PAYLOAD_MAX"),
    ],
    outputs=[Out(CF, "1 = not now: no frame, or the next hop is unknown")],
    clobbers=CALLER_SAVED,
    reads=[
        Lease.expired, Network.ip, TcpHeader.offset, TRANSMIT, ShardContext.unleased,
        ShardContext.hard_stop, FleetConfig.magic,
    ],
    writes=[TcpHeader.checksum],
    calls=[ip_begin, checksum, ip_finish],
    saves=[R12, R13, R14, R15],
    source="RFC 9293 3.1; firmware/docs/lifecycle.md#lease-expiry",
)  # fmt: skip
def tcp_emit(
    a: Asm, shard: ShardContext, destination: Reg32, payload: Reg64, length: Reg32
) -> None:
    """Send the header in TCP_OUT with a payload; swallow it when the lease has expired."""
    source, total, to, frame = R12, R13D, R14D, R15
    silent, leased, sent = a.label("silent"), a.label("leased"), a.label("sent")
    a.mov(source, payload)
    a.mov(total, length)
    a.mov(to, destination)
    # Decision 18: after expiry nothing leaves, no ACK, no reset and no retransmission. To the rest
    # of TCP the segment counts as sent and lost, so that nothing tries again at once.
    a.test(RBX, RBX)
    a.jz(leased)
    a.cmp(shard.unleased, 0)
    a.jne(sent)
    # The slot's own lease is judged by the clock of this moment, not by that of the turn.
    a.cmp(shard.hard_stop, 0)
    with a.if_(E):
        a.cmp(FLEET_CONFIG.it.magic, FLEET_MAGIC)
        a.je(silent)  # a shard of a fleet that no slot's lease covers
        a.jmp(leased)
    a.rdtsc64()
    a.cmp(RAX, shard.hard_stop)
    a.j(AE, silent)
    a.place(leased)
    a.cmp(LEASE.it.expired, 0)
    with a.if_(NE):
        a.place(silent)
        a.clc()
        a.ret()
    a.place(sent)
    a.mov(EDX, to)
    a.call(ip_begin)
    with a.if_(B):
        a.ret()  # CF = 1
    a.mov(frame, RDI)

    a.lea(RSI, TCP_OUT.address)
    a.movzx(ECX, TCP_OUT.it.offset)
    a.shr(ECX, 2)  # words in the high half: bytes
    a.mov(EAX, total)
    a.add(total, ECX)
    a.rep_movsb()
    a.mov(RSI, source)
    a.mov(ECX, EAX)
    a.rep_movsb()

    # The pseudo-header in wire order: addresses, protocol, length.
    a.mov(ECX, total)
    a.rol(CX, 8)
    a.mov(EAX, NETWORK.it.ip)
    a.add(RAX, R14)
    a.lea(RAX, mem8(RAX, PROTOCOL_TCP << 8, index=RCX, ref=ADDRESS))
    a.mov(RSI, frame)
    a.mov(ECX, total)
    a.call(checksum)
    a.mov(TcpHeader.at(frame).checksum, AX)

    a.mov(EDX, to)
    a.mov(ECX, total)
    a.mov(AL, PROTOCOL_TCP)
    a.call(ip_finish)
    a.clc()
    a.ret()
