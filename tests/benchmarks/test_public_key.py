"""Core cycles of key agreement and signatures, ours and OpenSSL's, by one loop on one processor.

Ours are the fast variants. OpenSSL's side are the calls of its EVP interface, with keys and contexts
made before: what a program pays for one more agreement, verification or signature. A verification is
of a digest; OpenSSL's of ECDSA reads the signature from DER as well.
"""

from __future__ import annotations

import ctypes
import hashlib

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils, x25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from firmware.crypto.ecdsa import ecdsa_p256_verify_adx, ecdsa_p384_verify_adx
from firmware.crypto.ed25519 import ed25519_key_adx, ed25519_sign_adx
from firmware.crypto.p256 import p256_agree_adx, p256_public_adx
from firmware.crypto.rsa import rsa_recover_adx
from firmware.crypto.rsa_encodings import RSA_PKCS1
from firmware.crypto.x25519 import x25519_adx
from firmware.layouts.ecdsa import ECDSA, Ecdsa
from firmware.layouts.ed25519 import Ed25519Key
from firmware.layouts.p256 import P256_SHARE_BYTES
from firmware.layouts.rsa import RSA, Rsa
from tests.support.openssl import OpenSsl
from tests.support.stopwatch import Stopwatch

pytestmark = pytest.mark.bench
RSA_PKCS1_PADDING = 1
"""Of OpenSSL's rsa.h."""
MESSAGE = b"what is signed"
DIGESTS = {"sha256": hashes.SHA256(), "sha384": hashes.SHA384()}
ROUTINES = (
    x25519_adx,
    p256_public_adx,
    p256_agree_adx,
    ecdsa_p256_verify_adx,
    ecdsa_p384_verify_adx,
    rsa_recover_adx,
    RSA_PKCS1["sha256"],
    ed25519_key_adx,
    ed25519_sign_adx,
)


@pytest.fixture(scope="module")
def watch():
    """One for the module: the link addresses can be mapped once."""
    return Stopwatch(*ROUTINES)


@pytest.fixture(scope="module")
def ssl():
    return OpenSsl()


@pytest.fixture
def compare(figure, watch, ssl):
    """Return what measures both sides and adds their row."""

    def add(what, ours, theirs):
        mine, other = watch.cycles(*ours), watch.cycles(*theirs)
        figure(
            f"{what}, ours and {ssl.version}'s",
            f"{mine:,.0f} cycles, {other:,.0f}: ratio {mine / other:.2f}",
        )

    return add


def call(ssl, watch, name, *arguments):
    """Return a call of OpenSSL's for the loop, which has succeeded once here."""
    ssl.done(name, *arguments)
    return watch.step(ssl.address(name), *arguments)


def public(ssl, watch, key):
    """Return the EVP_PKEY of a public key of the other library."""
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return ssl.call("d2i_PUBKEY", None, place_of(watch, der), len(der))


def private(ssl, watch, key):
    """Return the EVP_PKEY of a private key."""
    der = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    return ssl.call("d2i_AutoPrivateKey", None, place_of(watch, der), len(der))


def place_of(watch, der):
    """Return where the address of an encoding is: reading moves that on."""
    return watch.buffer(watch.buffer(der).to_bytes(8, "little"))


def agreement(ssl, watch, key, peer):
    """Return OpenSSL's step that derives a secret, and where the secret goes."""
    context = ssl.call("EVP_PKEY_CTX_new", private(ssl, watch, key), None)
    ssl.done("EVP_PKEY_derive_init", context)
    ssl.done("EVP_PKEY_derive_set_peer", context, public(ssl, watch, peer))
    out, length = watch.buffer(64), watch.buffer((64).to_bytes(8, "little"))
    return call(ssl, watch, "EVP_PKEY_derive", context, out, length), out


def generation(ssl, watch, key):
    """Return OpenSSL's step that makes a key of the same kind; the object is used again."""
    context = ssl.call("EVP_PKEY_CTX_new", private(ssl, watch, key), None)
    ssl.done("EVP_PKEY_keygen_init", context)
    return call(ssl, watch, "EVP_PKEY_generate", context, watch.buffer(bytes(8)))


def test_x25519_cycles(compare, watch, ssl):
    ours, peer = x25519.X25519PrivateKey.generate(), x25519.X25519PrivateKey.generate()
    theirs, secret = agreement(ssl, watch, ours, peer.public_key())
    scalar = watch.buffer(ours.private_bytes_raw())
    point, base = (
        watch.buffer(raw)
        for raw in (peer.public_key().public_bytes_raw(), (9).to_bytes(32, "little"))
    )
    out = watch.buffer(32)
    generate = generation(ssl, watch, ours)
    compare("X25519: a key's public half", [watch.step(x25519_adx, out, scalar, base)], [generate])
    assert ctypes.string_at(out, 32) == ours.public_key().public_bytes_raw()
    compare("X25519: a secret", [watch.step(x25519_adx, out, scalar, point)], [theirs])
    assert (
        ctypes.string_at(out, 32)
        == ctypes.string_at(secret, 32)
        == ours.exchange(peer.public_key())
    )


