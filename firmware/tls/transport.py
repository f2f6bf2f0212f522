"""The transport that WebSocket uses: plain TCP, with the places where TLS will be.

Until TLS exists, bytes pass through unchanged and `TlsState` only tells that they may.
"""

from firmware.abi import CALLER_SAVED
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import TlsContext, TlsState
from firmware.tcp.connect import tcp_abort, tcp_close
from firmware.tcp.reliable import tcp_commit, tcp_reserve
from firmware.tcp.ring import tcp_consume, tcp_readable
from toolchain.asm import (
    CF,
    ECX,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    In,
    Out,
    Reg32,
    routine,
)


@routine(
    inputs=[In(RBX, ShardContext, "the shard; TCP is ESTABLISHED")],
    clobbers=[RAX],
    writes=[TlsContext.tcp_ptr, TlsContext.error, TlsContext.state],
    source="firmware/docs/layers.md",
)
def tls_start(a: Asm, shard: ShardContext) -> None:
    """Bind to the shard's TCP and let bytes pass."""
    a.lea(RAX, shard.tcp.state)
    a.mov(shard.tls.tcp_ptr, RAX)
    a.mov(shard.tls.error, 0)
    a.mov(shard.tls.state, TlsState.PASS_THROUGH)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    outputs=[Out(RSI, "first readable byte"), Out(ECX, "readable bytes, in one run")],
    calls=[tcp_readable],
    source="firmware/docs/layers.md",
)
def tls_readable(a: Asm, shard: ShardContext) -> None:
    """Show the plain text that was received and not yet consumed."""
    a.jmp(tcp_readable)


@routine(
    inputs=[In(RBX, ShardContext, "the shard"), In(ECX, int, "bytes that were read")],
    clobbers=[RAX, RCX],
    calls=[tcp_consume],
    source="firmware/docs/layers.md",
)
def tls_consume(a: Asm, shard: ShardContext, length: Reg32) -> None:
    """Free plain text that was read."""
    a.jmp(tcp_consume)


@routine(
    inputs=[In(RBX, ShardContext, "the shard"), In(ECX, int, "bytes wanted in one run")],
    outputs=[Out(RDI, "where to write them"), Out(CF, "1 = no room now")],
    clobbers=[RAX, RCX, RDX, RSI],
    calls=[tcp_reserve],
    source="firmware/docs/layers.md",
)
def tls_reserve(a: Asm, shard: ShardContext, length: Reg32) -> None:
    """Find contiguous space for plain text."""
    a.jmp(tcp_reserve)


@routine(
    inputs=[In(RBX, ShardContext, "the shard"), In(ECX, int, "bytes written, at most as reserved")],
    calls=[tcp_commit],
    source="firmware/docs/layers.md",
)
def tls_commit(a: Asm, shard: ShardContext, length: Reg32) -> None:
    """Make written bytes part of the stream."""
    a.jmp(tcp_commit)


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=[RAX],
    calls=[tcp_close],
    source="firmware/docs/layers.md",
)
def tls_close(a: Asm, shard: ShardContext) -> None:
    """End our direction after what is queued."""
    a.jmp(tcp_close)


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=CALLER_SAVED,
    writes=[TlsContext.state],
    calls=[tcp_abort],
    source="firmware/docs/layers.md",
)
def tls_abort(a: Asm, shard: ShardContext) -> None:
    """Reset the connection now."""
    a.mov(shard.tls.state, TlsState.IDLE)
    a.jmp(tcp_abort)
