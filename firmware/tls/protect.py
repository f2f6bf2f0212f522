"""What protects records: keys of both directions, nonces, seal and open (RFC 8446 5.2, 5.3, 7.3)."""

from firmware.abi import CALLER_SAVED
from firmware.crypto.chacha20_poly1305 import (
    chacha20_poly1305_key,
    chacha20_poly1305_open,
    chacha20_poly1305_seal,
)
from firmware.crypto.chosen import aes_gcm_key, aes_gcm_open, aes_gcm_seal
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import (
    IV_BYTES,
    RAW_KEY_MAX,
    RECORD_HEADER_BYTES,
    RECORD_IN,
    SECRET_MAX,
    Suite,
    TlsContext,
    TlsDirection,
    TlsFlag,
    TlsKeys,
)
from firmware.layouts.tls_schedule import IV, KEY, KEY_BYTES, UPDATE
from firmware.tls.schedule import tls_expand
from firmware.tls.transcript import hash_bytes
from toolchain.asm import (
    CF,
    EAX,
    ECX,
    EDX,
    R8,
    R9D,
    R12,
    R13,
    R13D,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    mem8,
    routine,
)


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard; its suite is chosen"),
        In(RDI, TlsDirection, "the direction; its secret is there"),
    ],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.suite],
    writes=[TlsDirection.sequence, TlsDirection.raw],
    calls=[tls_expand, aes_gcm_key, chacha20_poly1305_key],
    saves=[R12, R13],
    source="RFC 8446 7.3",
)
def tls_make_key(a: Asm, shard: ShardContext, direction: TlsDirection) -> None:
    """Make key and nonce of a direction from its traffic secret; its records count from 0."""
    kept = TlsDirection.at(R12)
    a.mov(R12, RDI)
    a.xor(EAX, EAX)
    a.mov(kept.sequence, RAX)
    a.lea(RSI, kept.secret.address)
    a.lea(RDX, IV.address)
    a.mov(R8, RDX)  # no byte of the context is read
    a.xor(R9D, R9D)
    a.lea(RDI, kept.iv.address)
    a.mov(ECX, IV_BYTES)
    a.call(tls_expand)
    a.mov(R13D, KEY_BYTES[Suite.AES_256_GCM_SHA384])
    a.mov(ECX, KEY_BYTES[Suite.AES_128_GCM_SHA256])
    a.cmp(shard.tls.suite, Suite.AES_128_GCM_SHA256)
    a.cmov(E, R13D, ECX)
    a.lea(RSI, kept.secret.address)
    a.lea(RDX, KEY.address)
    a.mov(R8, RDX)
    a.xor(R9D, R9D)
    a.lea(RDI, kept.raw.address)
    a.mov(ECX, R13D)
    a.call(tls_expand)
    a.lea(RDI, kept.key.address)
    a.lea(RSI, kept.raw.address)
    a.mov(EDX, R13D)
    with a.block() as made:
        chacha = a.label("chacha")
        a.cmp(shard.tls.suite, Suite.CHACHA20_POLY1305_SHA256)
        a.j(E, chacha)
        a.call(aes_gcm_key)
        a.jmp(made)
        a.place(chacha)
        a.call(chacha20_poly1305_key)
    a.lea(RDI, kept.raw.address)
    a.mov(ECX, RAW_KEY_MAX // 8)
    a.xor(EAX, EAX)
    a.rep_stosq()
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard; its suite is chosen"),
        In(RDI, TlsDirection, "the direction"),
        In(RSI, int, "its traffic secret"),
    ],
    clobbers=CALLER_SAVED,
    writes=[TlsDirection.secret],
    calls=[tls_make_key],
    source="RFC 8446 7.3",
)
def tls_take_secret(a: Asm, shard: ShardContext, direction: TlsDirection, secret: Reg64) -> None:
    """Protect a direction with a new traffic secret from now on."""
    a.mov(R8, RDI)
    a.lea(RDI, direction.secret.address)
    a.mov(ECX, SECRET_MAX // 8)
    a.rep_movsq()
    a.mov(RDI, R8)
    a.jmp(tls_make_key)


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(RDI, TlsDirection, "the direction"),
    ],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.suite],
    calls=[tls_expand, tls_make_key],
    saves=[R12],
    source="RFC 8446 7.2",
)
def tls_next_secret(a: Asm, shard: ShardContext, direction: TlsDirection) -> None:
    """Replace the traffic secret of a direction by the next one."""
    kept = TlsDirection.at(R12)
    a.mov(R12, RDI)
    a.lea(RSI, kept.secret.address)
    a.lea(RDX, UPDATE.address)
    a.mov(R8, RDX)  # no byte of the context is read
    a.xor(R9D, R9D)
    a.lea(RDI, kept.secret.address)
    hash_bytes(a, ECX, shard)
    a.call(tls_expand)
    a.mov(RDI, R12)
    a.jmp(tls_make_key)


