"""HMAC with SHA-256 and SHA-384 (RFC 2104), and the comparison of tags that takes the same time.

A message may come in parts: start with the key, append to `HMAC.hash` with the hash's own update,
finish. Nothing of key and message stays in the work space behind a tag.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from firmware.abi import CALLER_SAVED
from firmware.crypto.sha256 import sha256_finish, sha256_start, sha256_update
from firmware.crypto.sha512 import sha384_finish, sha384_start, sha512_update
from firmware.layouts.crypto import (
    BUFFER_IN,
    HMAC,
    SHA256_BLOCK_BYTES,
    SHA256_DIGEST_BYTES,
    SHA384_DIGEST_BYTES,
    SHA512_BLOCK_BYTES,
    Hmac,
)
from toolchain.asm import (
    CF,
    EAX,
    EBP,
    EBX,
    ECX,
    R12,
    R13,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    In,
    Out,
    Reg32,
    Reg64,
    mem64,
    routine,
)

if TYPE_CHECKING:
    from toolchain.asm import Routine

INNER_PAD, OUTER_PAD = 0x3636_3636_3636_3636, 0x5C5C_5C5C_5C5C_5C5C


@dataclass(frozen=True)
class Keyed:
    """A hash as HMAC needs it: its routines, and bytes of a block and of a digest."""

    start: Routine
    update: Routine
    finish: Routine
    block: int
    digest: int

    @property
    def calls(self) -> tuple[Routine, Routine, Routine]:
        """The routines."""
        return self.start, self.update, self.finish


SHA256 = Keyed(sha256_start, sha256_update, sha256_finish, SHA256_BLOCK_BYTES, SHA256_DIGEST_BYTES)
SHA384 = Keyed(sha384_start, sha512_update, sha384_finish, SHA512_BLOCK_BYTES, SHA384_DIGEST_BYTES)


def _pad(a: Asm, kind: Keyed, pattern: int) -> None:
    """Mix a pad into the key's block, and begin a hash with it."""
    a.mov(RCX, pattern)
    for n in range(0, kind.block, 8):  # unrolled: a block's quadwords
        a.xor(HMAC.it.pad.m64(n), RCX)
    a.lea(RDI, HMAC.it.hash.state.address)
    a.call(kind.start)
    a.lea(RSI, HMAC.it.pad.address)
    a.mov(ECX, kind.block)
    a.call(kind.update)


def _start(a: Asm, kind: Keyed) -> None:
    """Emit: begin a message under the key of ECX bytes at RSI."""
    work = HMAC.it
    a.mov(R12, RSI)
    a.mov(EBX, ECX)
    a.lea(RDI, work.pad.address)
    a.xor(EAX, EAX)
    a.mov(ECX, kind.block // 8)
    a.rep_stosq()
    a.cmp(EBX, kind.block)
    with a.if_(A):
        # RFC 2104 2: of a longer key only the digest counts.
        a.lea(RDI, work.hash.state.address)
        a.call(kind.start)
        a.mov(RSI, R12)
        a.mov(ECX, EBX)
        a.call(kind.update)
        a.lea(RSI, work.pad.address)
        a.lea(RDI, work.hash.state.address)
        a.call(kind.finish)
    with a.else_():
        a.lea(RDI, work.pad.address)
        a.mov(RSI, R12)
        a.mov(ECX, EBX)
        a.rep_movsb()
    _pad(a, kind, INNER_PAD)
    a.ret()


def _finish(a: Asm, kind: Keyed) -> None:
    """Emit: write the tag at RDI."""
    work = HMAC.it
    a.mov(R12, RDI)
    a.lea(RDI, work.hash.state.address)
    a.lea(RSI, work.inner.address)
    a.call(kind.finish)
    _pad(a, kind, INNER_PAD ^ OUTER_PAD)
    a.lea(RDI, work.hash.state.address)
    a.lea(RSI, work.inner.address)
    a.mov(ECX, kind.digest)
    a.call(kind.update)
    a.lea(RDI, work.hash.state.address)
    a.mov(RSI, R12)
    a.call(kind.finish)
    a.lea(RDI, work.pad.address)
    a.xor(EAX, EAX)
    a.mov(ECX, (Hmac.SIZE - Hmac.pad.offset) // 8)
    a.rep_stosq()
    a.ret()


@routine(
    inputs=[In(RSI, int, "the key"), In(ECX, int, "its bytes; any number")],
    clobbers=CALLER_SAVED,
    reads=[BUFFER_IN],
    writes=[Hmac.pad],
    calls=SHA256.calls,
    saves=[RBX, R12],
    secret=[Hmac.pad, BUFFER_IN],
    source="RFC 2104 2",
)
def hmac_sha256_start(a: Asm, key: Reg64, length: Reg32) -> None:
    """Begin a message; `sha256_update` of `HMAC.hash` appends to it."""
    _start(a, SHA256)


@routine(
    inputs=[In(RDI, int, "where the 32 bytes of the tag go")],
    clobbers=CALLER_SAVED,
    writes=[Hmac.pad, Hmac.inner],
    calls=SHA256.calls,
    saves=[R12],
    secret=[Hmac.pad, Hmac.inner],
    source="RFC 2104 2",
)
def hmac_sha256_finish(a: Asm, tag: Reg64) -> None:
    """End the message, write its tag, and wipe the work space."""
    _finish(a, SHA256)


@routine(
    inputs=[In(RSI, int, "the key"), In(ECX, int, "its bytes; any number")],
    clobbers=CALLER_SAVED,
    reads=[BUFFER_IN],
    writes=[Hmac.pad],
    calls=SHA384.calls,
    saves=[RBX, R12],
    secret=[Hmac.pad, BUFFER_IN],
    source="RFC 2104 2",
)
def hmac_sha384_start(a: Asm, key: Reg64, length: Reg32) -> None:
    """Begin a message; `sha512_update` of `HMAC.hash` appends to it."""
    _start(a, SHA384)


@routine(
    inputs=[In(RDI, int, "where the 48 bytes of the tag go")],
    clobbers=CALLER_SAVED,
    writes=[Hmac.pad, Hmac.inner],
    calls=SHA384.calls,
    saves=[R12],
    secret=[Hmac.pad, Hmac.inner],
    source="RFC 2104 2",
)
def hmac_sha384_finish(a: Asm, tag: Reg64) -> None:
    """End the message, write its tag, and wipe the work space."""
    _finish(a, SHA384)


@routine(
    inputs=[
        In(RDX, int, "the key, filled up with zeros to 64 bytes"),
        In(RSI, int, "the message"),
        In(ECX, int, "its bytes"),
        In(RDI, int, "where the 32 bytes of the tag go"),
    ],
    clobbers=CALLER_SAVED,
    calls=[hmac_sha256_start, sha256_update, hmac_sha256_finish],
    saves=[RBX, RBP, R13],
    source="RFC 2104 2",
)
def hmac_sha256(a: Asm, key: Reg64, message: Reg64, length: Reg32, tag: Reg64) -> None:
    """Make the tag of a message that lies in one piece."""
    a.mov(RBX, message)
    a.mov(EBP, length)
    a.mov(R13, tag)
    a.mov(RSI, key)
    a.mov(ECX, SHA256_BLOCK_BYTES)
    a.call(hmac_sha256_start)
    a.lea(RDI, HMAC.it.hash.state.address)
    a.mov(RSI, RBX)
    a.mov(ECX, EBP)
    a.call(sha256_update)
    a.mov(RDI, R13)
    a.call(hmac_sha256_finish)
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
