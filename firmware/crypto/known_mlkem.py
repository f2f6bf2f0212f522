"""The check of ML-KEM-768: does it give its known answers?"""

from firmware.abi import CALLER_SAVED
from firmware.crypto.known_check import OUTPUTS, WRONG, W, compare, verdict
from firmware.crypto.mlkem import mlkem_decapsulate, mlkem_keygen
from firmware.crypto.mlkem_encrypt import mlkem_encrypt
from firmware.layouts.known_answers import (
    KNOWN_MLKEM_HASH,
    KNOWN_MLKEM_MESSAGE,
    KNOWN_MLKEM_RANDOM,
    KNOWN_MLKEM_REFUSED,
    KNOWN_MLKEM_SECRET,
    KNOWN_MLKEM_SEED,
    KnownWork,
)
from firmware.layouts.mlkem import CIPHERTEXT_BYTES, MLKEM_WORK
from toolchain.asm import ECX, RBX, RDI, RDX, RSI, Asm, routine

WORK = MLKEM_WORK.it


@routine(
    outputs=OUTPUTS,
    clobbers=CALLER_SAVED,
    writes=[KnownWork.ciphertext],
    calls=[mlkem_keygen, mlkem_encrypt, mlkem_decapsulate],
    saves=[RBX],
    source="Wycheproof mlkem_768_test, tcId 3; FIPS 203 algorithm 18",
)
def known_mlkem(a: Asm) -> None:
    """Make a known key pair and a known ciphertext, and take its secret and that of a wrong one."""
    a.xor(WRONG, WRONG)
    a.lea(RDI, W.kem.ek.address)
    a.lea(RSI, KNOWN_MLKEM_SEED.address)
    a.call(mlkem_keygen)
    compare(a, W.kem.hash.address, KNOWN_MLKEM_HASH)
    # The ciphertext is made anew: what a wrong one gives is a hash of all of it.
    for given, place in (
        (KNOWN_MLKEM_MESSAGE, WORK.message),
        (KNOWN_MLKEM_RANDOM, WORK.seed),
    ):  # unrolled: two
        a.lea(RSI, given.address)
        a.lea(RDI, place.address)
        a.mov(ECX, given.size)
        a.rep_movsb()
    a.lea(RSI, W.kem.ek.address)
    a.call(mlkem_encrypt)
    a.lea(RSI, WORK.ciphertext.address)
    a.lea(RDI, W.ciphertext.address)
    a.mov(ECX, CIPHERTEXT_BYTES)
    a.rep_movsb()
    for secret in (KNOWN_MLKEM_SECRET, KNOWN_MLKEM_REFUSED):  # unrolled: then another bit
        a.lea(RDI, W.out.address)
        a.lea(RSI, W.kem.ek.address)
        a.lea(RDX, W.ciphertext.address)
        a.call(mlkem_decapsulate)
        compare(a, W.out.address, secret)
        a.xor(W.ciphertext.m8(), 1)
    verdict(a)
