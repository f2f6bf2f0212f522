"""HKDF with SHA-256 and SHA-384 (RFC 5869), and the labels of TLS 1.3 (RFC 8446 7.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from firmware.abi import CALLER_SAVED
from firmware.crypto.hmac import (
    hmac_sha256_finish,
    hmac_sha256_start,
    hmac_sha384_finish,
    hmac_sha384_start,
)
from firmware.crypto.sha256 import sha256_update
from firmware.crypto.sha512 import sha512_update
from firmware.layouts.crypto import (
    BUFFER_IN,
    BUFFER_OUT,
    HKDF,
    HMAC,
    SHA256_DIGEST_BYTES,
    SHA384_DIGEST_BYTES,
    Hkdf,
)
from toolchain.asm import (
    AX,
    EAX,
    EBP,
    ECX,
    NZ,
    R8,
    R8D,
    R9B,
    R9D,
    R10,
    R11,
    R12,
    R13,
    R13D,
    R14,
    R14D,
    RBP,
    RBX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    In,
    Reg32,
    Reg64,
    mem8,
    routine,
)

if TYPE_CHECKING:
    from toolchain.asm import Routine

EXTRACT = (
    In(RSI, int, "the salt"),
    In(ECX, int, "its bytes; any number"),
    In(RDX, int, "the input keying material"),
    In(R8D, int, "its bytes"),
    In(RDI, int, "where the pseudorandom key goes; a digest"),
)
EXPAND = (
    In(RSI, int, "the pseudorandom key; a digest"),
    In(RDX, int, "the info"),
    In(R8D, int, "its bytes"),
    In(RDI, int, "where the output goes"),
    In(ECX, int, "its bytes; 1 to 255 digests"),
)
EXPAND_LABEL = (
    In(RSI, int, "the secret; a digest"),
    In(
        RDX,
        int,
        "the label: a byte with its length, 'tls13 ', its name; at most 24 behind the byte",
    ),
    In(R8, int, "the context"),
    In(R9D, int, "its bytes; at most 64"),
    In(RDI, int, "where the output goes"),
    In(ECX, int, "its bytes; 1 to 255 digests"),
)


@dataclass(frozen=True)
class Mac:
    """An HMAC as HKDF needs it: its routines, and bytes of a tag."""

    start: Routine
    update: Routine
    finish: Routine
    size: int

    @property
    def calls(self) -> tuple[Routine, Routine, Routine]:
        """The routines."""
        return self.start, self.update, self.finish


SHA256 = Mac(hmac_sha256_start, sha256_update, hmac_sha256_finish, SHA256_DIGEST_BYTES)
SHA384 = Mac(hmac_sha384_start, sha512_update, hmac_sha384_finish, SHA384_DIGEST_BYTES)


def _append(a: Asm, mac: Mac) -> None:
    """Append ECX bytes at RSI to the message."""
    a.lea(RDI, HMAC.it.hash.state.address)
    a.call(mac.update)


def _extract(a: Asm, mac: Mac) -> None:
    """Emit: PRK = HMAC(salt, IKM)."""
    a.mov(RBX, RDX)
    a.mov(EBP, R8D)
    a.mov(R13, RDI)
    a.call(mac.start)
    a.mov(RSI, RBX)
    a.mov(ECX, EBP)
    _append(a, mac)
    a.mov(RDI, R13)
    a.call(mac.finish)
    a.ret()


def _expand(a: Asm, mac: Mac) -> None:
    """Emit: T(i) = HMAC(PRK, T(i-1) | info | i), as many as the output takes."""
    work, key, info, length, out, left = HKDF.it, RBX, RBP, R14D, R12, R13D
    a.mov(key, RSI)
    a.mov(info, RDX)
    a.mov(length, R8D)
    a.mov(out, RDI)
    a.mov(left, ECX)
    a.mov(work.counter, 0)
    with a.loop() as block:
        a.mov(RSI, key)
        a.mov(ECX, mac.size)
        a.call(mac.start)
        a.cmp(work.counter, 0)
        with a.if_(NZ):
            a.lea(RSI, work.block.address)
            a.mov(ECX, mac.size)
            _append(a, mac)
        a.mov(RSI, info)
        a.mov(ECX, length)
        _append(a, mac)
        a.inc(work.counter)
        a.lea(RSI, work.counter)
        a.mov(ECX, 1)
        _append(a, mac)
        a.lea(RDI, work.block.address)
        a.call(mac.finish)

        a.lea(RSI, work.block.address)
        a.mov(RDI, out)
        a.mov(ECX, mac.size)
        a.cmp(ECX, left)
        a.cmov(A, ECX, left)
        a.sub(left, ECX)
        a.rep_movsb()
        a.mov(out, RDI)
        a.test(left, left)
        a.again(NZ, block)
    a.lea(RDI, work.block.address)
    a.xor(EAX, EAX)
    a.mov(ECX, Hkdf.block.size // 8)
    a.rep_stosq()
    a.ret()


def _expand_label(a: Asm, expand: Routine) -> None:
    """Emit: the info is the output's length, the label, the context, each with its length."""
    info = HKDF.it.info
    a.mov(R10, RSI)
    a.mov(R11, RDI)
    a.mov(EAX, ECX)
    a.lea(RDI, info.m8(2))
    a.mov(RSI, RDX)
    a.movzx(ECX, mem8(RSI, ref=BUFFER_IN))
    a.inc(ECX)
    a.rep_movsb()
    a.mov(Hkdf.at(RDI, -Hkdf.info.offset).info.m8(), R9B)
    a.inc(RDI)
    a.mov(RSI, R8)
    a.mov(ECX, R9D)
    a.rep_movsb()
    a.lea(RDX, info.address)
    a.mov(R8, RDI)
    a.sub(R8, RDX)
    a.mov(ECX, EAX)
    a.rol(AX, 8)
    a.mov(info.m16(), AX)
    a.mov(RSI, R10)
    a.mov(RDI, R11)
    a.jmp(expand)


