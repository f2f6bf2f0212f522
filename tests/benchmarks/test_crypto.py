"""Core cycles of hashes and ciphers, ours and OpenSSL's, by one loop on one processor.

OpenSSL's side are the calls of its EVP interface, made from the same script loop as ours, with objects
that are fetched and keyed before: what a program pays for a message. At 64 bytes most of that is the
interface, which is told by its own row. Opening is what seal and open take together, less seal: both
work in place, and a text can be opened once only.
"""

from __future__ import annotations

import pytest

from firmware.crypto.aes_gcm import aes_gcm_key_aesni, aes_gcm_open_aesni, aes_gcm_seal_aesni
from firmware.crypto.aes_gcm_soft import aes_gcm_open_soft, aes_gcm_seal_soft
from firmware.crypto.aes_key_soft import aes_gcm_key_soft
from firmware.crypto.chacha20_poly1305 import (
    chacha20_poly1305_key,
    chacha20_poly1305_open,
    chacha20_poly1305_seal,
)
from firmware.crypto.hkdf import hkdf_sha256_expand_label, hkdf_sha384_expand_label
from firmware.crypto.sha256 import sha256_finish, sha256_start, sha256_update
from firmware.crypto.sha512 import sha384_finish, sha384_start, sha512_update
from firmware.layouts.aead import AEAD_TAG_BYTES, AesGcm
from firmware.layouts.crypto import Hash
from firmware.layouts.variants import VARIANTS, Variant, Variants
from tests.support.openssl import OpenSsl
from tests.support.stopwatch import Stopwatch

pytestmark = pytest.mark.bench
SIZES = (64, 256, 1024, 1400, 16384)
HEADER_BYTES = 5
GET_TAG, SET_TAG = 0x10, 0x11
"""EVP_CTRL_AEAD_GET_TAG and EVP_CTRL_AEAD_SET_TAG of OpenSSL's evp.h."""
_SHA256 = (Variants.sha256, b"SHA256", sha256_start, sha256_update, sha256_finish)
_SHA384 = (Variants.sha512, b"SHA384", sha384_start, sha512_update, sha384_finish)
HASHES = {
    "SHA-256": (Variant.FAST, *_SHA256),
    "SHA-256 without SHA-NI": (Variant.MEDIUM, *_SHA256),
    "SHA-256 without BMI2": (Variant.BASE, *_SHA256),
    "SHA-384": (Variant.FAST, *_SHA384),
    "SHA-384 without BMI2": (Variant.BASE, *_SHA384),
}
GCM = (aes_gcm_key_aesni, aes_gcm_seal_aesni, aes_gcm_open_aesni)
SOFT = (aes_gcm_key_soft, aes_gcm_seal_soft, aes_gcm_open_soft)
CHACHA = (chacha20_poly1305_key, chacha20_poly1305_seal, chacha20_poly1305_open)
CIPHERS = {
    "AES-128-GCM": (b"AES-128-GCM", 16, GCM),
    "AES-256-GCM": (b"AES-256-GCM", 32, GCM),
    "ChaCha20-Poly1305": (b"ChaCha20-Poly1305", 32, CHACHA),
    "AES-128-GCM without AES-NI": (b"AES-128-GCM", 16, SOFT),
}
ROUTINES = (
    *dict.fromkeys(routine for row in HASHES.values() for routine in row[3:]),
    *(routine for kind in (GCM, SOFT, CHACHA) for routine in kind),
    hkdf_sha256_expand_label,
    hkdf_sha384_expand_label,
)


@pytest.fixture(scope="module")
def ssl():
    return OpenSsl()


@pytest.fixture(scope="module")
def watch():
    """One for the module: the link addresses can be mapped once."""
    return Stopwatch(*ROUTINES)


def choose(watch, field, variant):
    """Let a family use a variant, as boot does."""
    at = watch.image.address(VARIANTS) + field.offset
    watch.write(at, variant.to_bytes(field.size, "little"))


def shown(ours, theirs, size):
    return (
        f"{ours:,.0f} cycles ({ours / size:.2f} a byte), {theirs:,.0f}: ratio {ours / theirs:.2f}"
    )


@pytest.mark.parametrize("name", HASHES)
def test_hash_cycles(figure, watch, ssl, name):
    variant, field, algorithm, start, update, finish = HASHES[name]
    choose(watch, field, variant)
    work, message, out = watch.buffer(Hash.SIZE), watch.buffer(SIZES[-1]), watch.buffer(64)
    digest = ssl.call("EVP_MD_fetch", None, algorithm, None)
    context = ssl.call("EVP_MD_CTX_new")
    for size in SIZES:
        ours = watch.cycles(
            watch.step(start, work),
            watch.step(update, work, message, 0, size),
            watch.step(finish, work, out),
        )
        theirs = watch.cycles(
            watch.step(ssl.address("EVP_DigestInit_ex"), context, digest, 0),
            watch.step(ssl.address("EVP_DigestUpdate"), context, message, size),
            watch.step(ssl.address("EVP_DigestFinal_ex"), context, out, 0),
        )
        figure(f"{name} of {size:,} bytes, ours and {ssl.version}'s", shown(ours, theirs, size))


