"""What may be sent now, and what has to be sent again."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.clock import NEVER
from firmware.layouts.node import CoreState, core
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import (
    BACKOFF_MOST,
    MSS_DEFAULT,
    TcpContext,
    TcpFlag,
    TcpState,
)
from firmware.tcp.send import tcp_piece
from firmware.tcp.timing import tcp_arm
from toolchain.asm import (
    AE,
    BE,
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
    R14B,
    R14D,
    RAX,
    RBX,
    RCX,
    A,
    Asm,
    B,
    E,
    In,
    Out,
    Z,
    routine,
)

SENDING = sum(
    1 << s
    for s in (TcpState.ESTABLISHED, TcpState.CLOSE_WAIT, TcpState.FIN_WAIT_1, TcpState.CLOSING,
              TcpState.LAST_ACK)
)  # fmt: skip
"""States in which our own bytes or FIN may still travel, as a bit set."""
BACKOFFS_BEFORE_SMALL = 2
"""After two timeouts the path may swallow our segments: RFC 9293 3.7.1's default size then."""


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    outputs=[Out(EAX, "sequence numbers from snd_una on that wait or are in flight")],
    reads=[TcpContext.tx_end, TcpContext.tx_start, TcpContext.flags],
    source="RFC 9293 3.10.2",
)
def tcp_queued(a: Asm, shard: ShardContext) -> None:
    """Return the length of the queue, the FIN included."""
    tcp = shard.tcp
    a.mov(EAX, tcp.flags)
    a.and_(EAX, TcpFlag.FIN_QUEUED)  # bit 0: one sequence number
    a.add(EAX, tcp.tx_end)
    a.sub(EAX, tcp.tx_start)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=CALLER_SAVED,
    reads=[
        TcpContext.state,
        TcpContext.snd_nxt,
        TcpContext.snd_una,
        TcpContext.snd_max,
        TcpContext.snd_wnd,
        TcpContext.snd_wnd_max,
        TcpContext.cwnd,
        TcpContext.snd_mss,
        TcpContext.rtt_at,
        TcpContext.rtx_at,
        CoreState.now,
    ],
    writes=[TcpContext.snd_nxt, TcpContext.rtt_at, TcpContext.rtt_seq],
    calls=[tcp_queued, tcp_piece, tcp_arm],
    saves=[R12, R13, R14],
    source="RFC 9293 3.8.6.2.1",
)
def tcp_output(a: Asm, shard: ShardContext) -> None:
    """Send what both windows allow; small writes leave together and wait for no ACK."""
    tcp = shard.tcp
    queued, count, fresh = R12D, R13D, R14D
    offset, left, room = EDX, EAX, ECX
    a.mov(ECX, tcp.state)
    a.mov(EAX, SENDING)
    a.bt(EAX, ECX)
    with a.if_(AE):
        a.ret()
    a.call(tcp_queued)
    a.mov(queued, EAX)
    with a.loop() as pieces:
        a.mov(offset, tcp.snd_nxt)
        a.sub(offset, tcp.snd_una)
        a.mov(left, queued)
        a.sub(left, offset)
        a.leave(BE, pieces)
        a.mov(room, tcp.snd_wnd)
        a.cmp(room, tcp.cwnd)
        a.cmov(A, room, tcp.cwnd)
        a.sub(room, offset)
        a.leave(BE, pieces)

        # count = min(left, room, mss)
        a.cmp(room, left)
        a.cmov(A, room, left)
        a.cmp(room, tcp.snd_mss)
        a.cmov(A, room, tcp.snd_mss)
        a.mov(count, room)
        with a.block() as worth:
            # A piece that neither fills a segment nor ends the queue waits for a wider window.
            a.cmp(count, left)
            a.leave(E, worth)
            a.cmp(count, tcp.snd_mss)
            a.leave(E, worth)
            a.add(room, room)
            a.cmp(room, tcp.snd_wnd_max)
            a.leave(B, pieces)
        a.xor(fresh, fresh)
        a.mov(EAX, tcp.snd_nxt)
        a.cmp(EAX, tcp.snd_max)
        a.set(E, R14B)  # never sent before: fit for a measurement
        a.mov(ECX, count)
        a.call(tcp_piece)
        a.leave(B, pieces)
        a.add(tcp.snd_nxt, count)
        a.test(fresh, fresh)
        with a.if_(NZ):
            a.cmp(tcp.rtt_at, 0)
            with a.if_(E):
                a.mov(RAX, core.now)
                a.mov(tcp.rtt_at, RAX)
                a.mov(EAX, tcp.snd_nxt)
                a.mov(tcp.rtt_seq, EAX)
        a.jmp(pieces.top)

    # While anything is unacknowledged or waits for a window, the timer runs.
    a.test(queued, queued)
    with a.if_(NZ):
        a.cmp(tcp.rtx_at, NEVER)
        with a.if_(E):
            a.call(tcp_arm)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=CALLER_SAVED,
    reads=[TcpContext.snd_mss],
    writes=[TcpContext.flags, TcpContext.rtt_at, TcpContext.retransmits],
    calls=[tcp_queued, tcp_piece],
    source="RFC 5681 3.2; RFC 6582 3.2",
)
def tcp_repair(a: Asm, shard: ShardContext) -> None:
    """Send the oldest unacknowledged segment again without waiting for the timer."""
    tcp = shard.tcp
    a.call(tcp_queued)
    a.mov(ECX, EAX)
    a.cmp(ECX, tcp.snd_mss)
    a.cmov(A, ECX, tcp.snd_mss)
    a.test(ECX, ECX)
    with a.if_(NZ):
        a.xor(EDX, EDX)
        a.call(tcp_piece)
        with a.if_(B):
            a.ret()  # still due
        a.inc(tcp.retransmits)
        a.mov(tcp.rtt_at, 0)  # Karn
    a.and_(tcp.flags, ~TcpFlag.RETRANSMIT_DUE)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=[RAX, RCX],
    reads=[TcpContext.snd_mss, TcpContext.snd_max, TcpContext.snd_una, TcpContext.backoff],
    writes=[
        TcpContext.ssthresh,
        TcpContext.cwnd,
        TcpContext.flags,
        TcpContext.dup_acks,
        TcpContext.snd_mss,
        TcpContext.retransmits,
    ],
    source="RFC 5681 3.1",
)
def tcp_collapse(a: Asm, shard: ShardContext) -> None:
    """Take a timeout for congestion: begin again with one segment, perhaps a smaller one."""
    tcp = shard.tcp
    a.mov(EAX, tcp.snd_max)
    a.sub(EAX, tcp.snd_una)
    a.shr(EAX, 1)
    a.mov(ECX, tcp.snd_mss)
    a.add(ECX, ECX)
    a.cmp(EAX, ECX)
    a.cmov(B, EAX, ECX)
    a.mov(tcp.ssthresh, EAX)
    a.cmp(tcp.backoff, BACKOFFS_BEFORE_SMALL)
    with a.if_(AE):
        a.mov(EAX, MSS_DEFAULT)
        a.cmp(tcp.snd_mss, EAX)
        with a.if_(A):
            a.mov(tcp.snd_mss, EAX)
    a.mov(EAX, tcp.snd_mss)
    a.mov(tcp.cwnd, EAX)
    a.mov(tcp.dup_acks, 0)
    a.and_(tcp.flags, ~(TcpFlag.RECOVERY | TcpFlag.RETRANSMIT_DUE))
    a.inc(tcp.retransmits)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=CALLER_SAVED,
    reads=[
        TcpContext.backoff,
        TcpContext.state,
        TcpContext.snd_wnd,
        TcpContext.snd_una,
        TcpContext.snd_mss,
    ],
    writes=[
        TcpContext.rtt_at,
        TcpContext.rtx_at,
        TcpContext.backoff,
        TcpContext.flags,
        TcpContext.snd_nxt,
    ],
    calls=[tcp_collapse, tcp_queued, tcp_piece, tcp_arm],
    saves=[R12],
    source="RFC 6298 5.4-5.6; RFC 9293 3.8.6.1",
)
def tcp_timeout(a: Asm, shard: ShardContext) -> None:
    """Send the oldest piece again, one byte of it into a closed window; double the timeout."""
    tcp, count = shard.tcp, R12D
    a.mov(tcp.rtt_at, 0)  # Karn
    a.mov(tcp.rtx_at, NEVER)
    a.cmp(tcp.state, TcpState.SYN_SENT)
    with a.if_(E):
        a.or_(tcp.flags, TcpFlag.SYN_DUE)
    with a.else_():
        a.cmp(tcp.snd_wnd, 0)
        with a.if_(NE):
            a.call(tcp_collapse)
    a.cmp(tcp.backoff, BACKOFF_MOST)
    with a.if_(B):
        a.inc(tcp.backoff)
    a.cmp(tcp.state, TcpState.SYN_SENT)
    with a.if_(E):
        a.ret()

    # Go back; what the peer has already, its acknowledgement will skip.
    a.mov(EAX, tcp.snd_una)
    a.mov(tcp.snd_nxt, EAX)
    a.call(tcp_queued)
    a.mov(count, EAX)
    a.cmp(count, tcp.snd_mss)
    a.cmov(A, count, tcp.snd_mss)
    a.mov(EAX, tcp.snd_wnd)
    a.cmp(EAX, 1)
    a.adc(EAX, 0)  # a probe takes one byte
    a.cmp(count, EAX)
    a.cmov(A, count, EAX)
    a.test(count, count)
    with a.if_(Z):
        a.ret()
    a.xor(EDX, EDX)
    a.mov(ECX, count)
    a.call(tcp_piece)
    with a.if_(AE):
        # A probe may be refused: only a piece inside the window counts as sent.
        a.cmp(tcp.snd_wnd, 0)
        with a.if_(NE):
            a.add(tcp.snd_nxt, count)
    a.jmp(tcp_arm)
