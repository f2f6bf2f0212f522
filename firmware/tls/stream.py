"""The plaintext of the server as one run: records are opened when a reader needs more of it.

What is left of a record that a reader cannot use yet (half a frame's head) is moved up against the
next record's content. TCP gets back what lies before and behind the plaintext: headers, tags,
padding, records without data.
"""

from firmware.abi import CALLER_SAVED
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import TcpContext, TcpState
from firmware.layouts.tls import (
    MEANINGLESS_MAX,
    RECORD_HEADER_BYTES,
    RECORD_IN,
    RecordType,
    TlsContext,
    TlsState,
)
from firmware.layouts.tls_arena import TlsArena
from firmware.layouts.tls_sites import ALERT_RECEIVED, INTERLEAVED, RECORD_FLOOD, TRUNCATED, Alert
from firmware.tcp.ring import tcp_consume
from firmware.tls.after import tls_take_after
from firmware.tls.fail import tls_fail
from firmware.tls.records import tls_next_record
from firmware.tls.refuse import Refusals
from toolchain.asm import (
    AE,
    AL,
    BE,
    CF,
    CL,
    EAX,
    ECX,
    EDX,
    NE,
    NZ,
    R8,
    R8D,
    R9D,
    R10,
    R10D,
    R11,
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
    Out,
    Reg32,
    Reg64,
    Z,
    mem8,
    mem64,
    routine,
)


@routine(
    inputs=[In(RBX, ShardContext, "the shard"), In(RSI, int, "the two bytes of an alert")],
    clobbers=CALLER_SAVED,
    reads=[
        RECORD_IN, TlsContext.state, TlsContext.meaningless, TlsContext.message_have,
        TlsContext.arena_ptr, TlsArena.message_have,
    ],
    writes=[TlsContext.peer_alert, TlsContext.state, TlsContext.meaningless],
    calls=[tls_fail],
    source="RFC 8446 5.1 and 6",
)  # fmt: skip
def tls_take_alert(a: Asm, shard: ShardContext, alert: Reg64) -> None:
    """End what the server ends: close_notify behind the handshake in order, all else as a failure."""
    tls, out, failed = shard.tls, a.label("out"), a.label("failed")
    bad = Refusals(
        a, (ALERT_RECEIVED,), {RECORD_FLOOD: RecordType.ALERT, INTERLEAVED: RecordType.ALERT}
    )
    a.movzx(EAX, mem8(alert, 1, ref=RECORD_IN))
    a.mov(tls.peer_alert, AL)
    a.cmp(EAX, Alert.USER_CANCELED)
    with a.if_(E):
        # It ends nothing, so it may not stand between the parts of a message, here or in the arena.
        a.movzx(EAX, tls.message_have)
        a.mov(RCX, tls.arena_ptr)
        a.test(RCX, RCX)
        with a.if_(NZ):
            a.or_(EAX, TlsArena.at(RCX).message_have)
        a.test(EAX, EAX)
        a.j(NZ, bad[INTERLEAVED])
        # close_notify follows; the wait for it is bounded.
        a.cmp(tls.meaningless, MEANINGLESS_MAX)
        a.j(AE, bad[RECORD_FLOOD])
        a.inc(tls.meaningless)
        a.jmp(out)
    a.cmp(EAX, Alert.CLOSE_NOTIFY)
    a.j(NE, bad[ALERT_RECEIVED])
    a.cmp(tls.state, TlsState.CONNECTED)
    a.j(NE, bad[ALERT_RECEIVED])
    a.mov(tls.state, TlsState.ENDED)
    a.jmp(out)
    bad.emit(failed)
    a.place(failed)
    a.call(tls_fail)
    a.place(out)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard"), In(ECX, int, "bytes of a record without data")],
    clobbers=[RAX, RCX],
    reads=[TlsContext.plain_left, TlsContext.gap],
    writes=[TlsContext.gap],
    calls=[tcp_consume],
    source="firmware/docs/tls.md#records",
)
def tls_pass_over(a: Asm, shard: ShardContext, length: Reg32) -> None:
    """Give a record back to TCP, now or with the plaintext before it."""
    tls = shard.tls
    a.add(length, tls.gap)
    a.cmp(tls.plain_left, 0)
    with a.if_(NE):
        a.mov(tls.gap, length)
        a.ret()
    a.mov(tls.gap, 0)
    a.jmp(tcp_consume)


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(RSI, int, "content of the record in hand"),
        In(ECX, int, "its bytes, at least one"),
        In(EDX, int, "bytes of the whole record"),
    ],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.plain_left, TlsContext.gap, RECORD_IN],
    writes=[TlsContext.plain_left, TlsContext.gap, RECORD_IN],
    calls=[tcp_consume],
    source="firmware/docs/tls.md#records",
)
def tls_append(a: Asm, shard: ShardContext, content: Reg64, length: Reg32, whole: Reg32) -> None:
    """Move what is left of the last record up against a new one's content."""
    tls, left, start = shard.tls, EAX, RDI
    a.mov(left, tls.plain_left)
    a.mov(R8D, tls.gap)
    a.mov(R9D, length)
    # What is left begins this far before the content.
    a.lea(R10D, mem8(RAX, RECORD_HEADER_BYTES, index=R8, ref=RECORD_IN))
    a.mov(start, content)
    a.sub(start, R10)
    a.sub(content, RAX)
    # From the end, because the places may overlap; both lie in the double mapping.
    with a.loop() as words:
        a.sub(left, 8)
        a.leave(B, words)
        a.mov(R11, mem64(start, index=RAX, ref=RECORD_IN))
        a.mov(mem64(content, index=RAX, ref=RECORD_IN), R11)
        a.jmp(words.top)
    a.add(left, 8)
    with a.loop() as rest:
        a.sub(left, 1)
        a.leave(B, rest)
        a.mov(CL, mem8(start, index=RAX, ref=RECORD_IN))
        a.mov(mem8(content, index=RAX, ref=RECORD_IN), CL)
        a.jmp(rest.top)
    a.lea(ECX, mem8(R8, RECORD_HEADER_BYTES, ref=RECORD_IN))
    a.add(tls.plain_left, R9D)
    # Behind the new plaintext lie its type, padding and tag.
    a.sub(EDX, RECORD_HEADER_BYTES)
    a.sub(EDX, R9D)
    a.mov(tls.gap, EDX)
    a.jmp(tcp_consume)


