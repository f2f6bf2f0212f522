"""HMAC-SHA-256 (RFC 2104), and the comparison of tags that takes the same time for all."""

from firmware.crypto.sha256 import sha256_compress, sha256_finish, sha256_start
from firmware.layouts.crypto import (
    BUFFER_IN,
    HMAC,
    SHA256_BLOCK_BYTES,
    SHA256_DIGEST_BYTES,
    Hmac,
)
from toolchain.asm import (
    CF,
    EBX,
    ECX,
    R8D,
    R9D,
    R10D,
    R11D,
    R12,
    R13,
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
    Reg64,
    mem64,
    routine,
)

INNER_PAD, OUTER_PAD = 0x3636_3636_3636_3636, 0x5C5C_5C5C_5C5C_5C5C


@routine(
    inputs=[
        In(RDX, int, "the key, filled up with zeros to 64 bytes"),
        In(RSI, int, "the message"),
        In(ECX, int, "its bytes"),
        In(RDI, int, "where the 32 bytes of the tag go"),
    ],
    clobbers=[RAX, RCX, RDX, RSI, RDI, R8D, R9D, R10D, R11D],
    reads=[Hmac.pad, BUFFER_IN],
    writes=[Hmac.pad],
    calls=[sha256_start, sha256_compress, sha256_finish],
    saves=[RBX, R12, R13],
    secret=[Hmac.pad, BUFFER_IN],
    source="RFC 2104 2",
)
def hmac_sha256(a: Asm, key: Reg64, message: Reg64, length: Reg32, tag: Reg64) -> None:
    """Hash the message with the inner pad, and that digest with the outer one."""
    work = HMAC.it
    a.mov(R12, message)
    a.mov(EBX, length)
    a.mov(R13, tag)
    a.mov(RCX, INNER_PAD)
    for n in range(0, SHA256_BLOCK_BYTES, 8):  # unrolled: eight quadwords
        a.mov(RAX, mem64(key, n, ref=BUFFER_IN))
        a.xor(RAX, RCX)
        a.mov(work.pad.m64(n), RAX)
    a.call(sha256_start)
    a.lea(RSI, work.pad.address)
    a.call(sha256_compress)
    a.mov(RSI, R12)
    a.mov(ECX, EBX)
    a.lea(RDI, work.inner.address)
    a.call(sha256_finish)

    a.mov(RCX, INNER_PAD ^ OUTER_PAD)
    for n in range(0, SHA256_BLOCK_BYTES, 8):  # unrolled: eight quadwords
        a.xor(work.pad.m64(n), RCX)
    a.call(sha256_start)
    a.lea(RSI, work.pad.address)
    a.mov(ECX, SHA256_BLOCK_BYTES + SHA256_DIGEST_BYTES)
    a.mov(RDI, R13)
    a.call(sha256_finish)
    a.ret()


@routine(
    inputs=[In(RSI, int, "a tag; 32 bytes"), In(RDI, int, "another; 32 bytes")],
    outputs=[Out(CF, "1 = they differ")],
    clobbers=[RAX, RCX],
    reads=[BUFFER_IN],
    secret=[BUFFER_IN],
    source="RFC 2104 2; firmware/docs/control.md#tags",
)
def tag_differs(a: Asm, left: Reg64, right: Reg64) -> None:
    """Compare two tags without a branch, so that time tells nothing about where they differ."""
    a.mov(RAX, mem64(left, ref=BUFFER_IN))
    a.xor(RAX, mem64(right, ref=BUFFER_IN))
    for n in range(8, SHA256_DIGEST_BYTES, 8):  # unrolled: three more quadwords
        a.mov(RCX, mem64(left, n, ref=BUFFER_IN))
        a.xor(RCX, mem64(right, n, ref=BUFFER_IN))
        a.or_(RAX, RCX)
    a.neg(RAX)  # CF = 1 unless it was zero
    a.ret()
