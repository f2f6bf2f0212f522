"""ML-KEM-768 (FIPS 203) for who asks: a key pair from a seed, and the secret of a ciphertext.

Encapsulation is the server's; what decapsulation needs of it is here. A ciphertext that is not the
one which the key's owner would have made gives a secret that nobody else knows (6.3), with the same
steps. Everything secret but the key lies in one work space, which is wiped at the end, as the sponge.
"""

from __future__ import annotations

from firmware.abi import CALLER_SAVED
from firmware.crypto.keccak import keccak_absorb, keccak_finish, keccak_start
from firmware.crypto.mlkem_encodings import (
    mlkem_decode,
    mlkem_decompress,
    mlkem_encode,
    mlkem_to_message,
)
from firmware.crypto.mlkem_encrypt import COUNT, W, add_to_sum, mlkem_encrypt, sample, sum_of
from firmware.crypto.mlkem_ntt import mlkem_inverse_ntt, mlkem_ntt
from firmware.crypto.mlkem_polynomials import mlkem_add, mlkem_dot, mlkem_subtract
from firmware.crypto.mlkem_samples import mlkem_sample_noise, mlkem_sample_ntt
from firmware.layouts.crypto import BUFFER_IN, BUFFER_OUT
from firmware.layouts.keccak import KECCAK, SHA3_256, SHA3_512, SHAKE256, Keccak, Sponge
from firmware.layouts.mlkem import (
    CIPHERTEXT_BYTES,
    CODED_BYTES,
    DT,
    DU,
    DV,
    EK_BYTES,
    MLKEM_WORK,
    POLY_BYTES,
    SYMBOL_BYTES,
    VECTOR_BYTES,
    K,
    MlKemKey,
    MlKemWork,
)
from toolchain.asm import (
    DL,
    EAX,
    ECX,
    NE,
    NZ,
    R8,
    R8D,
    R9,
    R12,
    R13,
    R14,
    R15,
    RAX,
    RBX,
    RDI,
    RDX,
    RSI,
    Asm,
    In,
    Mem,
    Mem8,
    Reg64,
    mem8,
    mem64,
    routine,
)

STATE = KECCAK.it.state
SECRET_WORK = [field for field in MlKemWork.fields() if field.offset < MlKemWork.index.offset]
SECRET_KEY = [MlKemKey.z, MlKemKey.s]


# -- macros -----------------------------------------------------------------------------------------
def _start(a: Asm, sponge: Sponge) -> None:
    a.mov(ECX, sponge.rate)
    a.call(keccak_start)


def _absorb(a: Asm, part: Mem[int], size: int) -> None:
    a.lea(RSI, part)
    a.mov(ECX, size)
    a.call(keccak_absorb)


def _finish(a: Asm, sponge: Sponge) -> None:
    a.mov(DL, sponge.suffix)
    a.call(keccak_finish)


