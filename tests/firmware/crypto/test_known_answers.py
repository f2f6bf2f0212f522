"""Known answers: another library agrees with each, every variant gives them, and a wrong one is seen."""

import hashlib

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils, x25519
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from emulator.models.crypto import mlkem_arithmetic
from emulator.models.crypto.p256 import P256_MODELS
from emulator.models.crypto.variants import variant
from emulator.sha_extensions import MISSING, processor_has_them
from firmware.crypto.known_answers import KNOWN
from firmware.layouts import known_answers as k
from firmware.layouts.field import Level
from firmware.layouts.known_answers import KNOWN_WORK, KnownWork
from firmware.layouts.variants import Family, Variant
from tests.support.lab import Lab
from tests.support.processor import Processor
from toolchain.asm import RDI, RSI, Asm, In, Reg64, routine

CHECKS = {check.name: check for variants in KNOWN.values() for check in variants.values()}
LAB = Lab(*CHECKS.values(), slots=0, semantics=False)
EACH = pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)


def raw(data):
    return bytes(data.init or b"")


def number(data, first=0, size=None):
    return int.from_bytes(raw(data)[first : None if size is None else first + size], "big")


HASHED = {"sha256": k.HASHED_SHA256, "sha512": k.HASHED_SHA512}


@pytest.mark.parametrize("name", HASHED)
def test_another_library_hashes_the_same(name):
    """The blocks are one padded message, and the words those of its digest."""
    blocks, state = raw(HASHED[name].blocks), raw(HASHED[name].state)
    wanted, word = hashlib.new(name), len(state) // 8
    assert len(blocks) == k.KNOWN_BLOCKS * wanted.block_size
    wanted.update(blocks[: int.from_bytes(blocks[-8:], "big") // 8])
    words = [state[n : n + word][::-1] for n in range(0, len(state), word)]
    assert b"".join(words) == wanted.digest()


@pytest.mark.parametrize("sealed", [*k.SEALED_AES, *k.SEALED_CHACHA], ids=lambda s: s.tag.name)
def test_another_library_seals_the_same(sealed):
    cipher = ChaCha20Poly1305 if sealed in k.SEALED_CHACHA else AESGCM
    made = cipher(raw(sealed.key)).encrypt(raw(sealed.nonce), raw(sealed.text), raw(sealed.aad))
    assert made[-16:] == raw(sealed.tag)
    assert len(made) <= KnownWork.text.size
    assert len(raw(sealed.text)) > 256 or sealed in k.SEALED_AES


def test_another_library_agrees_the_same():
    ours = x25519.X25519PrivateKey.from_private_bytes(raw(k.KNOWN_X25519_SCALAR))
    # OpenSSL ignores the top bit of a coordinate too (RFC 7748 5).
    peer = x25519.X25519PublicKey.from_public_bytes(raw(k.KNOWN_X25519_POINT))
    assert ours.exchange(peer) == raw(k.KNOWN_X25519)
    scalar = int.from_bytes(raw(k.KNOWN_P256_SCALAR), "little")
    share = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), raw(k.KNOWN_P256_SHARE))
    key = ec.derive_private_key(scalar, ec.SECP256R1())
    assert key.exchange(ec.ECDH(), share) == raw(k.KNOWN_P256)
    public = key.public_key().public_bytes(
        serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
    )
    assert public == raw(k.KNOWN_P256_PUBLIC)


def test_another_library_decapsulates_the_same():
    key = MLKEM768PrivateKey.from_seed_bytes(raw(k.KNOWN_MLKEM_SEED))
    ek = key.public_key().public_bytes_raw()
    assert hashlib.sha3_256(ek).digest() == raw(k.KNOWN_MLKEM_HASH)
    message, random = raw(k.KNOWN_MLKEM_MESSAGE), raw(k.KNOWN_MLKEM_RANDOM)
    ciphertext = mlkem_arithmetic.encrypt(ek, message, random)
    assert key.decapsulate(ciphertext) == raw(k.KNOWN_MLKEM_SECRET)
    bent = bytes([ciphertext[0] ^ 1]) + ciphertext[1:]
    assert key.decapsulate(bent) == raw(k.KNOWN_MLKEM_REFUSED)


