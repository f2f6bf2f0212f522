"""Known answers of the cryptography: what boot lets every variant compute before it is used.

Published vectors, but for one tag: a text as long as the wide loops want is published for no key of
AES. `tests/firmware/crypto/test_known_answers.py` lets another library agree with all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from firmware.layouts.aead import AEAD_TAG_BYTES, AesGcm
from firmware.layouts.crypto import SHA512_DIGEST_BYTES
from firmware.layouts.ed25519 import Ed25519Key
from firmware.layouts.mlkem import CIPHERTEXT_BYTES, CODED_SLACK, MlKemKey
from firmware.layouts.p256 import P256_SHARE_BYTES
from toolchain.layout import Global, Struct, bytes_, nested
from toolchain.layout.data import constant

if TYPE_CHECKING:
    from toolchain.layout import Data


def _known(name: str, hexadecimal: str, doc: str) -> Data:
    return constant(f"known_{name}", bytes.fromhex(hexadecimal), doc)


@dataclass(frozen=True)
class Hashed:
    """What the compression of a hash makes of two blocks, beginning with its initial state.

    Attributes:
        blocks: The message of two blocks, padded.
        state: The state afterwards: the words of the digest, host order.
    """

    blocks: Data
    state: Data


def _hashed(name: str, word: int, message: str, digest: str, doc: str) -> Hashed:
    text, block = message.encode(), 16 * word
    end = (8 * len(text)).to_bytes(2 * word, "big")
    padded = text + b"\x80" + bytes(2 * block - len(text) - 1 - len(end)) + end
    words = bytes.fromhex(digest)
    state = b"".join(words[n : n + word][::-1] for n in range(0, len(words), word))
    return Hashed(
        constant(f"known_{name}_blocks", padded, doc), constant(f"known_{name}_state", state, doc)
    )


HASHED_SHA256 = _hashed(
    "sha256",
    4,
    "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
    "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
    "of SHA-256, the two-block message among NIST's examples for FIPS 180-4",
)
HASHED_SHA512 = _hashed(
    "sha512",
    8,
    "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
    "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
    "8e959b75dae313da8cf4f72814fc143f8f7779c6eb9f7fa17299aeadb6889018"
    "501d289e4900f7e4331b99dec4b5433ac7d329eeb6dd26545e96e55b874be909",
    "of SHA-512, the two-block message among NIST's examples for FIPS 180-4",
)
KNOWN_BLOCKS = 2
"""Blocks of each message."""


@dataclass(frozen=True)
class Sealed:
    """What an authenticated cipher makes of a text.

    Attributes:
        key: The key.
        nonce: The nonce.
        aad: The additional data.
        text: The plaintext.
        tag: The tag behind its ciphertext.
    """

    key: Data
    nonce: Data
    aad: Data
    text: Data
    tag: Data


_NIST_KEY = "feffe9928665731c6d6a8f9467308308"
_NIST = (
    _known("nist_nonce", "cafebabefacedbaddecaf888", "of the GCM cases"),
    _known("nist_aad", "feedfacedeadbeeffeedfacedeadbeefabaddad2", "of the GCM cases"),
)
_NIST_TEXT = _known(
    "nist_text",
    "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e24"
    "49a6b525b16aedf5aa0de657ba637b39",
    "of the GCM cases",
)
_DRAFT_TEXT = constant(
    "known_draft_text",
    "Internet-Drafts are draft documents valid for a maximum of six months and may be updated, "
    "replaced, or obsoleted by other documents at any time. It is inappropriate to use "
    "Internet-Drafts as reference material or to cite them other than as "
    "/\u201cwork in progress./\u201d".encode(),
    "RFC 8439 A.5",
)
_AES128 = _known("aes128_key", _NIST_KEY, "of the GCM cases 3 to 6")
_AES256 = _known("aes256_key", 2 * _NIST_KEY, "of the GCM cases 15 to 18")
SEALED_AES: tuple[Sealed, ...] = (
    Sealed(
        _AES128,
        *_NIST,
        _NIST_TEXT,
        _known("aes128_tag", "5bc94fbc3221a5db94fae95ae7121a47", "case 4"),
    ),
    Sealed(
        _AES256,
        *_NIST,
        _NIST_TEXT,
        _known("aes256_tag", "76fc6ece0f4e1768cddf8853bb2d551b", "case 16"),
    ),
    Sealed(
        _AES128,
        *_NIST,
        _DRAFT_TEXT,
        _known("aes128_wide_tag", "261510ebac214bdd28bb217988246476", "by OpenSSL"),
    ),
)
"""McGrew and Viega, "The Galois/Counter Mode of Operation", appendix B, as submitted to NIST."""
SEALED_CHACHA: tuple[Sealed, ...] = (
    Sealed(
        _known(
            "chacha_key",
            "1c9240a5eb55d38af333888604f6b5f0473917c1402b80099dca5cbc207075c0",
            "RFC 8439 A.5",
        ),
        _known("chacha_nonce", "000000000102030405060708", "RFC 8439 A.5"),
        _known("chacha_aad", "f33388860000000000004e91", "RFC 8439 A.5"),
        _DRAFT_TEXT,
        _known("chacha_tag", "eead9d67890cbb22392336fea1851f38", "RFC 8439 A.5"),
    ),
)

KNOWN_X25519_SCALAR = _known(
    "x25519_scalar",
    "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
    "RFC 7748 5.2",
)
KNOWN_X25519_POINT = _known(
    "x25519_point",
    "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
    "RFC 7748 5.2",
)
KNOWN_X25519 = _known(
    "x25519",
    "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552",
    "RFC 7748 5.2: what both give",
)
KNOWN_P256_SCALAR = constant(
    "known_p256_scalar",
    bytes.fromhex("c88f01f510d9ac3f70a292daa2316de544e9aab8afe84049c62a9c57862d1433")[::-1],
    "RFC 5903 8.1: i, the least byte first",
)
KNOWN_P256_PUBLIC = _known(
    "p256_public",
    "04"
    "dad0b65394221cf9b051e1feca5787d098dfe637fc90b9ef945d0c3772581180"
    "5271a0461cdb8252d61f1c456fa3e59ab1f45b33accf5f58389e0577b8990bb3",
    "RFC 5903 8.1: gix and giy, as a key share",
)
KNOWN_P256_SHARE = _known(
    "p256_share",
    "04"
    "d12dfb5289c8d4f81208b70270398c342296970a0bccb74c736fc7554494bf63"
    "56fbf3ca366cc23e8157854c13c58d6aac23f046ada30f8353e74f33039872ab",
    "RFC 5903 8.1: grx and gry, as a key share",
)
KNOWN_P256 = _known(
    "p256",
    "d6840f6b42f6edafd13116e0e12565202fef8e9ece7dce03812464d04b9442de",
    "RFC 5903 8.1: girx",
)

KNOWN_MLKEM_SEED = _known(
    "mlkem_seed",
    "d60b93492a1d8c1c7ba6fc0b733137f3406cee8110a93f170e7a78658af326d9003271531cf27285b8721ed5"
    "cb46853043b346a66cba6cf765f1b0eaa40bf672",
    "Wycheproof mlkem_768_test, tcId 3: d and z",
)
KNOWN_MLKEM_HASH = _known(
    "mlkem_hash",
    "7b00751eb9b1253231213f8a14f06f0fe1b7a4fdb7d1cfe44c161e577e5e8f0a",
    "SHA3-256 of its ek",
)
KNOWN_MLKEM_MESSAGE = _known(
    "mlkem_message",
    "cde797df8ce67231f6c5d15811843e01eb2ab84c7490931240822adbddd72046",
    "what its c decrypts to",
)
KNOWN_MLKEM_RANDOM = _known(
    "mlkem_random",
    "ff24371bac7e71c7ebc442fc82abb91d62b3208569aa26b6bc4eaad24f757161",
    "FIPS 203 algorithm 17, r: what its c was made with",
)
KNOWN_MLKEM_SECRET = _known(
    "mlkem_secret",
    "5f0c5d9f39d3e724b5a2bd54e69e360f72ffab5d4d6cc5e572fecba80acd4796",
    "its K",
)
KNOWN_MLKEM_REFUSED = _known(
    "mlkem_refused",
    "27db7efd73a584df2be30edc42d132a78489f681fab52b0aac7cdd20d68a96ea",
    "FIPS 203 algorithm 18, J(z || c): what c gives with its first bit changed",
)


@dataclass(frozen=True)
class Signed:
    """A signature of "sample" by RFC 6979.

    Attributes:
        key: X and Y.
        signature: R and s.
    """

    key: Data
    signature: Data


KNOWN_SAMPLE = constant("known_sample", b"sample", "RFC 6979 A.2: the message")
SIGNED_P256 = Signed(
    _known(
        "p256_key",
        "60fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6"
        "7903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299",
        "RFC 6979 A.2.5",
    ),
    _known(
        "p256_signature",
        "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716"
        "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8",
        "RFC 6979 A.2.5, with SHA-256",
    ),
)
SIGNED_P384 = Signed(
    _known(
        "p384_key",
        "ec3a4e415b4e19a4568618029f427fa5da9a8bc4ae92e02e06aae5286b300c64"
        "def8f0ea9055866064a254515480bc13"
        "8015d9b72d7d57244ea8ef9ac0c621896708a59367f9dfb9f54ca84b3f1c9db1"
        "288b231c3ae0d4fe7344fd2533264720",
        "RFC 6979 A.2.6",
    ),
    _known(
        "p384_signature",
        "94edbb92a5ecb8aad4736e56c691916b3f88140666ce9fa73d64c4ea95ad133c"
        "81a648152e44acf96e36dd1e80fabe46"
        "99ef4aeb15f178cea1fe40db2603138f130e740a19624526203b6351d0a3a94f"
        "a329c145786e679e7b82c71a38628ac8",
        "RFC 6979 A.2.6, with SHA-384",
    ),
)
KNOWN_RSA_MODULUS = _known(
    "rsa_modulus",
    "a1f8160ae2e3c9b465ce8d2d656263362b927dbe29e1f02477fc1625cc90a136e38bd93497c5b6ea63dd7711"
    "e67c7429f956b0fb8a8f089adc4b69893cc1333f53edd019b87784252fec914fe4857769594bea4280d32c0f"
    "55bf62944f130396bc6e9bdf6ebdd2bda3678eeca0c668f701b38dbffb38c8342ce2fe6d27fade4a5a487497"
    "9dd4b9cf9adec4c75b05852c2c0f5ef8a5c1750392f944e8ed64c110c6b647609aa4783aeb9c6c9ad7553130"
    "50638b83665c6f6f7a82a396702a1f641b82d3ebf2392219491fb686872c5716f50af8358d9a8b9d17c34072"
    "8f7f87d89a18d8fcab67ad84590c2ecf759339363c07034d6f606f9e21e05456cae5e9a1",
    "RFC 7515 A.2: n",
)
KNOWN_RSA_EXPONENT = 65537
KNOWN_RSA_SIGNATURE = _known(
    "rsa_signature",
    "702e218943e88fd11eb5d82dbf7845f34106ae1b81fff7731116add1717d83656d420afd3c96eedd73a2663e"
    "5166687b000b87226e0187ed1073f945e582adfcef16d85a798ee8c66ddb3db8975b17d09402beedd5d9d970"
    "07108db28160d5f8040ca7445762b81fbe7ff9d92e0ae76f24f25b33bbe6f44ae61eb1040acb20044d3ef912"
    "8ed40130795bd4bd3b41eecad066ab651981fde48df77f372dc38b9fafdd3befb18b5da3cc3c2eb02f9e3a41"
    "d612caad15911273a05f23b9e838faaf849d698429ef5a1e88798236c3d40e604522a544c8f27a7a2db80663"
    "d16cf7caea56de405cb2215a45b2c25566b55ac1a748a070dfc8a32a469543d019eefb47",
    "RFC 7515 A.2: PKCS #1 v1.5 with SHA-256",
)
KNOWN_RSA_DIGEST = _known(
    "rsa_digest",
    "c88a34847b4ffb12a9326e540f144b3dcc4d5515f18701e7d6e0ee7866c9c705",
    "RFC 7515 A.2: SHA-256 of the signing input",
)


KNOWN_ED25519_SEED = _known(
    "ed25519_seed",
    "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
    "RFC 8032 7.1, test 3: the private key",
)
KNOWN_ED25519_MESSAGE = _known("ed25519_message", "af82", "RFC 8032 7.1, test 3: the message")
KNOWN_ED25519 = _known(
    "ed25519",
    "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
    "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    "RFC 8032 7.1, test 3: the signature",
)


class KnownWork(Struct):
    """Work space of the checks; nothing in it is a secret of the node."""

    SIZE = 0x25C0
    key = bytes_(0x00, AesGcm.SIZE, "a key, as any of the ciphers makes it", align=64)
    text = bytes_(0x220, 0x100 + 2 * AEAD_TAG_BYTES, "a text and its tag", align=16)
    out = bytes_(0x340, P256_SHARE_BYTES, "what a key agreement gives", align=8)
    digest = bytes_(0x388, SHA512_DIGEST_BYTES, "of the message, or a signature of ours", align=8)
    signer = nested(0x3C8, Ed25519Key, "a private key")
    kem = nested(0x440, MlKemKey, "a key pair of ML-KEM")
    ciphertext = bytes_(0x2140, CIPHERTEXT_BYTES + CODED_SLACK, "one for it", align=16)


KNOWN_WORK = Global("known_work", KnownWork, "work space of the known answers", align=64)
