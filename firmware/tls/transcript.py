"""The transcript: the hash of every handshake message so far (RFC 8446 4.4.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmware.abi import CALLER_SAVED
from firmware.crypto.sha256 import sha256_finish, sha256_start, sha256_update
from firmware.crypto.sha512 import sha384_finish, sha384_start, sha512_update
from firmware.layouts.crypto import HASH, SHA256_DIGEST_BYTES, SHA384_DIGEST_BYTES, Hash
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import HandshakeType, Suite, TlsContext
from firmware.layouts.tls_arena import TlsArena
from toolchain.asm import (
    EAX,
    ECX,
    R8,
    R12,
    RBX,
    RDI,
    RSI,
    Asm,
    E,
    In,
    Reg32,
    Reg64,
    routine,
)

if TYPE_CHECKING:
    from toolchain.asm import Routine


def hash_bytes(a: Asm, into: Reg32, shard: ShardContext) -> None:
    """Set a register to the bytes of a digest of the suite's hash. EAX and flags change."""
    a.mov(EAX, SHA384_DIGEST_BYTES)
    a.mov(into, SHA256_DIGEST_BYTES)
    a.cmp(shard.tls.suite, Suite.AES_256_GCM_SHA384)
    a.cmov(E, into, EAX)


def either(a: Asm, shard: ShardContext, sha256: Routine, sha384: Routine) -> None:
    """Leave to the routine of the suite's hash."""
    a.cmp(shard.tls.suite, Suite.AES_256_GCM_SHA384)
    with a.if_(E):
        a.jmp(sha384)
    a.jmp(sha256)


@routine(
    inputs=[In(RBX, ShardContext, "the shard; its suite is chosen")],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.arena_ptr, TlsContext.suite],
    calls=[sha256_start, sha384_start],
    source="RFC 8446 4.4.1",
)
def tls_transcript_start(a: Asm, shard: ShardContext) -> None:
    """Begin with no message."""
    a.mov(RDI, shard.tls.arena_ptr)
    a.lea(RDI, TlsArena.at(RDI).transcript.state.address)
    either(a, shard, sha256_start, sha384_start)


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(RSI, int, "a message with its header, or a part of one"),
        In(ECX, int, "its bytes"),
    ],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.arena_ptr, TlsContext.suite],
    calls=[sha256_update, sha512_update],
    source="RFC 8446 4.4.1",
)
def tls_transcript_add(a: Asm, shard: ShardContext, message: Reg64, length: Reg32) -> None:
    """Append a message."""
    a.mov(RDI, shard.tls.arena_ptr)
    a.lea(RDI, TlsArena.at(RDI).transcript.state.address)
    either(a, shard, sha256_update, sha512_update)


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.arena_ptr, TlsContext.suite, TlsArena.transcript, Hash],
    writes=[Hash],
    calls=[sha256_finish, sha384_finish],
    source="RFC 8446 4.4.1",
)
def tls_transcript_digest(a: Asm, shard: ShardContext) -> None:
    """Write the digest of what came so far to `TlsArena.digest`; the transcript goes on."""
    a.mov(RSI, shard.tls.arena_ptr)
    arena = TlsArena.at(RSI)
    a.lea(R8, arena.digest.address)
    a.lea(RSI, arena.transcript.state.address)
    a.lea(RDI, HASH.address)
    a.mov(ECX, Hash.SIZE // 8)
    a.rep_movsq()
    a.lea(RDI, HASH.address)
    a.mov(RSI, R8)
    either(a, shard, sha256_finish, sha384_finish)


@routine(
    inputs=[In(RBX, ShardContext, "the shard; HelloRetryRequest chose its suite")],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.arena_ptr, TlsArena.hello_len, TlsContext.suite],
    writes=[TlsArena.derived],
    calls=[tls_transcript_start, tls_transcript_add, tls_transcript_digest],
    saves=[R12],
    source="RFC 8446 4.4.1",
)
def tls_transcript_retry(a: Asm, shard: ShardContext) -> None:
    """Begin with the message_hash that stands for our first ClientHello."""
    arena = TlsArena.at(R12)
    a.mov(R12, shard.tls.arena_ptr)
    a.call(tls_transcript_start)
    a.lea(RSI, arena.hello.address)
    a.mov(ECX, arena.hello_len)
    a.call(tls_transcript_add)
    a.call(tls_transcript_digest)
    a.call(tls_transcript_start)
    hash_bytes(a, ECX, shard)
    a.shl(ECX, 24)
    a.or_(ECX, HandshakeType.MESSAGE_HASH)
    a.mov(arena.derived.m32(0), ECX)
    a.lea(RSI, arena.derived.address)
    a.mov(ECX, 4)
    a.call(tls_transcript_add)
    hash_bytes(a, ECX, shard)
    a.lea(RSI, arena.digest.address)
    a.call(tls_transcript_add)
    a.ret()
