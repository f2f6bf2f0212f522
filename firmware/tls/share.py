"""Key shares (RFC 8446 4.2.8): a fresh key for every connection, and what both shares give."""

from firmware.abi import CALLER_SAVED
from firmware.crypto.chosen import p256_agree, p256_public, x25519
from firmware.crypto.drbg import drbg_bytes
from firmware.crypto.mlkem import mlkem_decapsulate, mlkem_keygen
from firmware.crypto.p256 import p256_draw
from firmware.layouts.mlkem import CIPHERTEXT_BYTES, SEED_BYTES, MlKemKey
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import Group, Hybrid, TlsContext
from firmware.layouts.tls_arena import PRIVATE_BYTES, SHARE_BYTES, SHARED_BYTES, TlsArena
from firmware.layouts.x25519 import X25519_BASE_POINT
from toolchain.asm import (
    CF,
    CX,
    EAX,
    ECX,
    NE,
    R12,
    R13,
    R13D,
    RBX,
    RDI,
    RDX,
    RSI,
    Asm,
    E,
    In,
    Out,
    Reg32,
    routine,
)


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(ECX, int, "Group of the share; one that we offer"),
    ],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.arena_ptr],
    writes=[
        TlsArena.share_group, TlsArena.share_len, TlsArena.second_group, TlsArena.shared,
    ],
    calls=[drbg_bytes, x25519, p256_draw, p256_public, mlkem_keygen],
    saves=[R12],
    source="RFC 7748 6.1; RFC 8446 4.2.8.2; draft-ietf-tls-ecdhe-mlkem",
)  # fmt: skip
def tls_make_share(a: Asm, shard: ShardContext, group: Reg32) -> None:
    """Draw a private key and make its public one; in the hybrid a key pair of ML-KEM comes first."""
    arena = TlsArena.at(R12)
    a.mov(R12, shard.tls.arena_ptr)
    a.mov(arena.share_group, CX)
    a.mov(arena.second_group, 0)
    a.cmp(group, Group.SECP256R1)
    with a.if_(E):
        a.mov(arena.share_len, SHARE_BYTES[Group.SECP256R1])
        a.lea(RDI, arena.private.address)
        a.call(p256_draw)
        a.lea(RDI, arena.share.address)
        a.lea(RSI, arena.private.address)
        a.call(p256_public)
        a.ret()
    a.cmp(group, Group.X25519MLKEM768)
    with a.if_(E):
        a.lea(RDI, arena.shared.address)
        a.mov(ECX, SEED_BYTES)
        a.call(drbg_bytes)
        a.lea(RDI, arena.kem.ek.address)
        a.lea(RSI, arena.shared.address)
        a.call(mlkem_keygen)
        a.lea(RDI, arena.shared.address)
        a.mov(ECX, SEED_BYTES // 8)
        a.xor(EAX, EAX)
        a.rep_stosq()
    a.mov(arena.share_len, SHARE_BYTES[Group.X25519])
    a.lea(RDI, arena.private.address)
    a.mov(ECX, PRIVATE_BYTES)
    a.call(drbg_bytes)
    a.lea(RDI, arena.share.address)
    a.lea(RSI, arena.private.address)
    a.lea(RDX, X25519_BASE_POINT.address)
    a.call(x25519)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard; the server's share is there, of a group of ours")],
    outputs=[Out(CF, "1 = the share is a point of small order, or no point")],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.arena_ptr, TlsContext.group, TlsArena.hybrid],
    writes=[TlsArena.private, TlsArena.kem],
    calls=[x25519, p256_agree, mlkem_decapsulate],
    saves=[R12, R13],
    source="RFC 7748 6.1; RFC 8446 4.2.8.2 and 7.4; draft-ietf-tls-ecdhe-mlkem",
)
def tls_agree(a: Asm, shard: ShardContext) -> None:
    """Make what both shares give; the private keys are erased, they serve this connection alone."""
    arena, verdict = TlsArena.at(R12), R13D
    agreed, secp256r1 = a.label("agreed"), a.label("secp256r1")
    a.mov(R12, shard.tls.arena_ptr)
    a.lea(RDI, arena.shared.address)
    a.lea(RDX, arena.peer_share.address)
    a.cmp(shard.tls.group, Group.X25519MLKEM768)
    with a.if_(E):
        a.lea(RSI, arena.kem.ek.address)
        a.call(mlkem_decapsulate)
        # The secret and the share of X25519 stand behind those of ML-KEM.
        a.lea(RDI, arena.shared.m8(SHARED_BYTES))
        a.lea(RDX, arena.peer_share.m8(CIPHERTEXT_BYTES))
    a.lea(RSI, arena.private.address)
    a.cmp(shard.tls.group, Group.SECP256R1)
    a.j(E, secp256r1)
    a.call(x25519)
    a.jmp(agreed)
    a.place(secp256r1)
    a.call(p256_agree)
    a.place(agreed)
    a.sbb(verdict, verdict)
    a.xor(EAX, EAX)
    a.lea(RDI, arena.private.address)
    a.mov(ECX, PRIVATE_BYTES // 8)
    a.rep_stosq()
    a.cmp(arena.hybrid, Hybrid.OFF)
    with a.if_(NE):
        a.lea(RDI, arena.kem.ek.address)
        a.mov(ECX, MlKemKey.SIZE // 8)
        a.rep_stosq()
    a.add(verdict, verdict)  # CF = 1 again when it was
    a.ret()
