"""The handshake: messages are put together from records, and the table of moves says what they mean."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.node import CoreState, core
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import (
    HANDSHAKE_HEADER_BYTES,
    MEANINGLESS_MAX,
    MESSAGE_IN,
    MESSAGE_MAX,
    Action,
    HandshakeType,
    RecordType,
    TlsContext,
    TlsState,
)
from firmware.layouts.tls_arena import TlsArena
from firmware.layouts.tls_sites import (
    HANDSHAKE_TIMEOUT,
    INTERLEAVED,
    KEY_CHANGE,
    MESSAGE,
    MESSAGE_TOO_LONG,
    RECORD_FLOOD,
)
from firmware.layouts.x509_chain import Chain, ChainState
from firmware.tcp.ring import tcp_consume
from firmware.tls.certificate_verify import tls_on_verify
from firmware.tls.fail import tls_fail
from firmware.tls.finished import tls_on_finished
from firmware.tls.hellos import tls_on_hello, tls_on_retry
from firmware.tls.judge import tls_judge, tls_on_certificate
from firmware.tls.moves import tls_find_move
from firmware.tls.pool import tls_arena_give
from firmware.tls.records import tls_next_record
from firmware.tls.refuse import Refusals
from firmware.tls.server_flight import (
    tls_on_extensions,
    tls_on_request,
)
from firmware.tls.server_hello import tls_is_retry
from firmware.tls.stream import tls_ended, tls_take_alert
from firmware.tls.transcript import tls_transcript_add, tls_transcript_digest
from toolchain.asm import (
    AE,
    EAX,
    ECX,
    EDX,
    NE,
    NZ,
    R9D,
    R12,
    R12D,
    R13,
    R13D,
    R14,
    R14D,
    R15,
    R15D,
    RAX,
    RBX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    C,
    E,
    In,
    Label,
    Reg32,
    Reg64,
    Z,
    mem8,
    mem64,
    routine,
)
from toolchain.layout.data import Table

ACTIONS = {
    Action.RETRY: tls_on_retry,
    Action.SERVER_HELLO: tls_on_hello,
    Action.EXTENSIONS: tls_on_extensions,
    Action.REQUEST: tls_on_request,
    Action.CERTIFICATE: tls_on_certificate,
    Action.VERIFY: tls_on_verify,
    Action.FINISHED: tls_on_finished,
}
"""Who takes a message of the handshake; those behind it have no buffer."""
TLS_ACTIONS = Table(
    "tls_actions",
    len(ACTIONS),
    lambda: tuple(ACTIONS[action] for action in sorted(ACTIONS)),
    "who takes a message, by its Action less one",
)


@routine(
    inputs=[
        In(RBX, ShardContext, "a shard in a handshake"),
        In(EDX, int, "HandshakeType of a whole message"),
        In(RSI, int, "its body, its header before it, in the arena"),
        In(ECX, int, "bytes of the body"),
        In(EAX, int, "bytes that follow in the same record"),
    ],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.state, TLS_ACTIONS],
    writes=[TlsContext.state],
    calls=[
        tls_is_retry, tls_find_move, tls_transcript_digest, tls_transcript_add, tls_fail,
    ],
    indirect=lambda: tuple(ACTIONS.values()),
    saves=[R12, R13, R14, R15],
    source="RFC 8446 A.1",
)  # fmt: skip
def tls_take_message(
    a: Asm, shard: ShardContext, kind: Reg32, body: Reg64, length: Reg32, behind: Reg32
) -> None:
    """Do what the table of moves says; a message that changes keys ends its record."""
    tls, following = shard.tls, R15D
    bad = Refusals(a, (MESSAGE, KEY_CHANGE))
    changes, act, failed, done, illegal = map(
        a.label, ("changes", "act", "failed", "done", "illegal")
    )
    a.mov(R12, body)
    a.mov(R13D, length)
    a.mov(R14D, kind)
    a.mov(R15D, behind)
    a.cmp(kind, HandshakeType.SERVER_HELLO)
    with a.if_(E):
        a.call(tls_is_retry)
        with a.if_(Z):
            a.mov(R14D, HandshakeType.HELLO_RETRY_REQUEST)
    a.mov(EAX, tls.state)
    a.mov(EDX, R14D)
    a.call(tls_find_move)
    a.test(EAX, EAX)
    a.j(Z, illegal)
    a.cmp(EAX, Action.SERVER_HELLO)
    a.j(E, changes)
    a.cmp(EAX, Action.FINISHED)
    a.j(NE, act)
    a.place(changes)
    a.test(R15D, R15D)
    with a.if_(NZ):
        a.mov(EAX, R14D)
        a.jmp(bad[KEY_CHANGE])
    a.place(act)
    a.mov(following, ECX)
    a.mov(R14D, EAX)
    # Signature and Finished are over what came before them; the hellos begin the transcript.
    a.cmp(tls.state, TlsState.WAIT_EXTENSIONS)
    with a.if_(AE):
        a.cmp(R14D, Action.VERIFY)
        with a.if_(AE):
            a.call(tls_transcript_digest)
        a.lea(RSI, mem8(R12, -HANDSHAKE_HEADER_BYTES, ref=MESSAGE_IN))
        a.lea(ECX, mem8(R13, HANDSHAKE_HEADER_BYTES, ref=MESSAGE_IN))
        a.call(tls_transcript_add)
    a.mov(RSI, R12)
    a.mov(ECX, R13D)
    a.lea(RAX, TLS_ACTIONS.address)
    a.mov(RAX, mem64(RAX, -8, index=R14, scale=8, ref=TLS_ACTIONS))
    a.call_indirect(RAX)
    a.test(R9D, R9D)
    a.j(NZ, failed)
    a.mov(tls.state, following)
    a.jmp(done)
    a.place(illegal)
    a.mov(EAX, tls.state)
    a.shl(EAX, 8)
    a.or_(EAX, R14D)
    a.jmp(bad[MESSAGE])
    bad.emit(failed)
    a.place(failed)
    a.call(tls_fail)
    a.place(done)
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "a shard in a handshake"),
        In(RSI, int, "content of a handshake record, or the rest of it"),
        In(ECX, int, "its bytes"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        TlsContext.arena_ptr, TlsContext.state, TlsArena.message_have, TlsArena.message_need,
        TlsArena.message, Chain.state,
    ],
    writes=[
        TlsArena.message_have, TlsArena.message_need, TlsArena.paused_at, TlsArena.paused_len,
    ],
    calls=[tls_find_move, tls_take_message, tls_fail],
    saves=[R12, R13, R14],
    source="RFC 8446 5.1",
)  # fmt: skip
def tls_take_handshake(a: Asm, shard: ShardContext, content: Reg64, length: Reg32) -> None:
    """Put messages together and have each taken when it is whole; a chain that is not judged waits."""
    tls, arena, at, left = shard.tls, TlsArena.at(R12), R13, R14D
    bad = Refusals(a, (MESSAGE, MESSAGE_TOO_LONG))
    out, failed, whole, known, illegal = map(
        a.label, ("out", "failed", "whole", "known", "illegal")
    )
    a.mov(R12, tls.arena_ptr)
    a.mov(at, content)
    a.mov(left, length)
    with a.loop() as each:
        a.test(left, left)
        a.j(Z, out)
        # As much as the header needs, then as much as the message needs.
        a.mov(ECX, arena.message_need)
        a.test(ECX, ECX)
        with a.if_(Z):
            a.mov(ECX, HANDSHAKE_HEADER_BYTES)
        a.mov(EAX, arena.message_have)
        a.sub(ECX, EAX)
        a.cmp(ECX, left)
        with a.if_(A):
            a.mov(ECX, left)
        a.sub(left, ECX)
        a.lea(RDI, arena.message.m8(index=RAX))
        a.add(EAX, ECX)
        a.mov(arena.message_have, EAX)
        a.mov(RSI, at)
        a.rep_movsb()
        a.mov(at, RSI)
        a.cmp(arena.message_need, 0)
        a.j(NE, known)
        a.cmp(EAX, HANDSHAKE_HEADER_BYTES)
        a.j(B, out)

        # A header: may this message come, and is it one that we can hold?
        a.movzx(EDX, arena.message.m8(0))
        a.mov(EAX, tls.state)
        a.cmp(EDX, HandshakeType.HELLO_RETRY_REQUEST)
        a.j(E, illegal)
        a.call(tls_find_move)
        a.test(EAX, EAX)
        a.j(Z, illegal)
        a.mov(ECX, arena.message.m32(0))
        a.bswap(ECX)
        a.and_(ECX, 0xFF_FFFF)
        a.movzx(EAX, arena.message.m8(0))
        a.cmp(ECX, MESSAGE_MAX)
        a.j(A, bad[MESSAGE_TOO_LONG])
        a.add(ECX, HANDSHAKE_HEADER_BYTES)
        a.mov(arena.message_need, ECX)
        a.mov(EAX, arena.message_have)
        a.place(known)
        a.cmp(EAX, arena.message_need)
        a.again(B, each)

        a.place(whole)
        a.lea(ECX, mem8(RAX, -HANDSHAKE_HEADER_BYTES, ref=MESSAGE_IN))
        a.mov(arena.message_have, 0)
        a.mov(arena.message_need, 0)
        a.movzx(EDX, arena.message.m8(0))
        a.lea(RSI, arena.message.m8(HANDSHAKE_HEADER_BYTES))
        a.mov(EAX, left)
        a.call(tls_take_message)
        a.cmp(tls.state, TlsState.FAILED)
        a.j(E, out)
        # The next message would overwrite the certificates.
        a.cmp(tls.state, TlsState.WAIT_VERIFY)
        a.again(NE, each)
        a.cmp(arena.chain.state, ChainState.DONE)
        a.again(E, each)
        a.mov(arena.paused_at, at)
        a.mov(arena.paused_len, left)
        a.jmp(out)
    a.place(illegal)
    a.movzx(EAX, arena.message.m8(0))
    a.mov(ECX, tls.state)
    a.shl(ECX, 8)
    a.or_(EAX, ECX)
    a.jmp(bad[MESSAGE])
    bad.emit(failed)
    a.place(failed)
    a.call(tls_fail)
    a.place(out)
    a.ret()


def _judge(a: Asm, shard: ShardContext, passed: Label, refused: Label) -> Label:
    """Go on with a chain that is judged, then with the rest of its record; return who waits for it.

    R12 becomes the bytes of the record; R13 is the arena.
    """
    arena, waits = TlsArena.at(R13), a.label("waits")
    a.cmp(arena.paused_record, 0)
    with a.if_(NE):
        a.call(tls_judge)
        a.test(R9D, R9D)
        a.j(NZ, refused)
        a.cmp(arena.chain.state, ChainState.DONE)
        a.j(NE, waits)
        a.mov(R12D, arena.paused_record)
        a.mov(arena.paused_record, 0)
        a.mov(RSI, arena.paused_at)
        a.mov(ECX, arena.paused_len)
        a.call(tls_take_handshake)
        a.jmp(passed)
    return waits


@routine(
    inputs=[In(RBX, ShardContext, "a shard in a handshake")],
    clobbers=CALLER_SAVED,
    reads=[
        TlsContext.state,
        TlsContext.deadline,
        TlsContext.meaningless,
        TlsContext.arena_ptr,
        TlsArena.message_have,
        TlsArena.paused_record,
        TlsArena.paused_at,
        TlsArena.paused_len,
        Chain.state,
        CoreState.now,
    ],
    writes=[TlsContext.meaningless, TlsArena.paused_record],
    calls=[
        tls_judge, tls_next_record, tls_take_alert, tls_take_handshake, tls_ended, tls_fail,
        tls_arena_give, tcp_consume,
    ],
    saves=[R12, R13],
    source="RFC 8446 5; firmware/docs/tls.md#states",
)  # fmt: skip
def tls_tick(a: Asm, shard: ShardContext) -> None:
    """Go on with the handshake as far as the records that came allow, within its ten seconds."""
    tls, arena = shard.tls, TlsArena.at(R13)
    none, ccs, alert, passed, refused, failed, over = map(
        a.label, ("none", "ccs", "alert", "passed", "refused", "failed", "over")
    )
    bad = Refusals(
        a,
        detail={
            INTERLEAVED: RecordType.CHANGE_CIPHER_SPEC,
            RECORD_FLOOD: RecordType.CHANGE_CIPHER_SPEC,
        },
    )
    a.mov(R13, tls.arena_ptr)
    with a.loop() as records:
        waits = _judge(a, shard, passed, refused)
        a.call(tls_next_record)
        a.j(C, none)
        a.mov(R12, RDX)
        a.cmp(EAX, RecordType.ALERT)
        a.j(B, ccs)
        a.j(E, alert)
        a.mov(tls.meaningless, 0)
        a.call(tls_take_handshake)
        a.cmp(tls.state, TlsState.WAIT_VERIFY)
        a.j(NE, passed)
        a.cmp(arena.chain.state, ChainState.DONE)
        a.j(E, passed)
        a.mov(arena.paused_record, R12D)
        a.jmp(records.top)
        a.place(alert)
        a.call(tls_take_alert)
        a.jmp(passed)
        a.place(ccs)
        a.cmp(arena.message_have, 0)
        a.j(NE, bad[INTERLEAVED])
        a.cmp(tls.meaningless, MEANINGLESS_MAX)
        a.j(AE, bad[RECORD_FLOOD])
        a.inc(tls.meaningless)
        a.place(passed)
        a.mov(ECX, R12D)
        a.call(tcp_consume)
        a.cmp(tls.state, TlsState.CONNECTED)
        a.j(AE, over)
        a.cmp(tls.state, TlsState.FAILED)
        a.again(NE, records)
        a.jmp(over)
    a.place(none)
    a.call(tls_ended)
    a.cmp(tls.state, TlsState.FAILED)
    a.j(E, over)
    a.place(waits)
    a.mov(RAX, core.now)
    a.cmp(RAX, tls.deadline)
    a.j(AE, bad[HANDSHAKE_TIMEOUT])
    a.ret()
    bad.emit(failed)
    a.place(refused)
    a.place(failed)
    a.call(tls_fail)
    a.place(over)
    a.jmp(tls_arena_give)
