"""Routines that leave to the variant that boot chose (`firmware/crypto/begin.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmware.abi import CALLER_SAVED
from firmware.crypto.aes_gcm import aes_gcm_key_aesni, aes_gcm_open_aesni, aes_gcm_seal_aesni
from firmware.crypto.aes_gcm_soft import aes_gcm_open_soft, aes_gcm_seal_soft
from firmware.crypto.aes_key_soft import aes_gcm_key_soft
from firmware.crypto.p256 import p256_agree_adx, p256_agree_base, p256_public_adx, p256_public_base
from firmware.crypto.sha2_blocks import sha256_blocks_base, sha512_blocks_base
from firmware.crypto.sha2_bmi2 import sha256_blocks_bmi2, sha512_blocks_bmi2
from firmware.crypto.sha256_shani import sha256_blocks_shani
from firmware.crypto.x25519 import x25519_adx, x25519_base
from firmware.layouts.aead import AesGcm
from firmware.layouts.crypto import BUFFER_IN, BUFFER_OUT, Hash
from firmware.layouts.variants import VARIANTS, Variant, Variants
from toolchain.asm import Asm, E, Mem32, Reg32, Reg64, routine

if TYPE_CHECKING:
    from toolchain.asm import Routine

_SOURCE = "firmware/docs/tls.md#variants"


def leave_to(
    a: Asm, chosen: Mem32[Variant], fast: Routine, base: Routine, medium: Routine | None = None
) -> None:
    """Leave to the variant that a field of `Variants` says."""
    a.cmp(chosen, Variant.FAST)
    with a.if_(E):
        a.jmp(fast)
    if medium is not None:
        a.cmp(chosen, Variant.MEDIUM)
        with a.if_(E):
            a.jmp(medium)
    a.jmp(base)


@routine(
    inputs=sha256_blocks_base.contract.inputs,
    outputs=sha256_blocks_base.contract.outputs,
    clobbers=CALLER_SAVED,
    reads=[Variants.sha256],
    calls=[sha256_blocks_shani, sha256_blocks_bmi2, sha256_blocks_base],
    secret=[Hash.state, BUFFER_IN],
    source=_SOURCE,
)
def sha256_blocks(a: Asm, work: Hash, blocks: Reg64, count: Reg32) -> None:
    """Mix whole blocks into the state of a SHA-256."""
    chosen = VARIANTS.it.sha256
    leave_to(a, chosen, sha256_blocks_shani, sha256_blocks_base, sha256_blocks_bmi2)


@routine(
    inputs=sha512_blocks_base.contract.inputs,
    outputs=sha512_blocks_base.contract.outputs,
    clobbers=CALLER_SAVED,
    reads=[Variants.sha512],
    calls=[sha512_blocks_bmi2, sha512_blocks_base],
    secret=[Hash.state, BUFFER_IN],
    source=_SOURCE,
)
def sha512_blocks(a: Asm, work: Hash, blocks: Reg64, count: Reg32) -> None:
    """Mix whole blocks into the state of a SHA-384 or SHA-512."""
    leave_to(a, VARIANTS.it.sha512, sha512_blocks_bmi2, sha512_blocks_base)


@routine(
    inputs=aes_gcm_key_aesni.contract.inputs,
    clobbers=CALLER_SAVED,
    reads=[Variants.aes_gcm],
    calls=[aes_gcm_key_aesni, aes_gcm_key_soft],
    source=_SOURCE,
)
def aes_gcm_key(a: Asm, key: AesGcm, raw: Reg64, size: Reg32) -> None:
    """Make a key of AES-GCM."""
    leave_to(a, VARIANTS.it.aes_gcm, aes_gcm_key_aesni, aes_gcm_key_soft)


@routine(
    inputs=aes_gcm_seal_aesni.contract.inputs,
    clobbers=CALLER_SAVED,
    reads=[Variants.aes_gcm],
    calls=[aes_gcm_seal_aesni, aes_gcm_seal_soft],
    source=_SOURCE,
)
def aes_gcm_seal(
    a: Asm, key: AesGcm, text: Reg64, length: Reg32, nonce: Reg64, aad: Reg64, aad_length: Reg32
) -> None:
    """Encrypt a text in place and write its tag behind it."""
    leave_to(a, VARIANTS.it.aes_gcm, aes_gcm_seal_aesni, aes_gcm_seal_soft)


@routine(
    inputs=aes_gcm_open_aesni.contract.inputs,
    outputs=aes_gcm_open_aesni.contract.outputs,
    clobbers=CALLER_SAVED,
    reads=[Variants.aes_gcm],
    calls=[aes_gcm_open_aesni, aes_gcm_open_soft],
    source=_SOURCE,
)
def aes_gcm_open(
    a: Asm, key: AesGcm, text: Reg64, length: Reg32, nonce: Reg64, aad: Reg64, aad_length: Reg32
) -> None:
    """Decrypt a text in place if its tag is right."""
    leave_to(a, VARIANTS.it.aes_gcm, aes_gcm_open_aesni, aes_gcm_open_soft)


@routine(
    inputs=x25519_adx.contract.inputs,
    outputs=x25519_adx.contract.outputs,
    clobbers=CALLER_SAVED,
    reads=[Variants.x25519],
    calls=[x25519_adx, x25519_base],
    secret=[BUFFER_IN, BUFFER_OUT],
    source=_SOURCE,
)
def x25519(a: Asm, out: Reg64, scalar: Reg64, point: Reg64) -> None:
    """Multiply a point of Curve25519."""
    leave_to(a, VARIANTS.it.x25519, x25519_adx, x25519_base)


@routine(
    inputs=p256_public_adx.contract.inputs,
    clobbers=CALLER_SAVED,
    reads=[Variants.p256],
    calls=[p256_public_adx, p256_public_base],
    source=_SOURCE,
)
def p256_public(a: Asm, out: Reg64, scalar: Reg64) -> None:
    """Make a public key of P-256."""
    leave_to(a, VARIANTS.it.p256, p256_public_adx, p256_public_base)


@routine(
    inputs=p256_agree_adx.contract.inputs,
    outputs=p256_agree_adx.contract.outputs,
    clobbers=CALLER_SAVED,
    reads=[Variants.p256],
    calls=[p256_agree_adx, p256_agree_base],
    source=_SOURCE,
)
def p256_agree(a: Asm, out: Reg64, scalar: Reg64, share: Reg64) -> None:
    """Make what two keys of P-256 give."""
    leave_to(a, VARIANTS.it.p256, p256_agree_adx, p256_agree_base)
