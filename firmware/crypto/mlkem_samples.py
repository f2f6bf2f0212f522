"""Polynomials from seeds (FIPS 203 4.2.2): uniform ones of the matrix, small ones of the secrets."""

from __future__ import annotations

from firmware.abi import CALLER_SAVED
from firmware.crypto.keccak import keccak_absorb, keccak_f1600, keccak_finish, keccak_start
from firmware.crypto.mlkem_lanes import QS, lanes, up
from firmware.layouts.crypto import BUFFER_IN
from firmware.layouts.keccak import KECCAK, SHAKE128, SHAKE256, Keccak, Sponge
from firmware.layouts.mlkem import (
    MLKEM_LANES,
    MLKEM_WORK,
    NOISE_BYTES,
    POLY,
    POLY_BYTES,
    SYMBOL_BYTES,
    XOF_OUT,
    MlKemWork,
    Q,
)
from toolchain.asm import (
    AX,
    CX,
    DL,
    EAX,
    ECX,
    NE,
    NZ,
    R12,
    R13,
    R14,
    RDI,
    RDX,
    RSI,
    XMM0,
    XMM1,
    XMM2,
    XMM3,
    XMM4,
    Asm,
    B,
    E,
    In,
    Reg16,
    Reg64,
    mem8,
    mem16,
    mem32,
    mem128,
    routine,
)

VECTOR = 16
TRIPLE = 3
"""Bytes of two candidates."""
CANDIDATE = 0xFFF


def _seeded(a: Asm, sponge: Sponge, seed: Reg64, index_bytes: int) -> None:
    """Give a sponge the seed and the index behind it; RSI, RDX and what keccak changes change."""
    work = MLKEM_WORK.it
    a.mov(ECX, sponge.rate)
    a.call(keccak_start)
    a.mov(RSI, seed)
    a.mov(ECX, SYMBOL_BYTES)
    a.call(keccak_absorb)
    a.lea(RSI, work.index)
    a.mov(ECX, index_bytes)
    a.call(keccak_absorb)
    a.mov(DL, sponge.suffix)
    a.call(keccak_finish)


@routine(
    inputs=[
        In(RDI, int, "where the polynomial goes"),
        In(RSI, int, "rho; 32 bytes"),
        In(CX, int, "j | i << 8: its column and its row"),
    ],
    clobbers=CALLER_SAVED,
    reads=[XOF_OUT],
    writes=[MlKemWork.index, POLY],
    calls=[keccak_start, keccak_absorb, keccak_finish, keccak_f1600],
    saves=[R12, R13, R14],
    secret=[POLY],
    source="FIPS 203 algorithm 7",
)
def mlkem_sample_ntt(a: Asm, out: Reg64, seed: Reg64, index: Reg16) -> None:
    """Sample an element of the matrix; its seed is public, and so is how long it takes."""
    at, end = R12, R13
    a.mov(at, out)
    a.lea(end, mem8(out, POLY_BYTES, ref=POLY))
    a.mov(MLKEM_WORK.it.index, index)
    a.mov(R14, seed)
    _seeded(a, SHAKE128, R14, 2)
    with a.loop() as blocks:
        full, block = a.label("full"), RSI
        a.lea(block, KECCAK.it.state.address)
        a.lea(RDX, mem8(block, SHAKE128.rate, ref=XOF_OUT))
        with a.loop() as triples:
            # The last load ends one byte behind the block, inside the state.
            a.mov(EAX, mem32(block, ref=XOF_OUT))
            a.mov(ECX, EAX)
            a.shr(ECX, 12)
            for candidate, word in ((EAX, AX), (ECX, CX)):  # unrolled: two
                a.and_(candidate, CANDIDATE)
                a.cmp(candidate, Q)
                with a.if_(B):
                    a.mov(mem16(at, ref=POLY), word)
                    a.add(at, 2)
                    a.cmp(at, end)
                    a.j(E, full)
            a.add(block, TRIPLE)
            a.cmp(block, RDX)
            a.again(NE, triples)
        a.call(keccak_f1600)
        a.jmp(blocks.top)
    a.place(full)
    a.ret()


@routine(
    inputs=[
        In(RDI, int, "where the polynomial goes"),
        In(RSI, int, "sigma or r; 32 bytes"),
        In(CX, int, "N: which of those made from it"),
    ],
    clobbers=CALLER_SAVED,
    reads=[Keccak.state, BUFFER_IN, MLKEM_LANES],
    writes=[MlKemWork.index, POLY],
    calls=[keccak_start, keccak_absorb, keccak_finish],
    saves=[R12, R13],
    secret=[Keccak.state, BUFFER_IN, POLY],
    source="FIPS 203 algorithm 8 and 4.3, PRF",
)
def mlkem_sample_noise(a: Asm, out: Reg64, seed: Reg64, index: Reg16) -> None:
    """Sample a small polynomial: each coefficient is two bits' sum less two others'."""
    sums, other, zero, low, high = XMM0, XMM1, XMM2, XMM3, XMM4
    a.mov(R12, out)
    a.mov(MLKEM_WORK.it.index, index)
    a.mov(R13, seed)
    _seeded(a, SHAKE256, R13, 1)
    state = Keccak.at(RSI).state
    a.lea(RSI, KECCAK.it.state.address)
    a.movdqa(QS, lanes("q"))
    a.pxor(zero, zero)
    a.mov(EAX, NOISE_BYTES // VECTOR)
    with a.loop() as each:
        # Pairs of bits are summed, then four bits hold a sum less another, and eta + 1.
        a.movdqu(sums, state.m128())
        a.movdqa(other, sums)
        a.psrlw(other, 1)
        a.pand(sums, lanes("pairs"))
        a.pand(other, lanes("pairs"))
        a.paddb(sums, other)
        a.movdqa(other, sums)
        a.psrlw(other, 2)
        a.pand(sums, lanes("nibbles"))
        a.pand(other, lanes("nibbles"))
        a.paddb(sums, lanes("nibbles"))
        a.psubb(sums, other)
        # A nibble to a word, in their order.
        a.movdqa(other, sums)
        a.psrlw(other, 4)
        a.pand(sums, lanes("bytes"))
        a.pand(other, lanes("bytes"))
        a.movdqa(low, sums)
        a.punpcklbw(low, other)
        a.punpckhbw(sums, other)
        a.mov(ECX, 2)
        with a.loop() as halves:
            for n, spread in enumerate((a.punpcklbw, a.punpckhbw)):  # unrolled: eight words each
                a.movdqa(high, low)
                spread(high, zero)
                a.psubw(high, lanes("eta"))
                up(a, high, other)
                a.movdqu(mem128(R12, VECTOR * n, ref=POLY), high)
            a.movdqa(low, sums)
            a.add(R12, 2 * VECTOR)
            a.dec(ECX)
            a.again(NZ, halves)
        a.add(RSI, VECTOR)
        a.dec(EAX)
        a.again(NZ, each)
    a.ret()
