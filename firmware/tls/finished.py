"""Both Finished: the server's is compared, ours is sent, then the application's keys (RFC 8446 4.4.4)."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.crypto import SHA384_DIGEST_BYTES
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import (
    HANDSHAKE_HEADER_BYTES,
    MESSAGE_IN,
    HandshakeType,
    Suite,
    TlsContext,
    TlsDirection,
    TlsFlag,
)
from firmware.layouts.tls_arena import TLS_EMPTY_CERTIFICATE, TlsArena
from firmware.layouts.tls_sites import FINISHED, MESSAGE_FORM, NO_ROOM
from firmware.tls.hellos import MESSAGE_INPUTS, MESSAGE_OUTPUTS, tls_send_message
from firmware.tls.protect import tls_take_secret
from firmware.tls.refuse import Refusals
from firmware.tls.schedule import tls_data_secrets, tls_finished_mac
from firmware.tls.send import tls_change_cipher_spec
from firmware.tls.transcript import hash_bytes, tls_transcript_add, tls_transcript_digest
from toolchain.asm import (
    CF,
    EAX,
    ECX,
    NE,
    NZ,
    R9D,
    R12,
    R13,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    C,
    In,
    Out,
    Reg32,
    Reg64,
    mem64,
    routine,
)


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard; `verify_data` is what the server has to say"),
        In(RSI, int, "what it says; a digest"),
    ],
    outputs=[Out(CF, "1 = it says something else")],
    clobbers=[RAX, RCX, RDX],
    reads=[TlsContext.arena_ptr, TlsContext.suite, TlsArena.verify_data, MESSAGE_IN],
    secret=[TlsArena.verify_data],
    source="RFC 8446 4.4.4",
)
def tls_finished_differs(a: Asm, shard: ShardContext, told: Reg64) -> None:
    """Compare in the same time wherever they differ."""
    arena = TlsArena.at(RDX)
    a.mov(RDX, shard.tls.arena_ptr)
    short = a.label("short")
    a.mov(RAX, arena.verify_data.m64(0))
    a.xor(RAX, mem64(told, ref=MESSAGE_IN))
    for n in range(8, SHA384_DIGEST_BYTES, 8):  # unrolled: the quadwords of either digest
        if n == 32:
            a.cmp(shard.tls.suite, Suite.AES_256_GCM_SHA384)
            a.j(NE, short)
        a.mov(RCX, arena.verify_data.m64(n))
        a.xor(RCX, mem64(told, n, ref=MESSAGE_IN))
        a.or_(RAX, RCX)
    a.place(short)
    a.neg(RAX)  # CF = 1 unless it was zero
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard; the server's Finished is in the transcript")],
    outputs=[Out(CF, "1 = no room now")],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.arena_ptr, TlsContext.flags, TlsContext.suite],
    writes=[TlsArena.finished],
    calls=[
        tls_change_cipher_spec,
        tls_send_message,
        tls_transcript_add,
        tls_transcript_digest,
        tls_finished_mac,
    ],
    saves=[R12],
    source="RFC 8446 4.4.2 and 4.4.4",
)
def tls_send_finished(a: Asm, shard: ShardContext) -> None:
    """Send our second flight: an empty Certificate when one was asked for, and Finished."""
    arena, full = TlsArena.at(R12), a.label("full")
    a.mov(R12, shard.tls.arena_ptr)
    a.call(tls_change_cipher_spec)
    a.j(C, full)
    a.test(shard.tls.flags, TlsFlag.REQUESTED)
    with a.if_(NZ):
        a.lea(RSI, TLS_EMPTY_CERTIFICATE.address)
        a.mov(ECX, TLS_EMPTY_CERTIFICATE.size)
        a.call(tls_transcript_add)
        a.lea(RSI, TLS_EMPTY_CERTIFICATE.address)
        a.mov(ECX, TLS_EMPTY_CERTIFICATE.size)
        a.call(tls_send_message)
        a.j(C, full)
    a.call(tls_transcript_digest)
    a.lea(RSI, arena.client_secret.address)
    a.call(tls_finished_mac)
    hash_bytes(a, ECX, shard)
    a.mov(EAX, ECX)
    a.shl(EAX, 24)
    a.or_(EAX, HandshakeType.FINISHED)
    a.mov(arena.finished.m32(0), EAX)
    a.lea(RDI, arena.finished.m8(HANDSHAKE_HEADER_BYTES))
    a.lea(RSI, arena.verify_data.address)
    a.rep_movsb()
    hash_bytes(a, ECX, shard)
    a.add(ECX, HANDSHAKE_HEADER_BYTES)
    a.lea(RSI, arena.finished.address)
    a.call(tls_send_message)
    a.place(full)
    a.ret()


@routine(
    inputs=MESSAGE_INPUTS,
    outputs=MESSAGE_OUTPUTS,
    clobbers=CALLER_SAVED,
    reads=[TlsContext.arena_ptr, TlsContext.suite],
    calls=[
        tls_finished_mac,
        tls_finished_differs,
        tls_transcript_digest,
        tls_data_secrets,
        tls_send_finished,
        tls_take_secret,
    ],
    saves=[R12, R13],
    source="RFC 8446 4.4.4 and 7.3",
)
def tls_on_finished(a: Asm, shard: ShardContext, body: Reg64, length: Reg32) -> None:
    """Compare the server's Finished, answer with ours, and go over to the application's keys."""
    bad = Refusals(a, detail={MESSAGE_FORM: HandshakeType.FINISHED})
    out, arena = a.label("out"), TlsArena.at(R12)
    a.mov(R12, shard.tls.arena_ptr)
    a.mov(R13, body)
    a.mov(R9D, length)
    hash_bytes(a, ECX, shard)
    a.cmp(ECX, R9D)
    a.j(NE, bad[MESSAGE_FORM])
    a.lea(RSI, arena.server_secret.address)
    a.call(tls_finished_mac)
    a.mov(RSI, R13)
    a.call(tls_finished_differs)
    a.j(C, bad[FINISHED])
    a.call(tls_transcript_digest)
    a.call(tls_data_secrets)
    # Ours is under the handshake's key still.
    a.call(tls_send_finished)
    a.j(C, bad[NO_ROOM])
    for direction, secret in (
        (shard.tls_keys.receive, arena.server_secret),
        (shard.tls_keys.send, arena.client_data),
    ):  # unrolled: two directions
        a.lea(RDI, direction.secret.m8(-TlsDirection.secret.offset))
        a.lea(RSI, secret.address)
        a.call(tls_take_secret)
    a.xor(R9D, R9D)
    a.jmp(out)
    bad.emit(out)
    a.place(out)
    a.ret()
