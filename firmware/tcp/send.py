"""Segments of one connection: header, window, selective acknowledgements."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.clock import NEVER
from firmware.layouts.node import CoreState, core
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import (
    ADDRESS,
    TCP_OUT,
    TcpContext,
    TcpControl,
    TcpFlag,
    TcpHeader,
    TcpOption,
    TcpSpan,
)
from firmware.limits import RECEIVE_MSS, RING_BYTES
from firmware.tcp.emit import tcp_emit
from firmware.tcp.timing import tcp_arm
from toolchain.asm import (
    AE,
    AL,
    AX,
    CF,
    EAX,
    ECX,
    EDX,
    ESI,
    NZ,
    R8B,
    R8D,
    R12,
    R12D,
    RAX,
    RBX,
    RCX,
    RDI,
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
    S,
    Z,
    mem8,
    routine,
)

OUR_SCALE = 0
"""The ring is smaller than 64 KB; the option is sent so that the peer may scale its own window."""
SYN_OPTIONS = bytes(
    (TcpOption.MSS, 4, RECEIVE_MSS >> 8, RECEIVE_MSS & 0xFF,  # first: some routers insist on it
     TcpOption.NOP, TcpOption.SCALE, 3, OUR_SCALE,
     TcpOption.NOP, TcpOption.NOP, TcpOption.SACK_PERMITTED, 2)
)  # fmt: skip
if RING_BYTES > 0xFFFF:
    raise ValueError(f"{RING_BYTES} bytes do not fit the window field; let tcp_window scale them")
SACK_START = int.from_bytes(bytes((TcpOption.NOP, TcpOption.NOP, TcpOption.SACK, 2)), "little")


def _word(value: int) -> int:
    """Return a word as it is stored in network byte order."""
    return (value & 0xFF) << 8 | value >> 8


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=[RAX],
    reads=[TcpContext.rcv_adv, TcpContext.rcv_nxt, TcpContext.ring_ready],
    writes=[TcpHeader.acknowledgement, TcpHeader.window, TcpContext.rcv_adv],
    source="RFC 9293 3.8.6.2.2",
)
def tcp_window(a: Asm, shard: ShardContext) -> None:
    """Put acknowledgement and window into the header; the window moves by whole segments only."""
    tcp, header, edge = shard.tcp, TCP_OUT.it, EAX
    a.mov(edge, tcp.rcv_nxt)
    a.add(edge, RING_BYTES)
    a.sub(edge, tcp.ring_ready)
    a.sub(edge, tcp.rcv_adv)
    a.cmp(edge, RECEIVE_MSS)
    with a.if_(AE):
        a.add(tcp.rcv_adv, edge)
    a.mov(EAX, tcp.rcv_adv)
    a.sub(EAX, tcp.rcv_nxt)
    a.rol(AX, 8)
    a.mov(header.window, AX)
    a.mov(EAX, tcp.rcv_nxt)
    a.bswap(EAX)
    a.mov(header.acknowledgement, EAX)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=[RAX, RDX, RDI],
    reads=[TcpContext.flags, TcpContext.spans_used, TcpContext.spans],
    writes=[TcpHeader.options, TcpHeader.offset],
    source="RFC 2018 3, 4",
)
def tcp_sack(a: Asm, shard: ShardContext) -> None:
    """Put the islands into the header, the newest first; fix the header's length."""
    tcp, header = shard.tcp, TCP_OUT.it
    row, value, at = EDX, EAX, RDI
    a.mov(header.offset, 5 << 4)
    a.test(tcp.flags, TcpFlag.SACK_OK)
    with a.block() as none:
        a.leave(Z, none)
        a.movzx(row, tcp.spans_used)
        a.test(row, row)
        a.leave(Z, none)
        a.mov(EAX, EDX)
        a.shl(EAX, 3 + 24)
        a.add(EAX, SACK_START)
        a.mov(header.options.m32(0), EAX)
        a.lea(RDI, header.options.address)
        a.mov(EAX, EDX)
        a.shl(EAX, 5)
        a.add(EAX, 6 << 4)
        a.mov(header.offset, AL)
        placed = TcpHeader.at(RDI, -TcpHeader.options.offset)
        with a.loop() as blocks:
            a.mov(value, tcp.spans.m32(-TcpSpan.SIZE, index=RDX, scale=TcpSpan.SIZE))
            a.bswap(value)
            a.mov(placed.options.m32(4), value)
            a.mov(value, tcp.spans.m32(4 - TcpSpan.SIZE, index=RDX, scale=TcpSpan.SIZE))
            a.bswap(value)
            a.mov(placed.options.m32(8), value)
            a.add(at, TcpSpan.SIZE)
            a.dec(row)
            a.again(NZ, blocks)
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(EDX, int, "sequence number"),
        In(RSI, int, "payload"),
        In(ECX, int, "bytes of payload, at most SEND_PAYLOAD_MAX"),
        In(R8D, int, "TcpControl"),
    ],
    outputs=[Out(CF, "1 = not now; BLOCKED is set")],
    clobbers=CALLER_SAVED,
    reads=[TcpContext.local_port, TcpContext.remote_port, TcpContext.remote_ip],
    writes=[
        TcpHeader.source,
        TcpHeader.destination,
        TcpHeader.sequence,
        TcpHeader.acknowledgement,
        TcpHeader.control,
        TcpHeader.window,
        TcpHeader.options,
        TcpHeader.offset,
        TcpContext.flags,
        TcpContext.ack_at,
        TcpContext.ack_owed,
    ],
    calls=[tcp_window, tcp_sack, tcp_emit],
    saves=[R12],
    source="RFC 9293 3.1",
)
def tcp_send(
    a: Asm, shard: ShardContext, sequence: Reg32, payload: Reg64, length: Reg32, control: Reg32
) -> None:
    """Send one segment; it carries our acknowledgement and window unless it is a SYN."""
    tcp, header = shard.tcp, TCP_OUT.it
    a.mov(R12D, control)
    a.mov(header.control, R8B)
    a.bswap(sequence)
    a.mov(header.sequence, sequence)
    a.mov(AX, tcp.local_port)
    a.rol(AX, 8)
    a.mov(header.source, AX)
    a.mov(AX, tcp.remote_port)
    a.rol(AX, 8)
    a.mov(header.destination, AX)
    a.test(control, TcpControl.SYN)
    with a.if_(NZ):
        a.mov(header.acknowledgement, 0)
        a.mov(header.window, _word(RING_BYTES))
        for n in range(0, len(SYN_OPTIONS), 4):  # unrolled: three words
            a.mov(header.options.m32(n), int.from_bytes(SYN_OPTIONS[n : n + 4], "little"))
        a.mov(header.offset, (5 + len(SYN_OPTIONS) // 4) << 4)
    with a.else_():
        a.call(tcp_window)
        a.call(tcp_sack)
    a.mov(EDX, tcp.remote_ip)
    a.call(tcp_emit)
    with a.if_(B):
        a.or_(tcp.flags, TcpFlag.BLOCKED)
        a.stc()
        a.ret()
    a.test(R12D, TcpControl.ACK)
    with a.if_(NZ):
        a.and_(tcp.flags, ~TcpFlag.ACK_NOW)
        a.mov(tcp.ack_at, NEVER)
        a.mov(tcp.ack_owed, 0)
    a.clc()
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=CALLER_SAVED,
    reads=[TcpContext.snd_max, TcpContext.snd_una, TcpContext.snd_wnd],
    writes=[TcpContext.flags],
    calls=[tcp_send],
    source="RFC 9293 3.10.7.4",
)
def tcp_ack(a: Asm, shard: ShardContext) -> None:
    """Send an acknowledgement without data; when that is not possible now, the tick does it."""
    tcp, edge = shard.tcp, EAX
    # Its number must lie in the peer's window to be heard, which a refused probe is beyond.
    a.mov(edge, tcp.snd_una)
    a.add(edge, tcp.snd_wnd)
    a.mov(EDX, tcp.snd_max)
    a.cmp(edge, EDX)
    a.cmov(S, EDX, edge)
    a.or_(tcp.flags, TcpFlag.ACK_NOW)  # sending clears it
    a.xor(ESI, ESI)
    a.xor(ECX, ECX)
    a.mov(R8D, TcpControl.ACK)
    a.call(tcp_send)
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(EDX, int, "sequence numbers beyond snd_una where it begins"),
        In(ECX, int, "sequence numbers it takes, at least 1; the last may be our FIN"),
    ],
    outputs=[Out(CF, "1 = not now")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.tx_base,
        TcpContext.tx_start,
        TcpContext.tx_end,
        TcpContext.snd_una,
        TcpContext.snd_max,
    ],
    writes=[TcpContext.snd_max],
    calls=[tcp_send],
    saves=[R12],
    source="RFC 9293 3.8",
)
def tcp_piece(a: Asm, shard: ShardContext, offset: Reg32, count: Reg32) -> None:
    """Send a part of the queue; what goes beyond its bytes is the FIN."""
    tcp, end, left = shard.tcp, R12D, EAX
    a.mov(left, tcp.tx_end)
    a.sub(left, tcp.tx_start)
    a.sub(left, offset)  # bytes of the queue from here on
    a.mov(ESI, tcp.tx_start)
    a.add(ESI, offset)
    a.add(RSI, shard.tx_base)
    a.add(offset, tcp.snd_una)
    a.lea(end, mem8(RDX, index=RCX, ref=ADDRESS))
    a.mov(R8D, TcpControl.ACK)
    a.cmp(count, left)
    with a.if_(A):
        a.or_(R8D, TcpControl.FIN)
        a.mov(count, left)
    a.cmp(count, left)
    with a.if_(E):
        a.or_(R8D, TcpControl.PSH)  # the last we have
    a.call(tcp_send)
    with a.if_(B):
        a.ret()  # CF = 1
    a.cmp(tcp.snd_max, end)
    with a.if_(S):
        a.mov(tcp.snd_max, end)
    a.clc()
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=CALLER_SAVED,
    reads=[TcpContext.iss, TcpContext.snd_max, TcpContext.backoff, CoreState.now],
    writes=[TcpContext.flags, TcpContext.rtt_at, TcpContext.rtt_seq],
    calls=[tcp_send, tcp_arm],
    source="RFC 9293 3.10.1",
)
def tcp_syn(a: Asm, shard: ShardContext) -> None:
    """Send our SYN, with the same number each time, and wait for its answer."""
    tcp = shard.tcp
    a.mov(EDX, tcp.iss)
    a.xor(ESI, ESI)
    a.xor(ECX, ECX)
    a.mov(R8D, TcpControl.SYN)
    a.call(tcp_send)
    with a.if_(B):
        a.ret()
    a.and_(tcp.flags, ~TcpFlag.SYN_DUE)
    a.cmp(tcp.backoff, 0)
    with a.if_(E):  # Karn: a repeated SYN measures nothing
        a.mov(RAX, core.now)
        a.mov(tcp.rtt_at, RAX)
        a.mov(EAX, tcp.snd_max)
        a.mov(tcp.rtt_seq, EAX)
    a.jmp(tcp_arm)