@pytest.mark.parametrize(
    ("signed", "curve", "digest"),
    [
        (k.SIGNED_P256, ec.SECP256R1(), hashes.SHA256()),
        (k.SIGNED_P384, ec.SECP384R1(), hashes.SHA384()),
    ],
    ids=["p256", "p384"],
)
def test_another_library_verifies_ecdsa(signed, curve, digest):
    size = curve.key_size // 8
    point = ec.EllipticCurvePublicKey.from_encoded_point(curve, b"\4" + raw(signed.key))
    r, s = number(signed.signature, 0, size), number(signed.signature, size)
    sealed = utils.encode_dss_signature(r, s)
    point.verify(sealed, raw(k.KNOWN_SAMPLE), ec.ECDSA(digest))


def test_another_library_signs_the_same():
    key = ed25519.Ed25519PrivateKey.from_private_bytes(raw(k.KNOWN_ED25519_SEED))
    assert key.sign(raw(k.KNOWN_ED25519_MESSAGE)) == raw(k.KNOWN_ED25519)


def test_another_library_verifies_rsa():
    numbers = rsa.RSAPublicNumbers(k.KNOWN_RSA_EXPONENT, number(k.KNOWN_RSA_MODULUS))
    numbers.public_key().verify(
        raw(k.KNOWN_RSA_SIGNATURE),
        raw(k.KNOWN_RSA_DIGEST),
        padding.PKCS1v15(),
        utils.Prehashed(hashes.SHA256()),
    )


@EACH
def test_every_variant_gives_its_known_answers(check):
    LAB.reset()
    assert LAB.free(check)["flags"] & 1 == 0


@EACH
def test_every_variant_gives_them_on_the_processor(check):
    if check is KNOWN[Family.SHA256][Variant.FAST] and not processor_has_them():
        pytest.skip(MISSING)
    LAB.reset()
    processor = Processor(LAB)
    (done,) = processor.run([processor.call(check)])
    assert done.flags & 1 == 0


CHEAP = {
    *KNOWN[Family.SHA256].values(),
    *KNOWN[Family.SHA512].values(),
    *KNOWN[Family.AES_GCM].values(),
    *KNOWN[Family.CHACHA20_POLY1305].values(),
    *KNOWN[Family.X25519].values(),
    *KNOWN[Family.ED25519].values(),
    *KNOWN[Family.MLKEM].values(),
}


@pytest.mark.parametrize("check", [c for c in CHECKS.values() if c in CHEAP], ids=lambda c: c.name)
def test_what_takes_few_steps_in_lockstep(check):
    LAB.reset()
    assert LAB.call(check).outputs["cf"] == 0


WRONG = [
    (Family.SHA256, k.HASHED_SHA256.state, 31),
    (Family.SHA256, k.HASHED_SHA256.blocks, 127),
    (Family.SHA512, k.HASHED_SHA512.state, 0),
    (Family.SHA512, k.HASHED_SHA512.blocks, 3),
    (Family.AES_GCM, k.SEALED_AES[0].tag, 15),
    (Family.AES_GCM, k.SEALED_AES[1].tag, 0),
    (Family.AES_GCM, k.SEALED_AES[2].tag, 7),
    (Family.AES_GCM, k.SEALED_AES[0].key, 1),
    (Family.CHACHA20_POLY1305, k.SEALED_CHACHA[0].tag, 3),
    (Family.CHACHA20_POLY1305, k.SEALED_CHACHA[0].aad, 3),
    (Family.X25519, k.KNOWN_X25519, 31),
]


def flip(data, at, lab=LAB):
    place = lab.image.address(data) + at
    lab.machine.write(place, bytes([lab.machine.read(place, 1)[0] ^ 1]))


def of_each_variant(rows):
    """Return rows of a family with each of its variants' checks in the family's place."""
    return [(check, *row) for family, *row in rows for check in KNOWN[family].values()]


def names(rows):
    return [f"{row[0].name}-{row[1].name}" for row in rows]


EACH_WRONG = of_each_variant(WRONG)


@pytest.mark.parametrize(("check", "data", "at"), EACH_WRONG, ids=names(EACH_WRONG))
def test_a_wrong_answer_is_seen_in_lockstep(check, data, at):
    """One bit of what is known is another."""
    LAB.reset()
    flip(data, at)
    assert LAB.call(check).outputs["cf"] == 1


def no_public(level):
    """Return a routine in the place of one that makes a public key, which takes too many steps."""

    def body(a: Asm, out: Reg64, scalar: Reg64) -> None:
        """Leave what is there."""
        a.ret()

    body.__name__ = f"p256_public_{level.value}"
    inputs = [In(RDI, int, "where it would go"), In(RSI, int, "the private key")]
    return routine(inputs=inputs, source="this test")(body)