@routine(
    inputs=[In(RDI, TlsDirection, "the direction")],
    clobbers=[RAX],
    reads=[TlsDirection.iv, TlsDirection.sequence],
    writes=[TlsDirection.nonce, TlsDirection.sequence],
    source="RFC 8446 5.3",
)
def tls_nonce(a: Asm, direction: TlsDirection) -> None:
    """Make the nonce of the next record, and count it."""
    a.mov(EAX, direction.iv.m32(0))
    a.mov(direction.nonce.m32(0), EAX)
    a.mov(RAX, direction.sequence)
    a.inc(direction.sequence)
    a.bswap(RAX)
    a.xor(RAX, direction.iv.m64(4))
    a.mov(direction.nonce.m64(4), RAX)
    a.ret()


def _operands(a: Asm, direction: TlsDirection) -> None:
    """Hand a record to the AEAD: its header is the additional data."""
    a.lea(RDI, direction.iv.m8(-TlsDirection.iv.offset))
    a.call(tls_nonce)
    a.lea(RDI, direction.key.address)
    a.lea(RCX, direction.nonce.address)
    a.lea(R8, mem8(RSI, -RECORD_HEADER_BYTES, ref=RECORD_IN))
    a.mov(R9D, RECORD_HEADER_BYTES)


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard; it writes with keys"),
        In(RSI, int, "what the record protects, behind its header; 16 bytes follow for the tag"),
        In(EDX, int, "its bytes, the type at its end included"),
    ],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.suite],
    calls=[tls_nonce, aes_gcm_seal, chacha20_poly1305_seal],
    source="RFC 8446 5.2",
)
def tls_seal(a: Asm, shard: ShardContext, text: Reg64, length: Reg32) -> None:
    """Encrypt a record of ours in place, its tag behind it."""
    _operands(a, shard.tls_keys.send)
    a.cmp(shard.tls.suite, Suite.CHACHA20_POLY1305_SHA256)
    with a.if_(E):
        a.jmp(chacha20_poly1305_seal)
    a.jmp(aes_gcm_seal)


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard; the server writes with keys"),
        In(RSI, int, "what the record protects, behind its header; the tag follows"),
        In(EDX, int, "its bytes without the tag"),
    ],
    outputs=[Out(CF, "1 = the tag is wrong, and nothing of the text is left")],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.suite],
    calls=[tls_nonce, aes_gcm_open, chacha20_poly1305_open],
    source="RFC 8446 5.2",
)
def tls_open(a: Asm, shard: ShardContext, text: Reg64, length: Reg32) -> None:
    """Decrypt a record of the server in place, if its tag is right."""
    _operands(a, shard.tls_keys.receive)
    a.cmp(shard.tls.suite, Suite.CHACHA20_POLY1305_SHA256)
    with a.if_(E):
        a.jmp(chacha20_poly1305_open)
    a.jmp(aes_gcm_open)


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=[RAX, RCX, RDI],
    reads=[TlsContext.flags],
    writes=[TlsKeys, TlsContext.flags],
    source="RFC 8446 E.1.3; firmware/docs/tls.md#secrets",
)
def tls_erase(a: Asm, shard: ShardContext) -> None:
    """Erase the keys of both directions; nothing is sealed or opened with what is left."""
    a.and_(shard.tls.flags, ~(TlsFlag.OPENING | TlsFlag.SEALING) & 0xFFFF_FFFF)
    a.lea(RDI, shard.tls_keys.send.secret.address)
    a.mov(ECX, TlsKeys.SIZE // 8)
    a.xor(EAX, EAX)
    a.rep_stosq()
    a.ret()
