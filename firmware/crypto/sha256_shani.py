"""The compression of SHA-256 (FIPS 180-4 6.2.2) with the SHA extensions.

SHA256RNDS2 does two rounds, with the variables a, b, e, f in one register and c, d, g, h in another;
SHA256MSG1 and SHA256MSG2 make four words of the schedule, but for one of their terms.
"""

from __future__ import annotations

from firmware.layouts.crypto import (
    BUFFER_IN,
    SHA256_BLOCK_BYTES,
    SHA256_CONSTANTS,
    SHA256_ROUNDS,
    SHA256_SWAP,
    Hash,
)
from toolchain.asm import (
    ECX,
    NZ,
    RCX,
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
    XMM8,
    XMM9,
    XMM10,
    Asm,
    In,
    Out,
    Reg32,
    Reg64,
    Xmm,
    mem128,
    routine,
)

SUMS = XMM0
"""Words and constants added up, which SHA256RNDS2 takes from here alone."""
ABEF, CDGH = XMM1, XMM2
WORDS = (XMM3, XMM4, XMM5, XMM6)
"""The last sixteen words of the schedule, four in each; the first is the lowest."""
SWAP, TERM = XMM7, XMM8
OLD_ABEF, OLD_CDGH = XMM9, XMM10
USED = (SUMS, ABEF, CDGH, *WORDS, SWAP, TERM, OLD_ABEF, OLD_CDGH)
TOGETHER = 4
"""Words of a register, and rounds that are done with it."""
STEPS = SHA256_ROUNDS // TOGETHER
FIRST_SWAPPED, LAST_SWAPPED = 0x11, 0xBB
"""For SHUFPS: the first or the last two words of the target and of the source, each pair swapped."""
HIGH_HALF = 0x0E
"""For PSHUFD."""


def _regroup(a: Asm, target: Xmm, source: Xmm) -> None:
    """Change target and source from e-h and a-d to CDGH and ABEF, or from ABEF and CDGH back."""
    a.movdqa(TERM, target)
    a.shufps(target, source, LAST_SWAPPED)
    a.shufps(TERM, source, FIRST_SWAPPED)
    a.movdqa(source, TERM)


def _load(a: Asm, step: int) -> None:
    """Take four words of the block at RSI."""
    a.movdqu(WORDS[step], mem128(RSI, 16 * step, ref=BUFFER_IN))
    a.pshufb(WORDS[step], SWAP)


def _extend(a: Asm, step: int) -> None:
    """Make four words from those 16, 15, 7 and 2 rounds before each (FIPS 180-4 6.2.2 step 1)."""
    oldest, second, third, last = (WORDS[(step + n) % len(WORDS)] for n in range(len(WORDS)))
    a.sha256msg1(oldest, second)
    a.movdqa(TERM, last)
    a.palignr(TERM, third, 4)
    a.paddd(oldest, TERM)
    a.sha256msg2(oldest, last)


def _turn(a: Asm, step: int) -> None:
    """Do four rounds; after two of them each register holds what the other one would."""
    a.movdqa(SUMS, WORDS[step % len(WORDS)])
    a.paddd(SUMS, SHA256_CONSTANTS.m128(16 * step))
    a.sha256rnds2(CDGH, ABEF)
    a.pshufd(SUMS, SUMS, HIGH_HALF)
    a.sha256rnds2(ABEF, CDGH)


@routine(
    inputs=[
        In(RDI, Hash, "the hash"),
        In(RSI, int, f"the blocks; {SHA256_BLOCK_BYTES} bytes each"),
        In(ECX, int, "how many; at least one"),
    ],
    outputs=[Out(RSI, "the first byte behind them")],
    clobbers=[RCX, *USED],
    reads=[Hash.state, SHA256_CONSTANTS, SHA256_SWAP, BUFFER_IN],
    writes=[Hash.state],
    secret=[Hash.state, BUFFER_IN],
    source="FIPS 180-4 6.2.2; Intel SDM volume 2, SHA256RNDS2, SHA256MSG1, SHA256MSG2",
)
def sha256_blocks_shani(a: Asm, work: Hash, blocks: Reg64, count: Reg32) -> None:
    """Mix whole blocks into the state."""
    first, second = work.state.m128(), work.state.m128(16)
    a.movdqa(SWAP, SHA256_SWAP.m128())
    a.movdqu(ABEF, first)
    a.movdqu(CDGH, second)
    _regroup(a, CDGH, ABEF)
    with a.loop() as block:
        a.movdqa(OLD_ABEF, ABEF)
        a.movdqa(OLD_CDGH, CDGH)
        for step in range(STEPS):  # unrolled: the rounds, four at a time
            if step < len(WORDS):
                _load(a, step)
            else:
                _extend(a, step)
            _turn(a, step)
        a.paddd(ABEF, OLD_ABEF)
        a.paddd(CDGH, OLD_CDGH)
        a.add(RSI, SHA256_BLOCK_BYTES)
        a.dec(ECX)
        a.again(NZ, block)
    _regroup(a, ABEF, CDGH)
    a.movdqu(first, ABEF)
    a.movdqu(second, CDGH)
    a.ret()
