"""The calling convention: System V's preserved registers, everything else free (decision 3)."""

from toolchain.asm.registers import (
    R8,
    R9,
    R10,
    R11,
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
    XMM0,
    XMM1,
    XMM2,
    XMM3,
    XMM4,
    XMM5,
    XMM6,
    XMM7,
    XMM8,
    XMM9,
    XMM10,
    XMM11,
    XMM12,
    XMM13,
    XMM14,
    XMM15,
    Convention,
)

CALLER_SAVED = Convention(
    (
        RAX, RCX, RDX, RSI, RDI, R8, R9, R10, R11,
        XMM0, XMM1, XMM2, XMM3, XMM4, XMM5, XMM6, XMM7,
        XMM8, XMM9, XMM10, XMM11, XMM12, XMM13, XMM14, XMM15,
    )
)  # fmt: skip
"""Clobbers of routines that call other layers."""
