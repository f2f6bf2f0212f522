"""The key schedule (RFC 8446 7.1 to 7.3, 4.4.4): from what both shares give to what seals a record.

Every routine works with the hash of the connection's suite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmware.abi import CALLER_SAVED
from firmware.crypto.hkdf import (
    hkdf_sha256_expand_label,
    hkdf_sha256_extract,
    hkdf_sha384_expand_label,
    hkdf_sha384_extract,
)
from firmware.crypto.hmac import (
    hmac_sha256_finish,
    hmac_sha256_start,
    hmac_sha384_finish,
    hmac_sha384_start,
)
from firmware.crypto.sha256 import sha256_update
from firmware.crypto.sha512 import sha512_update
from firmware.layouts.crypto import HMAC, SHA256_DIGEST_BYTES, SHA384_DIGEST_BYTES
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import SECRET_MAX, Group, Suite, TlsContext
from firmware.layouts.tls_arena import SHARED_BYTES, TlsArena
from firmware.layouts.tls_schedule import (
    CLIENT_DATA,
    CLIENT_HANDSHAKE,
    DERIVED,
    EARLY_SALTS,
    EMPTY_DIGESTS,
    FINISHED_KEY,
    SERVER_DATA,
    SERVER_HANDSHAKE,
    ZEROS,
)
from firmware.tls.transcript import either, hash_bytes
from toolchain.asm import (
    EAX,
    ECX,
    R8,
    R8D,
    R9D,
    R12,
    R13,
    RAX,
    RBX,
    RDI,
    RDX,
    RSI,
    Asm,
    E,
    In,
    Reg32,
    Reg64,
    routine,
)

if TYPE_CHECKING:
    from toolchain.layout import Data


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(RSI, int, "a secret; a digest"),
        In(RDX, int, "the label, with its length before it"),
        In(R8, int, "the context"),
        In(R9D, int, "its bytes"),
        In(RDI, int, "where the output goes"),
        In(ECX, int, "its bytes"),
    ],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.suite],
    calls=[hkdf_sha256_expand_label, hkdf_sha384_expand_label],
    source="RFC 8446 7.1",
)
def tls_expand(
    a: Asm,
    shard: ShardContext,
    secret: Reg64,
    label: Reg64,
    context: Reg64,
    size: Reg32,
    out: Reg64,
    out_bytes: Reg32,
) -> None:
    """HKDF-Expand-Label."""
    either(a, shard, hkdf_sha256_expand_label, hkdf_sha384_expand_label)


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(RSI, int, "a secret; a digest"),
        In(RDX, int, "the label, with its length before it"),
        In(RDI, int, "where the derived secret goes"),
    ],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.suite, TlsContext.arena_ptr],
    calls=[tls_expand],
    source="RFC 8446 7.1",
)
def tls_derive(a: Asm, shard: ShardContext, secret: Reg64, label: Reg64, out: Reg64) -> None:
    """Derive-Secret, with `TlsArena.digest` as the hash of the messages."""
    a.mov(R8, shard.tls.arena_ptr)
    a.lea(R8, TlsArena.at(R8).digest.address)
    hash_bytes(a, ECX, shard)
    a.mov(R9D, ECX)
    a.jmp(tls_expand)


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(RSI, int, "the salt; a digest"),
        In(RDX, int, "keying material"),
        In(R8D, int, "its bytes"),
    ],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.suite, TlsContext.arena_ptr],
    calls=[hkdf_sha256_extract, hkdf_sha384_extract],
    source="RFC 8446 7.1",
)
def tls_extract(a: Asm, shard: ShardContext, salt: Reg64, ikm: Reg64, size: Reg32) -> None:
    """HKDF-Extract to `TlsArena.secret`."""
    hash_bytes(a, ECX, shard)
    a.mov(RDI, shard.tls.arena_ptr)
    a.lea(RDI, TlsArena.at(RDI).secret.address)
    either(a, shard, hkdf_sha256_extract, hkdf_sha384_extract)


def _by_hash(
    a: Asm, into: Reg64, other: Reg64, tables: dict[int, Data], shard: ShardContext
) -> None:
    """Set a register to the address of the suite's own constant; the other register changes."""
    a.lea(into, tables[SHA256_DIGEST_BYTES].address)
    a.lea(other, tables[SHA384_DIGEST_BYTES].address)
    a.cmp(shard.tls.suite, Suite.AES_256_GCM_SHA384)
    a.cmov(E, into, other)


