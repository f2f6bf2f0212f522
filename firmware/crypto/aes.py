"""AES with AES-NI: the round keys and the rounds (FIPS 197), for one block or eight together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmware.layouts.aead import AEAD_KEY, AES128_ROUNDS, AES256_ROUNDS, AesGcm
from toolchain.asm import (
    NE,
    RDI,
    RSI,
    XMM0,
    XMM1,
    XMM2,
    XMM3,
    XMM4,
    XMM5,
    XMM6,
    XMM7,
    XMM15,
    mem128,
)

if TYPE_CHECKING:
    from toolchain.asm import Asm, Xmm

STREAM = (XMM0, XMM1, XMM2, XMM3, XMM4, XMM5, XMM6, XMM7)
KEY = XMM15
ROUND_CONSTANTS = (0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x1B, 0x36)
LAST_KEY = AES256_ROUNDS


def _spread(a: Asm, words: Xmm, other: Xmm, lane: int, work: Xmm) -> None:
    """Make the next four words of the key: each is the one before it plus the one four before."""
    a.pshufd(other, other, lane)
    for _ in range(3):  # unrolled: (1 + s)^3 adds all four words up
        a.movdqa(work, words)
        a.pslldq(work, 4)
        a.pxor(words, work)
    a.pxor(words, other)


def keys_128(a: Asm, key: AesGcm) -> None:
    """Make the round keys of a 16-byte key (FIPS 197 5.2)."""
    words, other, work = STREAM[:3]
    a.movdqa(key.keys.m128(), words)
    for n in range(1, AES128_ROUNDS + 1):  # unrolled: ten round keys
        a.aeskeygenassist(other, words, ROUND_CONSTANTS[n - 1])
        _spread(a, words, other, 0xFF, work)
        a.movdqa(key.keys.m128(16 * (n if n < AES128_ROUNDS else LAST_KEY)), words)


def keys_256(a: Asm, key: AesGcm) -> None:
    """Make the round keys of a 32-byte key; every second one has no round constant."""
    words, more, other, work = STREAM[:4]
    a.movdqu(more, mem128(RSI, 16, ref=AEAD_KEY))
    a.movdqa(key.keys.m128(), words)
    a.movdqa(key.keys.m128(16), more)
    for n in range(2, AES256_ROUNDS + 1, 2):  # unrolled: thirteen round keys
        a.aeskeygenassist(other, more, ROUND_CONSTANTS[n // 2 - 1])
        _spread(a, words, other, 0xFF, work)
        a.movdqa(key.keys.m128(16 * n), words)
        if n < AES256_ROUNDS:
            a.aeskeygenassist(other, words, 0)
            _spread(a, more, other, 0xAA, work)
            a.movdqa(key.keys.m128(16 * (n + 1)), more)


def _rounds(a: Asm, blocks: tuple[Xmm, ...], first: int, behind: int) -> None:
    for n in range(first, behind):  # unrolled
        a.movdqa(KEY, AesGcm.at(RDI).keys.m128(16 * n))
        for block in blocks:
            a.aesenc(block, KEY)


def inner_rounds(a: Asm, blocks: tuple[Xmm, ...]) -> None:
    """Do the rounds that both key sizes have, but the last."""
    _rounds(a, blocks, 1, AES128_ROUNDS)


def last_rounds(a: Asm, blocks: tuple[Xmm, ...]) -> None:
    """Do four rounds more with a key of 32 bytes, and the last one."""
    a.cmp(AesGcm.at(RDI).rounds, AES128_ROUNDS)
    with a.if_(NE):
        _rounds(a, blocks, AES128_ROUNDS, AES256_ROUNDS)
    a.movdqa(KEY, AesGcm.at(RDI).keys.m128(16 * LAST_KEY))
    for block in blocks:  # unrolled
        a.aesenclast(block, KEY)