def _take(a: Asm, out: Mem8[int], at: int = 0) -> None:
    """Copy 32 bytes of what a sponge gives."""
    a.lea(RSI, STATE.m8(at))
    a.lea(RDI, out)
    a.mov(ECX, SYMBOL_BYTES // 8)
    a.rep_movsq()


def _wipe(a: Asm) -> None:
    """Forget the work space and the state of the sponge."""
    a.xor(EAX, EAX)
    for place, size in ((MLKEM_WORK.address, MlKemWork.SIZE), (KECCAK.address, Keccak.SIZE)):
        a.lea(RDI, place)  # unrolled: two
        a.mov(ECX, size // 8)
        a.rep_stosq()


# -- a key pair -------------------------------------------------------------------------------------
@routine(
    inputs=[
        In(RDI, MlKemKey, "where the key pair goes"),
        In(RSI, int, "d and z, 64 random bytes for this key alone"),
    ],
    clobbers=CALLER_SAVED,
    reads=[BUFFER_IN, Keccak.state, MlKemKey.s],
    writes=[MlKemKey, MlKemWork, Keccak],
    calls=[
        keccak_start, keccak_absorb, keccak_finish, mlkem_sample_ntt, mlkem_sample_noise,
        mlkem_ntt, mlkem_dot, mlkem_add, mlkem_encode,
    ],
    saves=[RBX, R12, R13, R14, R15],
    secret=[BUFFER_IN, Keccak.state, *SECRET_WORK, *SECRET_KEY],
    source="FIPS 203 algorithms 13 and 16",
)  # fmt: skip
def mlkem_keygen(a: Asm, key: MlKemKey, seed: Reg64) -> None:
    """Make a key pair: t = A s + e, of small s and e."""
    at = MlKemKey.at(R12)
    a.mov(R12, RDI)
    a.mov(R13, seed)
    # (rho, sigma) := G(d || k)
    a.mov(W.index, K)
    _start(a, SHA3_512)
    _absorb(a, mem8(R13, ref=BUFFER_IN), SYMBOL_BYTES)
    _absorb(a, W.index, 1)
    _finish(a, SHA3_512)
    _take(a, W.rho.address)
    _take(a, W.seed.address, SYMBOL_BYTES)
    a.lea(RSI, mem8(R13, SYMBOL_BYTES, ref=BUFFER_IN))
    a.lea(RDI, at.z.address)
    a.mov(ECX, SYMBOL_BYTES // 8)
    a.rep_movsq()

    # Element (i, j) of the matrix is made of rho, j and i.
    a.xor(COUNT, COUNT)
    a.lea(R14, at.a.address)
    with a.loop() as elements:
        a.mov(RDI, R14)
        a.lea(RSI, W.rho.address)
        a.mov(ECX, COUNT)
        a.call(mlkem_sample_ntt)
        a.add(R14, POLY_BYTES)
        a.inc(COUNT)
        a.mov(EAX, COUNT)
        a.and_(EAX, 0xFF)
        a.cmp(EAX, K)
        a.again(NE, elements)
        a.add(COUNT, 0x100 - K)
        a.cmp(COUNT, K << 8)
        a.again(NE, elements)

    # s, then each part of t beside its error.
    a.xor(COUNT, COUNT)
    a.lea(R14, at.s.address)
    with a.loop() as secrets:
        a.mov(RDI, R14)
        a.lea(RSI, W.seed.address)
        a.mov(ECX, COUNT)
        a.call(mlkem_sample_noise)
        a.mov(RDI, R14)
        a.call(mlkem_ntt)
        a.add(R14, POLY_BYTES)
        a.inc(COUNT)
        a.cmp(COUNT, K)
        a.again(NE, secrets)
    a.xor(COUNT, COUNT)
    a.lea(R14, at.a.address)
    a.lea(R15, at.ek.address)
    with a.loop() as parts:
        sample(a, W.noise.address, K)
        a.lea(RDI, W.noise.address)
        a.call(mlkem_ntt)
        sum_of(a, mem8(R14, ref=BUFFER_IN), at.s.address)
        add_to_sum(a, W.noise.address)
        a.mov(RDI, R15)
        a.lea(RSI, W.sum.address)
        a.mov(ECX, DT)
        a.call(mlkem_encode)
        a.add(R14, VECTOR_BYTES)
        a.add(R15, CODED_BYTES[DT])
        a.inc(COUNT)
        a.cmp(COUNT, K)
        a.again(NE, parts)
    # Rho behind t, the coding of which has overwritten what lies there.
    a.lea(RSI, W.rho.address)
    a.mov(RDI, R15)
    a.mov(ECX, SYMBOL_BYTES // 8)
    a.rep_movsq()
    _start(a, SHA3_256)
    _absorb(a, at.ek.address, EK_BYTES)
    _finish(a, SHA3_256)
    _take(a, at.hash.address)
    _wipe(a)
    a.ret()


# -- a secret -----------------------------------------------------------------------------------------
def _decoded(a: Asm, out: Mem8[int], coded: Mem8[int], bits: int) -> None:
    """A polynomial of the ciphertext."""
    a.lea(RDI, out)
    a.lea(RSI, coded)
    a.mov(ECX, bits)
    a.call(mlkem_decode)
    a.lea(RDI, out)
    a.mov(ECX, bits)
    a.call(mlkem_decompress)


def _message(a: Asm, key: MlKemKey, ciphertext: Reg64) -> None:
    """M := what the ciphertext says: v - s u, a bit of each coefficient (algorithm 15)."""
    at, target = R14, R15
    a.mov(at, ciphertext)
    a.lea(target, W.y.address)
    a.mov(COUNT, K)
    with a.loop() as parts:
        _decoded(a, mem8(target, ref=BUFFER_OUT), mem8(at, ref=BUFFER_IN), DU)
        a.mov(RDI, target)
        a.call(mlkem_ntt)
        a.add(target, POLY_BYTES)
        a.add(at, CODED_BYTES[DU])
        a.dec(COUNT)
        a.again(NZ, parts)
    _decoded(a, W.noise.address, mem8(at, ref=BUFFER_IN), DV)
    sum_of(a, key.s.address, W.y.address)
    a.lea(RDI, W.sum.address)
    a.call(mlkem_inverse_ntt)
    a.lea(RDI, W.noise.address)
    a.lea(RSI, W.sum.address)
    a.call(mlkem_subtract)
    a.lea(RDI, W.message.address)
    a.lea(RSI, W.noise.address)
    a.call(mlkem_to_message)


@routine(
    inputs=[
        In(RDI, int, "where the 32 bytes of the secret go"),
        In(RSI, MlKemKey, "the key pair"),
        In(RDX, int, "the ciphertext; 1088 bytes, CODED_SLACK behind them may be read"),
    ],
    clobbers=CALLER_SAVED,
    reads=[MlKemWork.ciphertext, MlKemWork.secret, MlKemWork.refused, BUFFER_IN],
    writes=[MlKemWork, Keccak, BUFFER_OUT],
    calls=[
        keccak_start, keccak_absorb, keccak_finish, mlkem_ntt, mlkem_inverse_ntt, mlkem_dot,
        mlkem_subtract, mlkem_decode, mlkem_decompress, mlkem_to_message, mlkem_encrypt,
    ],
    saves=[RBX, R12, R13, R14, R15],
    stack=8,
    secret=[BUFFER_OUT, *SECRET_WORK, Keccak.state],
    source="FIPS 203 algorithms 15 and 18",
)  # fmt: skip
def mlkem_decapsulate(a: Asm, out: Reg64, key: MlKemKey, ciphertext: Reg64) -> None:
    """Give the secret of a ciphertext, or one of our own if it is not as it should be."""
    at, text, target = MlKemKey.at(R12), R13, a.local(8)
    a.mov(target, out)
    a.mov(R12, RSI)
    a.mov(text, ciphertext)
    _message(a, at, text)
    # (K', r) := G(m || H(ek))
    _start(a, SHA3_512)
    _absorb(a, W.message.address, SYMBOL_BYTES)
    _absorb(a, at.hash.address, SYMBOL_BYTES)
    _finish(a, SHA3_512)
    _take(a, W.secret.address)
    _take(a, W.seed.address, SYMBOL_BYTES)
    # J(z || c)
    _start(a, SHAKE256)
    _absorb(a, at.z.address, SYMBOL_BYTES)
    _absorb(a, mem8(text, ref=BUFFER_IN), CIPHERTEXT_BYTES)
    _finish(a, SHAKE256)
    _take(a, W.refused.address)
    a.mov(RSI, R12)
    a.call(mlkem_encrypt)

    # One of both by a mask: does the ciphertext differ from ours in any bit?
    differs, mask, ours = R8, R9, MlKemWork.at(RDX, -MlKemWork.ciphertext.offset).ciphertext
    a.lea(RDX, W.ciphertext.address)
    a.xor(R8D, R8D)
    a.mov(ECX, CIPHERTEXT_BYTES // 8)
    with a.loop() as words:
        a.mov(RAX, ours.m64())
        a.xor(RAX, mem64(text, ref=BUFFER_IN))
        a.or_(differs, RAX)
        a.add(RDX, 8)
        a.add(text, 8)
        a.dec(ECX)
        a.again(NZ, words)
    a.neg(differs)
    a.sbb(mask, mask)
    a.mov(RDI, target)
    a.lea(RSI, W.secret.address)
    work = MlKemWork.at(RSI, -MlKemWork.secret.offset)
    a.mov(ECX, SYMBOL_BYTES // 8)
    with a.loop() as words:
        a.mov(RAX, work.secret.m64())
        a.mov(RDX, work.refused.m64())
        a.xor(RDX, RAX)
        a.and_(RDX, mask)
        a.xor(RAX, RDX)
        a.mov(mem64(RDI, ref=BUFFER_OUT), RAX)
        a.add(RSI, 8)
        a.add(RDI, 8)
        a.dec(ECX)
        a.again(NZ, words)
    _wipe(a)
    a.ret()