@routine(
    inputs=[In(RBX, ShardContext, "the shard; `shared` and `digest` up to ServerHello are there")],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.arena_ptr, TlsContext.suite, TlsContext.group],
    writes=[TlsArena.shared],
    calls=[tls_extract, tls_derive],
    saves=[R12],
    source="RFC 8446 7.1",
)
def tls_handshake_secrets(a: Asm, shard: ShardContext) -> None:
    """Make both handshake traffic secrets; what both shares gave is erased."""
    arena = TlsArena.at(R12)
    a.mov(R12, shard.tls.arena_ptr)
    _by_hash(a, RSI, RAX, EARLY_SALTS, shard)
    a.lea(RDX, arena.shared.address)
    a.mov(R8D, SHARED_BYTES)
    a.cmp(shard.tls.group, Group.X25519MLKEM768)
    with a.if_(E):
        a.mov(R8D, 2 * SHARED_BYTES)
    a.call(tls_extract)
    for label, out in (
        (CLIENT_HANDSHAKE, arena.client_secret),
        (SERVER_HANDSHAKE, arena.server_secret),
    ):  # unrolled: two secrets
        a.lea(RSI, arena.secret.address)
        a.lea(RDX, label.address)
        a.lea(RDI, out.address)
        a.call(tls_derive)
    a.lea(RDI, arena.shared.address)
    a.mov(ECX, 2 * SHARED_BYTES // 8)
    a.xor(EAX, EAX)
    a.rep_stosq()
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard; `digest` up to the server's Finished is there")],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.arena_ptr, TlsContext.suite],
    writes=[TlsArena.secret, TlsArena.derived],
    calls=[tls_expand, tls_extract, tls_derive],
    saves=[R12],
    source="RFC 8446 7.1",
)
def tls_data_secrets(a: Asm, shard: ShardContext) -> None:
    """Make the application traffic secrets: ours waits in the arena, the server's replaces its own."""
    arena = TlsArena.at(R12)
    a.mov(R12, shard.tls.arena_ptr)
    _by_hash(a, R8, RAX, EMPTY_DIGESTS, shard)
    hash_bytes(a, ECX, shard)
    a.mov(R9D, ECX)
    a.lea(RSI, arena.secret.address)
    a.lea(RDX, DERIVED.address)
    a.lea(RDI, arena.derived.address)
    a.call(tls_expand)
    hash_bytes(a, R8D, shard)
    a.lea(RSI, arena.derived.address)
    a.lea(RDX, ZEROS.address)
    a.call(tls_extract)
    for label, out in ((CLIENT_DATA, arena.client_data), (SERVER_DATA, arena.server_secret)):
        a.lea(RSI, arena.secret.address)  # unrolled: two secrets
        a.lea(RDX, label.address)
        a.lea(RDI, out.address)
        a.call(tls_derive)
    # The master secret and its salt have done their part: nothing is resumed.
    a.xor(EAX, EAX)
    for wiped in (arena.secret, arena.derived):
        a.lea(RDI, wiped.address)
        a.mov(ECX, SECRET_MAX // 8)
        a.rep_stosq()
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard; `digest` is there"),
        In(RSI, int, "a handshake traffic secret"),
    ],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.arena_ptr, TlsContext.suite],
    calls=[
        tls_expand,
        hmac_sha256_start,
        sha256_update,
        hmac_sha256_finish,
        hmac_sha384_start,
        sha512_update,
        hmac_sha384_finish,
    ],
    saves=[R12, R13],
    source="RFC 8446 4.4.4",
)
def tls_finished_mac(a: Asm, shard: ShardContext, secret: Reg64) -> None:
    """Write to `TlsArena.verify_data` what the Finished under a secret has to say."""
    arena = TlsArena.at(R12)
    longer = a.label("longer")
    a.mov(R12, shard.tls.arena_ptr)
    a.lea(RDX, FINISHED_KEY.address)
    a.mov(R8, RDX)  # no byte of the context is read
    a.xor(R9D, R9D)
    a.lea(RDI, arena.derived.address)
    hash_bytes(a, ECX, shard)
    a.call(tls_expand)
    a.lea(R13, HMAC.it.hash.state.address)
    a.cmp(shard.tls.suite, Suite.AES_256_GCM_SHA384)
    a.je(longer)
    for start, update, finish, size, label in (
        (hmac_sha256_start, sha256_update, hmac_sha256_finish, SHA256_DIGEST_BYTES, None),
        (hmac_sha384_start, sha512_update, hmac_sha384_finish, SHA384_DIGEST_BYTES, longer),
    ):  # unrolled: one way for each hash
        if label is not None:
            a.place(label)
        a.lea(RSI, arena.derived.address)
        a.mov(ECX, size)
        a.call(start)
        a.lea(RSI, arena.digest.address)
        a.mov(ECX, size)
        a.mov(RDI, R13)
        a.call(update)
        a.lea(RDI, arena.verify_data.address)
        a.call(finish)
        a.ret()