P256_LAB = Lab(
    *KNOWN[Family.P256].values(), slots=0, semantics=False, replaced=tuple(map(no_public, Level))
)


@pytest.mark.parametrize("level", Level, ids=lambda level: level.value)
def test_a_share_of_p256_that_takes_few_steps_to_refuse_in_lockstep(monkeypatch, level):
    """The public key is there already."""
    agree, _ = P256_MODELS[level]
    idle = variant(f"p256_public_{level.value}", lambda w, out, scalar: None)
    monkeypatch.setitem(P256_MODELS, level, (agree, idle))
    P256_LAB.reset()
    P256_LAB.g(KNOWN_WORK).out[:] = raw(k.KNOWN_P256_PUBLIC)
    flip(k.KNOWN_P256_SHARE, 0, P256_LAB)
    check = KNOWN[Family.P256][Variant.FAST if level is Level.ADX else Variant.BASE]
    assert P256_LAB.call(check).outputs["cf"] == 1


@pytest.mark.parametrize("which", KNOWN[Family.SIGNATURES])
def test_signatures_that_take_few_steps_to_refuse_in_lockstep(which):
    """A modulus that is even, keys that are off their curves; each is looked at nevertheless."""
    LAB.reset()
    flip(k.KNOWN_RSA_MODULUS, 255)
    flip(k.SIGNED_P256.key, 40)
    flip(k.SIGNED_P384.key, 60)
    assert LAB.call(KNOWN[Family.SIGNATURES][which]).outputs["cf"] == 1


FREELY = [
    (Family.MLKEM, k.KNOWN_MLKEM_SEED),
    (Family.MLKEM, k.KNOWN_MLKEM_HASH),
    (Family.MLKEM, k.KNOWN_MLKEM_MESSAGE),
    (Family.MLKEM, k.KNOWN_MLKEM_RANDOM),
    (Family.MLKEM, k.KNOWN_MLKEM_SECRET),
    (Family.MLKEM, k.KNOWN_MLKEM_REFUSED),
    (Family.P256, k.KNOWN_P256),
    (Family.P256, k.KNOWN_P256_PUBLIC),
    (Family.ED25519, k.KNOWN_ED25519),
    (Family.ED25519, k.KNOWN_ED25519_SEED),
    (Family.ED25519, k.KNOWN_ED25519_MESSAGE),
    (Family.SIGNATURES, k.KNOWN_RSA_MODULUS),
    (Family.SIGNATURES, k.KNOWN_RSA_SIGNATURE),
    (Family.SIGNATURES, k.KNOWN_RSA_DIGEST),
    (Family.SIGNATURES, k.KNOWN_SAMPLE),
    (Family.SIGNATURES, k.SIGNED_P256.key),
    (Family.SIGNATURES, k.SIGNED_P256.signature),
    (Family.SIGNATURES, k.SIGNED_P384.key),
    (Family.SIGNATURES, k.SIGNED_P384.signature),
]


EACH_FREELY = of_each_variant(FREELY)


@pytest.mark.parametrize(("check", "data"), EACH_FREELY, ids=names(EACH_FREELY))
def test_each_answer_by_itself_is_seen_in_a_free_run(check, data):
    LAB.reset()
    flip(data, data.size - 1)
    assert LAB.free(check)["flags"] & 1 == 1


# What seals a ciphertext gives its text, and looks at no tag.
LENIENT = [
    (check, open_, seal)
    for family in (Family.AES_GCM, Family.CHACHA20_POLY1305)
    for check in KNOWN[family].values()
    for _, seal, open_ in [check.contract.calls]
] + [
    (check, called, None)
    for check in KNOWN[Family.SIGNATURES].values()
    for called in check.contract.calls
    if "verify" in called.name or "pkcs1" in called.name
]


@pytest.mark.parametrize(
    ("check", "lenient", "instead"), LENIENT, ids=[f"{c.name}-{r.name}" for c, r, _ in LENIENT]
)
def test_a_variant_that_refuses_nothing_is_seen(check, lenient, instead):
    """Its place is taken by `call instead; clc; ret`, the call for ciphers alone."""
    lab = Lab(check, slots=0, semantics=False)
    at, code = lab.image.address(lenient), b""
    if instead is not None:
        distance = lab.image.address(instead) - (at + 5)
        code = b"\xe8" + distance.to_bytes(4, "little", signed=True)
    lab.machine.write(at, code + b"\xf8\xc3")
    assert lab.free(check)["flags"] & 1 == 1


def test_the_work_space_lies_apart():
    assert LAB.image.address(KNOWN_WORK) % 64 == 0
