"""The receive ring: bytes land where they belong, holes stay open until they are filled.

The ring is mapped twice in a row, so a byte `n` beyond the next one to read lies at
`ring_base + ring_head + n` without a wrap, and what is readable is one run.
"""

from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import SPANS_MAX, TcpContext, TcpFlag, TcpSpan
from firmware.limits import RECEIVE_MSS, RING_BYTES
from toolchain.asm import (
    AE,
    AL,
    CF,
    EAX,
    ECX,
    EDI,
    ESI,
    R8,
    R8D,
    R9,
    R9D,
    R10,
    R10D,
    RAX,
    RBX,
    RCX,
    RSI,
    A,
    Asm,
    In,
    Out,
    Reg32,
    S,
    routine,
)

UPDATE_BYTES = 2 * RECEIVE_MSS
"""How far the window must open before that alone is worth a segment (RFC 9293 3.8.6.2.2)."""


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(ESI, int, "first sequence number of what arrived"),
        In(EDI, int, "first sequence number after it"),
    ],
    outputs=[
        Out(ESI, "start of what arrived with the islands it touches"),
        Out(EDI, "its end"),
        Out(EAX, "islands that it does not touch; they moved to the front of the list"),
    ],
    clobbers=[R8, R9, R10, RCX],
    reads=[TcpContext.spans_used, TcpContext.spans],
    writes=[TcpContext.spans],
    source="RFC 9293 3.10.7.4; RFC 2018 4",
)
def tcp_merge(a: Asm, shard: ShardContext, start: Reg32, end: Reg32) -> None:
    """Join what arrived with the islands that overlap or touch it."""
    spans = shard.tcp.spans
    row, kept, left, right, used = R8D, EAX, R9D, R10D, ECX
    with a.block() as done:
        a.xor(kept, kept)
        a.xor(row, row)
        a.movzx(used, shard.tcp.spans_used)
        with a.loop() as rows:
            a.cmp(row, used)
            a.leave(AE, done)
            a.mov(left, spans.m32(0, index=R8, scale=TcpSpan.SIZE))
            a.mov(right, spans.m32(4, index=R8, scale=TcpSpan.SIZE))
            a.inc(row)
            apart, joined = a.label("apart"), a.label("joined")
            # Sequence numbers compare by the sign of their difference (RFC 9293 3.4).
            a.cmp(right, start)
            a.j(S, apart)
            a.cmp(end, left)
            a.j(S, apart)
            a.cmp(left, start)
            a.cmov(S, start, left)
            a.cmp(end, right)
            a.cmov(S, end, right)
            a.jmp(joined)
            a.place(apart)
            a.mov(spans.m32(0, index=RAX, scale=TcpSpan.SIZE), left)
            a.mov(spans.m32(4, index=RAX, scale=TcpSpan.SIZE), right)
            a.inc(kept)
            a.place(joined)
            a.jmp(rows.top)
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(ESI, int, "first sequence number"),
        In(EDI, int, "first sequence number after it"),
        In(EAX, int, "rows that `tcp_merge` kept"),
    ],
    outputs=[Out(CF, "1 = the list is full; the bytes are forgotten")],
    clobbers=[RAX],
    writes=[TcpContext.spans, TcpContext.spans_used],
    source="RFC 2018 3",
)
def tcp_keep(a: Asm, shard: ShardContext, start: Reg32, end: Reg32, kept: Reg32) -> None:
    """Note an island as the newest of the list."""
    spans = shard.tcp.spans
    a.cmp(kept, SPANS_MAX)
    with a.if_(AE):
        # Only what lies beyond a hole is refused; the next expected byte needs no row.
        a.stc()
        a.ret()
    a.mov(EAX, kept)  # the upper half of a narrow input is anything
    a.mov(spans.m32(0, index=RAX, scale=TcpSpan.SIZE), start)
    a.mov(spans.m32(4, index=RAX, scale=TcpSpan.SIZE), end)
    a.inc(kept)
    a.mov(shard.tcp.spans_used, AL)
    a.clc()
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    outputs=[Out(RSI, "first readable byte"), Out(ECX, "readable bytes, in one run")],
    reads=[TcpContext.ring_head, TcpContext.ring_ready, ShardContext.ring_base],
    source="firmware/docs/layers.md",
)
def tcp_readable(a: Asm, shard: ShardContext) -> None:
    """Show what was received in order and not yet consumed, whatever the state."""
    a.mov(ESI, shard.tcp.ring_head)
    a.add(RSI, shard.ring_base)
    a.mov(ECX, shard.tcp.ring_ready)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard"), In(ECX, int, "bytes that were read")],
    clobbers=[RAX, RCX],
    reads=[TcpContext.ring_head, TcpContext.rcv_nxt, TcpContext.rcv_adv, TcpContext.ring_ready],
    writes=[TcpContext.ring_head, TcpContext.ring_ready, TcpContext.flags],
    source="RFC 9293 3.8.6.2.2",
)
def tcp_consume(a: Asm, shard: ShardContext, length: Reg32) -> None:
    """Free ring space; a window that opened far enough is announced by the next tick."""
    tcp, head, gain = shard.tcp, EAX, EAX
    a.cmp(length, tcp.ring_ready)
    a.cmov(A, length, tcp.ring_ready)
    a.sub(tcp.ring_ready, length)
    a.mov(head, tcp.ring_head)
    a.add(head, length)
    a.cmp(head, RING_BYTES)
    with a.if_(AE):
        a.sub(head, RING_BYTES)
    a.mov(tcp.ring_head, head)

    # gain = how far the right edge could move now
    a.mov(gain, tcp.rcv_nxt)
    a.add(gain, RING_BYTES)
    a.sub(gain, tcp.ring_ready)
    a.sub(gain, tcp.rcv_adv)
    a.cmp(gain, UPDATE_BYTES)
    with a.if_(AE):
        a.or_(tcp.flags, TcpFlag.ACK_NOW)
    a.ret()