@routine(
    inputs=[In(RBX, ShardContext, "a CONNECTED shard")],
    outputs=[Out(CF, "1 = there is no more plaintext now")],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.state, TlsContext.message_have, TlsContext.meaningless],
    writes=[TlsContext.meaningless, TlsContext.key_updates],
    calls=[
        tls_next_record, tls_append, tls_pass_over, tls_take_alert, tls_take_after, tls_fail,
    ],
    saves=[R12],
    source="RFC 8446 5; firmware/docs/tls.md#records",
)  # fmt: skip
def tls_pull(a: Asm, shard: ShardContext) -> None:
    """Open records until one has data; all others are dealt with on the way."""
    tls, none, failed, alert, empty, handled = (
        shard.tls,
        *map(a.label, ("none", "failed", "alert", "empty", "handled")),
    )
    bad = Refusals(
        a,
        detail={
            INTERLEAVED: RecordType.APPLICATION_DATA,
            RECORD_FLOOD: RecordType.APPLICATION_DATA,
        },
    )
    with a.loop() as records:
        a.call(tls_next_record)
        a.j(C, none)
        a.mov(R12D, EDX)
        a.cmp(EAX, RecordType.HANDSHAKE)
        a.j(B, alert)
        with a.if_(E):
            a.call(tls_take_after)
            a.jmp(handled)
        a.cmp(tls.message_have, 0)
        a.j(NE, bad[INTERLEAVED])
        a.test(ECX, ECX)
        a.j(Z, empty)
        a.mov(tls.meaningless, 0)
        a.mov(tls.key_updates, 0)
        a.mov(EDX, R12D)
        a.call(tls_append)
        a.clc()
        a.ret()
        a.place(empty)
        a.cmp(tls.meaningless, MEANINGLESS_MAX)
        a.j(AE, bad[RECORD_FLOOD])
        a.inc(tls.meaningless)
        a.jmp(handled)
        a.place(alert)
        a.call(tls_take_alert)
        a.place(handled)
        a.mov(ECX, R12D)
        a.call(tls_pass_over)
        a.cmp(tls.state, TlsState.CONNECTED)
        a.again(E, records)
    a.place(none)
    a.stc()
    a.ret()
    bad.emit(failed)
    a.place(failed)
    a.call(tls_fail)
    a.jmp(none)


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    outputs=[Out(CF, "0 = the server has ended the stream in order")],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.state, TcpContext.state],
    calls=[tls_fail],
    source="RFC 8446 6.1; firmware/docs/tls.md#ends",
)
def tls_ended(a: Asm, shard: ShardContext) -> None:
    """Tell whether nothing more comes; with TLS a FIN alone is a truncation, which fails."""
    ended, on = a.label("ended"), a.label("on")
    a.cmp(shard.tls.state, TlsState.ENDED)
    a.j(E, ended)
    a.mov(EAX, shard.tcp.state)
    a.sub(EAX, TcpState.CLOSE_WAIT)
    a.cmp(EAX, TcpState.TIME_WAIT - TcpState.CLOSE_WAIT)
    a.j(A, on)
    a.cmp(shard.tls.state, TlsState.PASS_THROUGH)
    a.j(BE, ended)
    a.cmp(shard.tls.state, TlsState.FAILED)
    a.j(E, on)
    a.mov(R9D, TRUNCATED.code)
    a.call(tls_fail)
    a.place(on)
    a.stc()
    a.ret()
    a.place(ended)
    a.clc()
    a.ret()