@routine(
    inputs=EXTRACT,
    clobbers=CALLER_SAVED,
    calls=SHA256.calls,
    saves=[RBX, RBP, R13],
    source="RFC 5869 2.2",
)
def hkdf_sha256_extract(
    a: Asm, salt: Reg64, salt_bytes: Reg32, ikm: Reg64, ikm_bytes: Reg32, prk: Reg64
) -> None:
    """Make a key of 32 bytes from what may be guessed in part."""
    _extract(a, SHA256)


@routine(
    inputs=EXPAND,
    clobbers=CALLER_SAVED,
    reads=[Hkdf.counter],
    writes=[Hkdf.counter, Hkdf.block, BUFFER_OUT],
    calls=SHA256.calls,
    saves=[RBX, RBP, R12, R13, R14],
    secret=[Hkdf.block, BUFFER_OUT],
    source="RFC 5869 2.3",
)
def hkdf_sha256_expand(
    a: Asm, prk: Reg64, info: Reg64, info_bytes: Reg32, out: Reg64, out_bytes: Reg32
) -> None:
    """Make keys from a key of 32 bytes; `info` tells them apart."""
    _expand(a, SHA256)


@routine(
    inputs=EXPAND_LABEL,
    clobbers=CALLER_SAVED,
    reads=[BUFFER_IN],
    writes=[Hkdf.info],
    calls=[hkdf_sha256_expand],
    source="RFC 8446 7.1",
)
def hkdf_sha256_expand_label(
    a: Asm, secret: Reg64, label: Reg64, context: Reg64, size: Reg32, out: Reg64, out_bytes: Reg32
) -> None:
    """Derive a secret of TLS 1.3."""
    _expand_label(a, hkdf_sha256_expand)


@routine(
    inputs=EXTRACT,
    clobbers=CALLER_SAVED,
    calls=SHA384.calls,
    saves=[RBX, RBP, R13],
    source="RFC 5869 2.2",
)
def hkdf_sha384_extract(
    a: Asm, salt: Reg64, salt_bytes: Reg32, ikm: Reg64, ikm_bytes: Reg32, prk: Reg64
) -> None:
    """Make a key of 48 bytes from what may be guessed in part."""
    _extract(a, SHA384)


@routine(
    inputs=EXPAND,
    clobbers=CALLER_SAVED,
    reads=[Hkdf.counter],
    writes=[Hkdf.counter, Hkdf.block, BUFFER_OUT],
    calls=SHA384.calls,
    saves=[RBX, RBP, R12, R13, R14],
    secret=[Hkdf.block, BUFFER_OUT],
    source="RFC 5869 2.3",
)
def hkdf_sha384_expand(
    a: Asm, prk: Reg64, info: Reg64, info_bytes: Reg32, out: Reg64, out_bytes: Reg32
) -> None:
    """Make keys from a key of 48 bytes; `info` tells them apart."""
    _expand(a, SHA384)


@routine(
    inputs=EXPAND_LABEL,
    clobbers=CALLER_SAVED,
    reads=[BUFFER_IN],
    writes=[Hkdf.info],
    calls=[hkdf_sha384_expand],
    source="RFC 8446 7.1",
)
def hkdf_sha384_expand_label(
    a: Asm, secret: Reg64, label: Reg64, context: Reg64, size: Reg32, out: Reg64, out_bytes: Reg32
) -> None:
    """Derive a secret of TLS 1.3."""
    _expand_label(a, hkdf_sha384_expand)