def test_p256_cycles(compare, watch, ssl):
    ours, peer = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    theirs, secret = agreement(ssl, watch, ours, peer.public_key())
    scalar = watch.buffer(ours.private_numbers().private_value.to_bytes(32, "little"))
    share = watch.buffer(uncompressed(peer))
    out = watch.buffer(P256_SHARE_BYTES)
    generate = generation(ssl, watch, ours)
    compare("P-256: a key's public half", [watch.step(p256_public_adx, out, scalar)], [generate])
    assert ctypes.string_at(out, P256_SHARE_BYTES) == uncompressed(ours)
    compare("P-256: a secret", [watch.step(p256_agree_adx, out, scalar, share)], [theirs])
    assert (
        ctypes.string_at(out, 32)
        == ctypes.string_at(secret, 32)
        == ours.exchange(ec.ECDH(), peer.public_key())
    )


def uncompressed(key):
    """Return a public point as TLS shows it."""
    return key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def left(watch, work, field, size):
    """Return what our last verification left in a field of its work space."""
    return ctypes.string_at(watch.image.address(work) + field.offset, size)


def verification(ssl, watch, key, signature, digest, name, pad=None):
    """Return OpenSSL's step that verifies a digest's signature."""
    context = ssl.call("EVP_PKEY_CTX_new", public(ssl, watch, key), None)
    ssl.done("EVP_PKEY_verify_init", context)
    if pad is not None:
        ssl.done("EVP_PKEY_CTX_set_rsa_padding", context, pad)
    ssl.done(
        "EVP_PKEY_CTX_set_signature_md", context, ssl.call("EVP_get_digestbyname", name.encode())
    )
    signed = watch.buffer(signature), len(signature), watch.buffer(digest), len(digest)
    return call(ssl, watch, "EVP_PKEY_verify", context, *signed)


@pytest.mark.parametrize(
    ("name", "curve", "verify", "size", "hash_"),
    [
        ("P-256", ec.SECP256R1(), ecdsa_p256_verify_adx, 32, "sha256"),
        ("P-384", ec.SECP384R1(), ecdsa_p384_verify_adx, 48, "sha384"),
    ],
    ids=["p256", "p384"],
)
def test_ecdsa_cycles(compare, watch, ssl, name, curve, verify, size, hash_):
    signer = ec.generate_private_key(curve)
    signature = signer.sign(MESSAGE, ec.ECDSA(DIGESTS[hash_]))
    digest = hashlib.new(hash_, MESSAGE).digest()
    words = b"".join(n.to_bytes(size, "big") for n in utils.decode_dss_signature(signature))
    step = watch.step(
        verify,
        watch.buffer(uncompressed(signer)[1:]),
        watch.buffer(words),
        watch.buffer(digest),
        len(digest),
    )
    theirs = verification(ssl, watch, signer.public_key(), signature, digest, hash_)
    compare(f"ECDSA {name} verification", [step], [theirs])
    # X of the sum, and what it had to be.
    x1, t1 = (left(watch, ECDSA, field, size) for field in (Ecdsa.x1, Ecdsa.t1))
    assert x1 == t1 != bytes(size)


@pytest.mark.parametrize("bits", [2048, 3072, 4096])
def test_rsa_cycles(compare, watch, ssl, bits):
    """The public operation and the comparison of the encoded message."""
    signer = rsa.generate_private_key(65537, bits)
    signature = signer.sign(MESSAGE, padding.PKCS1v15(), DIGESTS["sha256"])
    digest = hashlib.sha256(MESSAGE).digest()
    size, modulus = bits // 8, signer.public_key().public_numbers().n
    words = (watch.buffer(modulus.to_bytes(size, "big")), 8), (size, 4), (65537, 4)
    key = watch.buffer(b"".join(n.to_bytes(count, "little") for n, count in words))
    ours = [
        watch.step(rsa_recover_adx, key, watch.buffer(signature), 0, size),
        watch.step(RSA_PKCS1["sha256"], 0, watch.buffer(digest)),
    ]
    theirs = verification(
        ssl, watch, signer.public_key(), signature, digest, "sha256", RSA_PKCS1_PADDING
    )
    compare(f"RSA {bits} verification, PKCS#1 v1.5 with SHA-256", ours, [theirs])
    em, expected = (left(watch, RSA, field, size) for field in (Rsa.em, Rsa.expected))
    assert em == expected
    assert em.endswith(digest)


def test_ed25519_cycles(compare, watch, ssl):
    """A short message, with the key made before."""
    signer = ed25519.Ed25519PrivateKey.generate()
    key, seed = watch.buffer(Ed25519Key.SIZE), watch.buffer(signer.private_bytes_raw())
    watch.cycles(watch.step(ed25519_key_adx, key, seed))
    out, message = watch.buffer(64), watch.buffer(MESSAGE)
    context = ssl.call("EVP_MD_CTX_new")
    ssl.done("EVP_DigestSignInit", context, 0, 0, 0, private(ssl, watch, signer))
    theirs, length = watch.buffer(64), watch.buffer((64).to_bytes(8, "little"))
    step = call(ssl, watch, "EVP_DigestSign", context, theirs, length, message, len(MESSAGE))
    compare(
        "Ed25519 signing", [watch.step(ed25519_sign_adx, out, key, message, len(MESSAGE))], [step]
    )
    wanted = signer.sign(MESSAGE)
    assert ctypes.string_at(out, 64) == ctypes.string_at(theirs, 64) == wanted
