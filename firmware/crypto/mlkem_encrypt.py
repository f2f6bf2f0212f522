"""Encryption of ML-KEM-768, which decapsulation repeats; and the steps that it shares with the rest."""

from __future__ import annotations

from firmware.abi import CALLER_SAVED
from firmware.crypto.mlkem_encodings import (
    mlkem_compress,
    mlkem_decode,
    mlkem_encode,
    mlkem_from_message,
)
from firmware.crypto.mlkem_ntt import mlkem_inverse_ntt, mlkem_ntt
from firmware.crypto.mlkem_polynomials import mlkem_add, mlkem_dot
from firmware.crypto.mlkem_samples import mlkem_sample_noise
from firmware.layouts.crypto import BUFFER_IN, BUFFER_OUT
from firmware.layouts.mlkem import (
    CODED_BYTES,
    DT,
    DU,
    DV,
    MLKEM_WORK,
    POLY_BYTES,
    VECTOR_BYTES,
    K,
    MlKemKey,
    MlKemWork,
)
from toolchain.asm import (
    EAX,
    EBX,
    ECX,
    NE,
    R12,
    R14,
    R15,
    RBX,
    RDI,
    RDX,
    RSI,
    Asm,
    E,
    In,
    Mem8,
    mem8,
    routine,
)

W = MLKEM_WORK.it
COUNT = EBX
"""Which polynomial; RBX keeps it over calls."""


def sample(a: Asm, out: Mem8[int], first: int) -> None:
    """Sample the polynomial COUNT of a vector, the first of which has a number."""
    a.lea(RDI, out)
    a.lea(RSI, W.seed.address)
    a.lea(ECX, mem8(RBX, first, ref=BUFFER_IN))
    a.call(mlkem_sample_noise)


def sum_of(a: Asm, first: Mem8[int], second: Mem8[int]) -> None:
    """The sum := what two vectors in a row give."""
    a.lea(RDI, W.sum.address)
    a.lea(RSI, first)
    a.lea(RDX, second)
    a.mov(ECX, POLY_BYTES)
    a.call(mlkem_dot)


def add_to_sum(a: Asm, other: Mem8[int]) -> None:
    """Add a polynomial to the sum."""
    a.lea(RDI, W.sum.address)
    a.lea(RSI, other)
    a.call(mlkem_add)


@routine(
    inputs=[In(RSI, MlKemKey, "the key pair; message and seed lie in the work space: m, r")],
    clobbers=CALLER_SAVED,
    calls=[
        mlkem_sample_noise, mlkem_ntt, mlkem_inverse_ntt, mlkem_dot, mlkem_add, mlkem_encode,
        mlkem_decode, mlkem_compress, mlkem_from_message,
    ],
    saves=[RBX, R12, R14, R15],
    source="FIPS 203 algorithm 14",
)  # fmt: skip
def mlkem_encrypt(a: Asm, key: MlKemKey) -> None:
    """Encrypt a message with the encapsulation key; the ciphertext stays in the work space."""
    made, at, place = MlKemKey.at(R12), R14, R15
    a.mov(R12, RSI)
    # y, and t of the encapsulation key beside it.
    a.lea(place, W.y.address)
    a.lea(at, made.ek.address)
    a.xor(COUNT, COUNT)
    with a.loop() as parts:
        sample(a, mem8(place, ref=BUFFER_OUT), 0)
        a.mov(RDI, place)
        a.call(mlkem_ntt)
        a.lea(RDI, mem8(place, MlKemWork.t.offset - MlKemWork.y.offset, ref=BUFFER_OUT))
        a.mov(RSI, at)
        a.mov(ECX, DT)
        a.call(mlkem_decode)
        a.add(place, POLY_BYTES)
        a.add(at, CODED_BYTES[DT])
        a.inc(COUNT)
        a.cmp(COUNT, K)
        a.again(NE, parts)

    # u: a column of the matrix with y, and an error; then v: t with y, an error, and the message.
    a.lea(at, W.ciphertext.address)
    a.lea(place, made.a.address)
    a.xor(COUNT, COUNT)
    with a.loop() as rows:
        a.mov(ECX, VECTOR_BYTES)
        a.cmp(COUNT, K)
        with a.if_(E):
            a.lea(place, W.t.address)
            a.mov(ECX, POLY_BYTES)
        a.lea(RDI, W.sum.address)
        a.mov(RSI, place)
        a.lea(RDX, W.y.address)
        a.call(mlkem_dot)
        a.lea(RDI, W.sum.address)
        a.call(mlkem_inverse_ntt)
        sample(a, W.noise.address, K)
        add_to_sum(a, W.noise.address)
        a.cmp(COUNT, K)
        with a.if_(E):
            a.lea(RDI, W.noise.address)
            a.lea(RSI, W.message.address)
            a.call(mlkem_from_message)
            add_to_sum(a, W.noise.address)
        a.mov(ECX, DU)
        a.mov(EAX, DV)
        a.cmp(COUNT, K)
        a.cmov(E, ECX, EAX)
        a.lea(RDI, W.sum.address)
        a.call(mlkem_compress)
        a.mov(RDI, at)
        a.lea(RSI, W.sum.address)
        a.call(mlkem_encode)
        a.add(at, CODED_BYTES[DU])
        a.add(place, POLY_BYTES)
        a.inc(COUNT)
        a.cmp(COUNT, K + 1)
        a.again(NE, rows)
    a.ret()