@pytest.mark.parametrize("name", CIPHERS)
def test_cipher_cycles(figure, watch, ssl, name):
    algorithm, key_bytes, (make_key, seal, open_) = CIPHERS[name]
    key, raw = watch.buffer(AesGcm.SIZE), watch.buffer(bytes(range(key_bytes)))
    nonce, header = watch.buffer(12), watch.buffer(HEADER_BYTES)
    text, tag, length = watch.buffer(SIZES[-1] + AEAD_TAG_BYTES), watch.buffer(16), watch.buffer(8)
    made = watch.cycles(watch.step(make_key, key, raw, key_bytes))
    figure(f"{name}: a key made ready", f"{made:,.0f} cycles")

    cipher = ssl.call("EVP_CIPHER_fetch", None, algorithm, None)
    writer, reader = ssl.call("EVP_CIPHER_CTX_new"), ssl.call("EVP_CIPHER_CTX_new")
    ssl.call("EVP_EncryptInit_ex", writer, cipher, None, raw, nonce)
    ssl.call("EVP_DecryptInit_ex", reader, cipher, None, raw, nonce)
    encrypt, decrypt, control = (
        {part: ssl.address(f"EVP_{verb}{part}") for part in ("Init_ex", "Update", "Final_ex")}
        if verb
        else ssl.address("EVP_CIPHER_CTX_ctrl")
        for verb in ("Encrypt", "Decrypt", "")
    )
    for size in SIZES:
        ours = watch.step(seal, key, text, size, nonce, header, HEADER_BYTES)
        back = watch.step(open_, key, text, size, nonce, header, HEADER_BYTES)
        theirs = [
            watch.step(encrypt["Init_ex"], writer, 0, 0, 0, nonce),
            watch.step(encrypt["Update"], writer, 0, length, header, HEADER_BYTES),
            watch.step(encrypt["Update"], writer, text, length, text, size),
            watch.step(encrypt["Final_ex"], writer, tag, length),
            watch.step(control, writer, GET_TAG, AEAD_TAG_BYTES, tag),
        ]
        their_back = [
            watch.step(decrypt["Init_ex"], reader, 0, 0, 0, nonce),
            watch.step(control, reader, SET_TAG, AEAD_TAG_BYTES, tag),
            watch.step(decrypt["Update"], reader, 0, length, header, HEADER_BYTES),
            watch.step(decrypt["Update"], reader, text, length, text, size),
            watch.step(decrypt["Final_ex"], reader, tag, length),
        ]
        sealed, their_sealed = watch.cycles(ours), watch.cycles(*theirs)
        opened = watch.cycles(ours, back) - sealed
        their_opened = watch.cycles(*theirs, *their_back) - their_sealed
        what = f"{name} of {size:,} bytes, ours and {ssl.version}'s"
        figure(f"seal, {what}", shown(sealed, their_sealed, size))
        figure(f"open, {what}", shown(opened, their_opened, size))


def test_interface_of_openssl(figure, watch, ssl):
    """What EVP costs beside the work: a digest of no bytes costs one block of it."""
    digest, context = ssl.call("EVP_MD_fetch", None, b"SHA256", None), ssl.call("EVP_MD_CTX_new")
    out = watch.buffer(64)
    begun = watch.cycles(watch.step(ssl.address("EVP_DigestInit_ex"), context, digest, 0))
    empty = watch.cycles(
        watch.step(ssl.address("EVP_DigestInit_ex"), context, digest, 0),
        watch.step(ssl.address("EVP_DigestFinal_ex"), context, out, 0),
    )
    figure(f"EVP_DigestInit_ex alone, {ssl.version}", f"{begun:,.0f} cycles")
    figure(f"SHA-256 of no bytes, {ssl.version}", f"{empty:,.0f} cycles")


@pytest.mark.parametrize(
    ("name", "expand_label", "size"),
    [("SHA-256", hkdf_sha256_expand_label, 32), ("SHA-384", hkdf_sha384_expand_label, 48)],
)
def test_label_cycles(figure, watch, name, expand_label, size):
    """Derive one secret from another, with a transcript's hash as its context."""
    for field in (Variants.sha256, Variants.sha512):
        choose(watch, field, Variant.FAST)
    secret, label = watch.buffer(64), watch.buffer(b"\x12tls13 c hs traffic")
    out = watch.buffer(64)
    cycles = watch.cycles(watch.step(expand_label, out, secret, label, size, out, size))
    figure(f"HKDF-Expand-Label with {name}, a digest from a digest", f"{cycles:,.0f} cycles")
