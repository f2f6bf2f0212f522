"""The transport that WebSocket uses: TCP as it is for `ws://`, TLS records for `wss://`.

Before `tls_start` a connection of a node without TLS is plain too; one with TLS carries nothing.
"""

from firmware.abi import CALLER_SAVED
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import (
    KEY_RECORDS_MAX,
    RecordType,
    TlsContext,
    TlsDirection,
    TlsFlag,
    TlsState,
)
from firmware.layouts.tls_sites import Alert
from firmware.tcp.connect import tcp_abort, tcp_close
from firmware.tcp.reliable import tcp_commit, tcp_reserve
from firmware.tcp.ring import tcp_consume, tcp_readable
from firmware.tls.begin import tls_begin
from firmware.tls.handshake import tls_tick
from firmware.tls.pool import tls_arena_give
from firmware.tls.protect import tls_erase
from firmware.tls.send import tls_alert, tls_commit_record, tls_reserve_record, tls_update_keys
from firmware.tls.stream import tls_pull
from toolchain.asm import (
    AE,
    BE,
    CF,
    EAX,
    ECX,
    EDI,
    EDX,
    NE,
    NZ,
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
    C,
    E,
    In,
    Label,
    Out,
    Reg32,
    Routine,
    Z,
    routine,
)


@routine(
    inputs=[In(RBX, ShardContext, "the shard; TCP is ESTABLISHED")],
    clobbers=CALLER_SAVED,
    reads=[ConfigBlob.gateway_secure],
    writes=[TlsContext],
    calls=[tls_begin],
    source="firmware/docs/layers.md; firmware/docs/tls.md#plain-connections",
)
def tls_start(a: Asm, shard: ShardContext) -> None:
    """Bind to the shard's TCP; begin a handshake, or let bytes pass."""
    # All but the arena, which was taken before the SYN, and the deadline behind it.
    a.lea(RDI, shard.tls.state)
    a.mov(ECX, TlsContext.arena_ptr.offset // 8)
    a.xor(EAX, EAX)
    a.rep_stosq()
    a.mov(shard.tls.anchor, RAX)
    a.mov(shard.tls.key_kind, EAX)
    a.lea(RAX, shard.tcp.state)
    a.mov(shard.tls.tcp_ptr, RAX)
    a.cmp(CONFIG.it.gateway_secure, 0)
    with a.if_(NE):
        a.jmp(tls_begin)
    a.mov(shard.tls.state, TlsState.PASS_THROUGH)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard whose TCP was ESTABLISHED")],
    outputs=[Out(CF, "1 = not yet, or it failed")],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.state],
    calls=[tls_start, tls_tick],
    source="firmware/docs/layers.md",
)
def tls_ready(a: Asm, shard: ShardContext) -> None:
    """Start, then go on until the connection carries bytes: at once when it is plain."""
    tls, ready, not_yet = shard.tls, a.label("ready"), a.label("not_yet")
    a.cmp(tls.state, TlsState.IDLE)
    with a.if_(E):
        a.call(tls_start)
    a.mov(EAX, tls.state)
    a.cmp(EAX, TlsState.PASS_THROUGH)
    a.j(E, ready)
    a.cmp(EAX, TlsState.WAIT_SERVER_HELLO)
    a.j(B, not_yet)
    a.cmp(EAX, TlsState.CONNECTED)
    with a.if_(B):
        a.call(tls_tick)
    a.cmp(tls.state, TlsState.CONNECTED)
    a.j(NE, not_yet)
    a.place(ready)
    a.clc()
    a.ret()
    a.place(not_yet)
    a.stc()
    a.ret()


