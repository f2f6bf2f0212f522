"""The reliable queue: bytes from `snd_una` on, kept until they are acknowledged."""

from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import TRANSMIT, TcpContext
from firmware.limits import TX_BYTES
from toolchain.asm import (
    BE,
    CF,
    EAX,
    ECX,
    EDI,
    EDX,
    ESI,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    In,
    Out,
    Reg32,
    routine,
)


@routine(
    inputs=[In(RBX, ShardContext, "the shard"), In(ECX, int, "bytes wanted in one run")],
    outputs=[Out(RDI, "where to write them"), Out(CF, "1 = no room now")],
    clobbers=[RAX, RCX, RDX, RSI],
    reads=[ShardContext.tx_base, TcpContext.tx_start, TcpContext.tx_end, TRANSMIT],
    writes=[TcpContext.tx_start, TcpContext.tx_end, TRANSMIT],
    source="firmware/docs/layers.md",
)
def tcp_reserve(a: Asm, shard: ShardContext, length: Reg32) -> None:
    """Find contiguous transmit space, moving what waits to the front when that makes room."""
    tcp, waiting = shard.tcp, EAX
    fits, refused = a.label("fits"), a.label("refused")
    # A length beyond the buffer must not wrap the sums below.
    a.cmp(length, TX_BYTES)
    a.j(A, refused)
    a.mov(EDX, tcp.tx_end)
    a.add(EDX, length)
    a.cmp(EDX, TX_BYTES)
    a.j(BE, fits)
    a.mov(waiting, tcp.tx_end)
    a.sub(waiting, tcp.tx_start)
    a.add(length, waiting)
    a.cmp(length, TX_BYTES)
    a.j(A, refused)

    a.mov(RDI, shard.tx_base)
    a.mov(ESI, tcp.tx_start)
    a.add(RSI, RDI)
    a.mov(ECX, waiting)
    a.rep_movsb()
    a.mov(tcp.tx_start, 0)
    a.mov(tcp.tx_end, waiting)
    a.place(fits)
    a.mov(EDI, tcp.tx_end)
    a.add(RDI, shard.tx_base)
    a.clc()
    a.ret()
    a.place(refused)
    a.xor(EDI, EDI)
    a.stc()
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard"), In(ECX, int, "bytes written, at most as reserved")],
    writes=[TcpContext.tx_end],
    source="firmware/docs/layers.md",
)
def tcp_commit(a: Asm, shard: ShardContext, length: Reg32) -> None:
    """Make reserved bytes part of the stream; the next tick sends them."""
    a.add(shard.tcp.tx_end, length)
    a.ret()
