"""What the authenticated ciphers share: short additional data, and texts with a wrong tag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmware.layouts.aead import AEAD_AAD
from toolchain.asm import (
    AL,
    EAX,
    EBP,
    ECX,
    EDX,
    NZ,
    R8,
    R9,
    R9D,
    R10,
    R10D,
    RAX,
    RBX,
    RDI,
    RSI,
    Asm,
    B,
    mem8,
)

if TYPE_CHECKING:
    from toolchain.asm import Routine


def gather(a: Asm) -> None:
    """Set R10:RAX to the R9D > 0 bytes at R8, zeros behind them; nothing behind them is read."""
    a.xor(EAX, EAX)
    a.xor(R10D, R10D)
    with a.loop() as byte:  # the last byte first
        a.shld(R10, RAX, 8)
        a.shl(RAX, 8)
        a.mov(AL, mem8(R8, -1, index=R9, ref=AEAD_AAD))
        a.dec(R9D)
        a.again(NZ, byte)


def emit_open(a: Asm, decrypt: Routine) -> None:
    """Emit: decrypt EDX bytes of text at RSI; wipe them and set CF when the tag is wrong."""
    a.mov(RBX, RSI)
    a.mov(EBP, EDX)
    a.call(decrypt)
    with a.if_(B):
        a.mov(RDI, RBX)
        a.mov(ECX, EBP)
        a.xor(EAX, EAX)
        a.rep_stosb()
        a.stc()
    a.ret()