def _leave_to(a: Asm, shard: ShardContext, plain: Routine, refused: Label) -> None:
    """Go to TCP while the connection is plain; where TLS is wanted nothing passes before it starts."""
    a.cmp(shard.tls.state, TlsState.PASS_THROUGH)
    with a.if_(BE):
        with a.if_(B):
            a.cmp(CONFIG.it.gateway_secure, 0)
            a.j(NE, refused)
        a.jmp(plain)


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    outputs=[Out(RSI, "first readable byte"), Out(ECX, "readable bytes, in one run")],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.state, TlsContext.plain_left, ConfigBlob.gateway_secure],
    calls=[tcp_readable, tls_pull],
    source="firmware/docs/layers.md",
)
def tls_readable(a: Asm, shard: ShardContext) -> None:
    """Show the plain text that was received and not yet consumed."""
    shown, refused = a.label("shown"), a.label("refused")
    _leave_to(a, shard, tcp_readable, refused)
    a.cmp(shard.tls.plain_left, 0)
    a.j(NE, shown)
    a.cmp(shard.tls.state, TlsState.CONNECTED)
    with a.if_(E):
        a.call(tls_pull)
    a.place(shown)
    a.call(tcp_readable)
    a.mov(ECX, shard.tls.plain_left)
    a.ret()
    a.place(refused)
    a.call(tcp_readable)
    a.xor(ECX, ECX)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard; its reader can do nothing with what is readable")],
    outputs=[Out(CF, "1 = there is no more now")],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.state],
    calls=[tls_pull],
    source="firmware/docs/layers.md",
)
def tls_more(a: Asm, shard: ShardContext) -> None:
    """Add to the readable run what has come beyond it; its first byte moves."""
    a.cmp(shard.tls.state, TlsState.CONNECTED)
    with a.if_(E):
        a.jmp(tls_pull)
    a.stc()
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard"), In(ECX, int, "bytes that were read")],
    clobbers=[RAX, RCX],
    reads=[TlsContext.state, TlsContext.plain_left, TlsContext.gap],
    writes=[TlsContext.plain_left, TlsContext.gap],
    calls=[tcp_consume],
    source="firmware/docs/layers.md",
)
def tls_consume(a: Asm, shard: ShardContext, length: Reg32) -> None:
    """Free plain text that was read, and with its last byte what lies behind it."""
    tls = shard.tls
    a.cmp(tls.state, TlsState.PASS_THROUGH)
    with a.if_(BE):
        a.jmp(tcp_consume)
    a.cmp(length, tls.plain_left)
    a.cmov(A, length, tls.plain_left)
    a.sub(tls.plain_left, length)
    with a.if_(Z):
        a.add(length, tls.gap)
        a.mov(tls.gap, 0)
    a.jmp(tcp_consume)


@routine(
    inputs=[In(RBX, ShardContext, "the shard"), In(ECX, int, "bytes wanted in one run")],
    outputs=[Out(RDI, "where to write them"), Out(CF, "1 = no room now")],
    clobbers=CALLER_SAVED,
    reads=[
        TlsContext.state,
        TlsContext.flags,
        TlsDirection.sequence,
        ConfigBlob.gateway_secure,
    ],
    calls=[tcp_reserve, tls_reserve_record, tls_update_keys],
    saves=[R12],
    source="firmware/docs/layers.md; RFC 8446 4.6.3 and 5.5",
)
def tls_reserve(a: Asm, shard: ShardContext, length: Reg32) -> None:
    """Find contiguous space for plain text; a KeyUpdate that is owed or due goes first."""
    due, room, full = a.label("due"), a.label("room"), a.label("full")
    _leave_to(a, shard, tcp_reserve, full)
    a.cmp(shard.tls.state, TlsState.CONNECTED)
    a.j(NE, full)
    a.test(shard.tls.flags, TlsFlag.KEY_UPDATE_OWED)
    a.j(NZ, due)
    a.cmp(shard.tls_keys.send.sequence, KEY_RECORDS_MAX)
    a.jb(room)
    a.place(due)
    a.mov(R12D, length)
    a.call(tls_update_keys)
    a.j(C, full)
    a.mov(ECX, R12D)
    a.place(room)
    a.jmp(tls_reserve_record)
    a.place(full)
    a.xor(EDI, EDI)
    a.stc()
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard"), In(ECX, int, "bytes written, at most as reserved")],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.state, ConfigBlob.gateway_secure],
    calls=[tcp_commit, tls_commit_record],
    source="firmware/docs/layers.md",
)
def tls_commit(a: Asm, shard: ShardContext, length: Reg32) -> None:
    """Make written bytes part of the stream, sealed when there are keys."""
    refused = a.label("refused")
    _leave_to(a, shard, tcp_commit, refused)
    a.mov(EAX, RecordType.APPLICATION_DATA)
    a.jmp(tls_commit_record)
    a.place(refused)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.state, TlsContext.flags],
    writes=[TlsContext.flags],
    calls=[tls_alert, tcp_close],
    source="firmware/docs/layers.md; RFC 8446 6.1",
)
def tls_close(a: Asm, shard: ShardContext) -> None:
    """End our direction after what is queued, close_notify before; without room for it, when asked again."""
    tls, full = shard.tls, a.label("full")
    with a.block() as plain:
        a.cmp(tls.state, TlsState.CONNECTED)
        a.leave(B, plain)
        a.test(tls.flags, TlsFlag.CLOSED)
        a.leave(NZ, plain)
        a.mov(EDX, Alert.CLOSE_NOTIFY)
        a.call(tls_alert)
        a.j(C, full)
        a.or_(tls.flags, TlsFlag.CLOSED)
    a.jmp(tcp_close)
    a.place(full)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.state],
    writes=[TlsContext.state],
    calls=[tls_erase, tls_arena_give, tcp_abort],
    source="firmware/docs/layers.md",
)
def tls_abort(a: Asm, shard: ShardContext) -> None:
    """Reset the connection now; its keys are erased, its arena or place in the queue is free."""
    a.cmp(shard.tls.state, TlsState.WAIT_SERVER_HELLO)
    with a.if_(AE):
        a.call(tls_erase)
    a.mov(shard.tls.state, TlsState.IDLE)
    a.call(tls_arena_give)
    a.jmp(tcp_abort)
