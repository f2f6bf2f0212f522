"""The check of ML-KEM-768: does it give its known answers?"""

from firmware.abi import CALLER_SAVED
from firmware.crypto.known_check import OUTPUTS, WRONG, W, compare, verdict
from firmware.crypto.mlkem import mlkem_decapsulate, mlkem_keygen
from firmware.layouts.known_answers import (
    KNOWN_MLKEM_CIPHERTEXT,
    KNOWN_MLKEM_HASH,
    KNOWN_MLKEM_REFUSED,
    KNOWN_MLKEM_SECRET,
    KNOWN_MLKEM_SEED,
    KnownWork,
)
from toolchain.asm import ECX, RBX, RDI, RDX, RSI, Asm, routine


@routine(
    outputs=OUTPUTS,
    clobbers=CALLER_SAVED,
    writes=[KnownWork.ciphertext],
    calls=[mlkem_keygen, mlkem_decapsulate],
    saves=[RBX],
    source="Wycheproof mlkem_768_test, tcId 3; FIPS 203 algorithm 18",
)
def known_mlkem(a: Asm) -> None:
    """Make a known key pair, and take the secret of a known ciphertext and of a wrong one."""
    a.xor(WRONG, WRONG)
    a.lea(RDI, W.kem.ek.address)
    a.lea(RSI, KNOWN_MLKEM_SEED.address)
    a.call(mlkem_keygen)
    compare(a, W.kem.hash.address, KNOWN_MLKEM_HASH)
    a.lea(RSI, KNOWN_MLKEM_CIPHERTEXT.address)
    a.lea(RDI, W.ciphertext.address)
    a.mov(ECX, KNOWN_MLKEM_CIPHERTEXT.size)
    a.rep_movsb()
    for secret in (KNOWN_MLKEM_SECRET, KNOWN_MLKEM_REFUSED):  # unrolled: then another bit
        a.lea(RDI, W.out.address)
        a.lea(RSI, W.kem.ek.address)
        a.lea(RDX, W.ciphertext.address)
        a.call(mlkem_decapsulate)
        compare(a, W.out.address, secret)
        a.xor(W.ciphertext.m8(), 1)
    verdict(a)
