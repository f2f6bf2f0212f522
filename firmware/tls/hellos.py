"""The hellos in order: ours leave, the server's change keys (RFC 8446 4.1)."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import (
    HANDSHAKE_HEADER_BYTES,
    RECORD_OUT,
    RecordType,
    TlsContext,
    TlsDirection,
    TlsFlag,
)
from firmware.layouts.tls_arena import Place, TlsArena
from firmware.layouts.tls_sites import KEY_SHARE, NO_ROOM
from firmware.tls.hello import tls_write_hello
from firmware.tls.protect import tls_take_secret
from firmware.tls.refuse import Refusals
from firmware.tls.schedule import tls_handshake_secrets
from firmware.tls.send import tls_change_cipher_spec, tls_commit_record, tls_reserve_record
from firmware.tls.server_hello import tls_judge_hello, tls_take_retry, tls_take_share
from firmware.tls.share import tls_agree, tls_make_share
from firmware.tls.transcript import (
    tls_transcript_add,
    tls_transcript_digest,
    tls_transcript_retry,
    tls_transcript_start,
)
from toolchain.asm import (
    CF,
    EAX,
    ECX,
    EDX,
    NZ,
    R9D,
    R12,
    R13,
    R13D,
    R14,
    RBX,
    RDI,
    RSI,
    Asm,
    C,
    In,
    Out,
    Reg32,
    Reg64,
    Z,
    mem8,
    routine,
)

MESSAGE_INPUTS = (
    In(RBX, ShardContext, "the shard"),
    In(RSI, int, "body of the message, its header before it, in the arena"),
    In(ECX, int, "its bytes"),
)
MESSAGE_OUTPUTS = (Out(R9D, "why the connection fails, as an error; 0 = it does not"),)
"""What every routine of the table of moves takes and tells."""


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(RSI, int, "a message of ours with its header"),
        In(ECX, int, "its bytes"),
    ],
    outputs=[Out(CF, "1 = no room now")],
    clobbers=CALLER_SAVED,
    writes=[RECORD_OUT],
    calls=[tls_reserve_record, tls_commit_record],
    saves=[R12, R13],
    source="RFC 8446 5.1",
)
def tls_send_message(a: Asm, shard: ShardContext, message: Reg64, length: Reg32) -> None:
    """Send a handshake message in a record of its own."""
    full = a.label("full")
    a.mov(R12, message)
    a.mov(R13D, length)
    a.call(tls_reserve_record)
    a.j(C, full)
    a.mov(RSI, R12)
    a.mov(ECX, R13D)
    a.rep_movsb()
    a.mov(EAX, RecordType.HANDSHAKE)
    a.mov(ECX, R13D)
    a.call(tls_commit_record)
    a.clc()
    a.place(full)
    a.ret()


def _add_message(a: Asm) -> None:
    """Append the message at R12, R13D bytes behind its header, to the transcript."""
    a.lea(RSI, mem8(R12, -HANDSHAKE_HEADER_BYTES, ref=RECORD_OUT))
    a.lea(ECX, mem8(R13, HANDSHAKE_HEADER_BYTES, ref=RECORD_OUT))
    a.call(tls_transcript_add)


@routine(
    inputs=MESSAGE_INPUTS,
    outputs=MESSAGE_OUTPUTS,
    clobbers=CALLER_SAVED,
    reads=[TlsContext.arena_ptr, TlsArena.hello_len],
    calls=[
        tls_judge_hello,
        tls_take_retry,
        tls_make_share,
        tls_transcript_retry,
        tls_transcript_add,
        tls_change_cipher_spec,
        tls_write_hello,
        tls_send_message,
    ],
    saves=[R12, R13, R14],
    source="RFC 8446 4.1.4",
)
def tls_on_retry(a: Asm, shard: ShardContext, body: Reg64, length: Reg32) -> None:
    """Answer HelloRetryRequest with the second ClientHello."""
    arena, out = TlsArena.at(R14), a.label("out")
    bad = Refusals(a)
    a.mov(R12, body)
    a.mov(R13D, length)
    a.mov(R14, shard.tls.arena_ptr)
    a.mov(EDX, Place.RETRY)
    a.call(tls_judge_hello)
    a.test(R9D, R9D)
    a.j(NZ, out)
    a.call(tls_take_retry)
    a.test(R9D, R9D)
    a.j(NZ, out)
    a.test(EDX, EDX)
    with a.if_(NZ):
        a.mov(ECX, EDX)
        a.call(tls_make_share)
    a.call(tls_transcript_retry)
    _add_message(a)
    a.call(tls_change_cipher_spec)
    a.j(C, bad[NO_ROOM])
    a.call(tls_write_hello)
    a.lea(RSI, arena.hello.address)
    a.mov(ECX, arena.hello_len)
    a.call(tls_transcript_add)
    a.lea(RSI, arena.hello.address)
    a.mov(ECX, arena.hello_len)
    a.call(tls_send_message)
    a.j(C, bad[NO_ROOM])
    a.xor(R9D, R9D)
    a.jmp(out)
    bad.emit(out)
    a.place(out)
    a.ret()


@routine(
    inputs=MESSAGE_INPUTS,
    outputs=MESSAGE_OUTPUTS,
    clobbers=CALLER_SAVED,
    reads=[TlsContext.arena_ptr, TlsArena.hello_len, TlsArena.retry_suite],
    writes=[TlsContext.flags],
    calls=[
        tls_judge_hello,
        tls_take_share,
        tls_agree,
        tls_transcript_start,
        tls_transcript_add,
        tls_transcript_digest,
        tls_handshake_secrets,
        tls_take_secret,
    ],
    saves=[R12, R13, R14],
    source="RFC 8446 4.1.3 and 7.3",
)
def tls_on_hello(a: Asm, shard: ShardContext, body: Reg64, length: Reg32) -> None:
    """Take ServerHello; from here on both directions have keys."""
    arena, out = TlsArena.at(R14), a.label("out")
    bad = Refusals(a)
    a.mov(R12, body)
    a.mov(R13D, length)
    a.mov(R14, shard.tls.arena_ptr)
    a.mov(EDX, Place.SERVER_HELLO)
    a.call(tls_judge_hello)
    a.test(R9D, R9D)
    a.j(NZ, out)
    a.call(tls_take_share)
    a.test(R9D, R9D)
    a.j(NZ, out)
    a.call(tls_agree)
    a.j(C, bad[KEY_SHARE])
    # Behind a retry the transcript has begun already.
    a.cmp(arena.retry_suite, 0)
    with a.if_(Z):
        a.call(tls_transcript_start)
        a.lea(RSI, arena.hello.address)
        a.mov(ECX, arena.hello_len)
        a.call(tls_transcript_add)
    _add_message(a)
    a.call(tls_transcript_digest)
    a.call(tls_handshake_secrets)
    for direction, secret in (
        (shard.tls_keys.receive, arena.server_secret),
        (shard.tls_keys.send, arena.client_secret),
    ):  # unrolled: two directions
        a.lea(RDI, direction.secret.m8(-TlsDirection.secret.offset))
        a.lea(RSI, secret.address)
        a.call(tls_take_secret)
    a.or_(shard.tls.flags, TlsFlag.OPENING | TlsFlag.SEALING)
    a.xor(R9D, R9D)
    a.jmp(out)
    bad.emit(out)
    a.place(out)
    a.ret()
