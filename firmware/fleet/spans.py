"""Spans of the lease algorithm in cycles of this node's TSC, each rounded to the safe side."""

from firmware.layouts.fleet import (
    CLOCK_RATE_PERCENT,
    GUARD_MS,
    HIDDEN_MS,
)
from firmware.layouts.node import CLOCK
from toolchain.asm import (
    EAX,
    ECX,
    EDX,
    RAX,
    Asm,
)

_PERCENT = 100


def _cycles(a: Asm) -> None:
    """RAX := the cycles of EAX milliseconds."""
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms)


def grant_span(a: Asm) -> None:
    """RAX := D, of EAX milliseconds."""
    a.mov(EAX, EAX)
    _cycles(a)


def hold_span(a: Asm) -> None:
    """RAX := D (1 - RHO) - F - the pause that no clock tells, of EAX milliseconds. Clobbers RCX and RDX."""
    a.imul(EAX, EAX, _PERCENT - CLOCK_RATE_PERCENT)
    a.xor(EDX, EDX)
    a.mov(ECX, _PERCENT)
    a.div(ECX)
    a.sub(EAX, GUARD_MS + HIDDEN_MS)
    _cycles(a)


def wait_span(a: Asm) -> None:
    """RAX := D (1 + RHO) + 2 F, of EAX milliseconds. Clobbers RCX and RDX."""
    a.imul(EAX, EAX, _PERCENT + CLOCK_RATE_PERCENT)
    a.add(EAX, _PERCENT - 1)
    a.xor(EDX, EDX)
    a.mov(ECX, _PERCENT)
    a.div(ECX)
    a.add(EAX, 2 * GUARD_MS)
    _cycles(a)
