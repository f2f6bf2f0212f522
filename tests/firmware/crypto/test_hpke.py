"""HPKE against RFC 9180 A.2, another library, and messages that were changed."""

import hashlib
import hmac

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.constant_time import same_traces
from firmware.crypto.hpke import (
    hpke_decap,
    hpke_generate,
    hpke_key_schedule,
    hpke_labeled_expand,
    hpke_labeled_extract,
    hpke_open,
)
from firmware.layouts.crypto import DRBG
from firmware.layouts.hpke import HPKE, HPKE_OVERHEAD, Hpke, HpkeKeys
from firmware.layouts.variants import VARIANTS, Variant
from tests.support.lab import Lab

LAB = Lab(
    hpke_generate, hpke_decap, hpke_key_schedule, hpke_open, hpke_labeled_extract,
    hpke_labeled_expand, semantics=False,
)  # fmt: skip
OTHER = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
# RFC 9180 A.2.1: base setup, and A.2.1.1: the message with sequence number 0.
SK_R = bytes.fromhex("8057991eef8f1f1af18f4a9491d16a1ce333f695d4db8e38da75975c4478e0fb")
PK_R = bytes.fromhex("4310ee97d88cc1f088a5576c77ab0cf5c3ac797f3d95139c6c84b5429c59662a")
ENC = bytes.fromhex("1afa08d3dec047a643885163f1180476fa7ddb54c6a8029ea33f95796bf2ac4a")
INFO = bytes.fromhex("4f6465206f6e2061204772656369616e2055726e")
SHARED = "0bbe78490412b4bbea4812666f7916932b828bba79942424abb65244930d69a7"
EXTRACTED = "5b9cd775e64b437a2335cf499361b2e0d5e444d5cb41a8a53336d8fe402282c6"
KEY = "ad2744de8e17f4ebba575b3f5f5a8fa1f69c2a07f6e7500bc60ca6e3e3ec1c91"
BASE_NONCE = "5c4d98150661b848853b547f"
AAD, TEXT = b"Count-0", b"Beauty is truth, truth beauty"
CT = bytes.fromhex(
    "1c5250d8034ec2b784ba2cfd69dbdb8af406cfe3ff938e131f0def8c8b60b4db21993c62ce81883d2dd1b51a28"
)
SMALL_ORDER = [
    (0).to_bytes(32, "little"),
    (1).to_bytes(32, "little"),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
    (2**255 - 20).to_bytes(32, "little"),
    (2**255 - 19).to_bytes(32, "little"),
    (2**255 - 18).to_bytes(32, "little"),
]


@pytest.fixture(autouse=True)
def _fresh():
    LAB.reset()


def pair(private=SK_R, public=PK_R):
    keys = LAB.machine.alloc(HpkeKeys.SIZE)
    LAB.machine.write(keys, private + public)
    return keys


def opened(message, info=INFO, aad=b"", *, keys=None, call=LAB.free):
    """Return the text, or None when it was refused; nothing may be left of what was computed."""
    LAB.reset()
    keys = pair(*(keys or (SK_R, PK_R)))
    at, infos, aads = LAB.put(message), *(LAB.machine.alloc(len(part) + 1) for part in (info, aad))
    LAB.machine.write(infos, info)
    LAB.machine.write(aads, aad)
    done = call(
        hpke_open, keys=keys, message=at, length=len(message), info=infos, info_bytes=len(info),
        aad=aads, aad_bytes=len(aad),
    )  # fmt: skip
    assert LAB.machine.read(LAB.image.address(HPKE), Hpke.SIZE) == bytes(Hpke.SIZE)
    refused = done["flags"] & 1 if isinstance(done, dict) else done.outputs["cf"]
    if len(message) < HPKE_OVERHEAD:
        assert refused
        return None
    found = LAB.machine.read(at + 32, len(message) - HPKE_OVERHEAD)
    if refused and message[:32] not in SMALL_ORDER:
        assert found == bytes(len(found)), "nothing of a refused text is left"
    return None if refused else found


def test_hpke_decap_rfc_9180_a_2():
    at = LAB.put(ENC)
    assert LAB.call(hpke_decap, keys=pair(), enc=at).outputs["cf"] == 0
    assert bytes(LAB.g(HPKE).shared).hex() == SHARED


def test_hpke_key_schedule_rfc_9180_a_2():
    work, info = LAB.g(HPKE), LAB.put(INFO)
    work.shared[:] = bytes.fromhex(SHARED)
    LAB.call(hpke_key_schedule, info=info, info_bytes=len(INFO))
    assert bytes(work.prk).hex() == EXTRACTED
    assert bytes(work.shared).hex() == KEY
    assert bytes(work.nonce).hex() == BASE_NONCE
    assert bytes(work.key.matrix)[16:48].hex() == KEY
    suite = b"HPKE-v1HPKE\x00\x20\x00\x01\x00\x03"
    hashed = [
        hmac.digest(b"", suite + label, hashlib.sha256)
        for label in (b"psk_id_hash", b"info_hash" + INFO)
    ]
    assert bytes(work.context) == b"\0" + b"".join(hashed)


def test_hpke_open_rfc_9180_a_2():
    assert opened(ENC + CT, aad=AAD, call=LAB.call) == TEXT


def test_hpke_open_with_the_other_variant_of_x25519():
    LAB.reset()

    def call(routine, **inputs):
        LAB.g(VARIANTS).x25519 = Variant.FAST
        return LAB.call(routine, **inputs)

    assert opened(ENC + CT, aad=AAD, call=call) == TEXT
    assert opened(ENC + CT, aad=b"Count-1", call=call) is None


@settings(max_examples=8)
@given(
    private=st.binary(min_size=32, max_size=32),
    text=st.binary(max_size=300),
    info=st.binary(max_size=200),
)
def test_hpke_opens_what_the_other_library_sealed(private, text, info):
    key = X25519PrivateKey.from_private_bytes(private)
    public = key.public_key().public_bytes_raw()
    message = OTHER.encrypt(text, key.public_key(), info=info)
    assert len(message) == len(text) + HPKE_OVERHEAD
    assert opened(message, info, keys=(private, public)) == text
    assert opened(message, info + b"\0", keys=(private, public)) is None


def sealed(text=TEXT):
    return OTHER.encrypt(text, X25519PublicKey.from_public_bytes(PK_R), info=INFO)


def test_hpke_open_refuses_every_part_that_was_changed():
    message = sealed()
    assert opened(message) == TEXT
    for at in (0, 15, 31, 32, 40, 60, len(message) - 16, len(message) - 1):
        for bit in (0x01, 0x40):
            changed = bytearray(message)
            changed[at] ^= bit
            assert opened(bytes(changed)) is None, at
    assert opened(message, aad=b"\0") is None
    assert opened(message, INFO[:-1]) is None
    assert opened(message, b"") is None
    assert opened(message + b"\0") is None
    assert opened(sealed()[:32] + message[32:]) is None, "another sender's ciphertext"


def test_hpke_open_refuses_what_is_for_another_pair():
    other = X25519PrivateKey.from_private_bytes(bytes(range(32)))
    mine = (bytes(range(32)), other.public_key().public_bytes_raw())
    assert opened(sealed(), keys=mine) is None
    # The private key alone does not open it either: kem_context has the public one.
    assert opened(sealed(), keys=(SK_R, mine[1])) is None


@pytest.mark.parametrize("length", [0, 1, 31, 32, 47])
def test_hpke_open_refuses_what_is_too_short_and_looks_at_nothing(length):
    assert opened(sealed(b"")[:length], call=LAB.call) is None


def test_hpke_open_takes_a_text_of_no_bytes():
    assert opened(sealed(b""), call=LAB.call) == b""


@pytest.mark.parametrize("enc", SMALL_ORDER, ids=lambda enc: enc.hex()[:8])
def test_hpke_open_refuses_points_of_small_order(enc):
    """RFC 9180 7.1.4: an all-zero dh is no secret. The bit above the coordinate does not count."""
    for shown in (enc, enc[:31] + bytes([enc[31] | 0x80])):
        message = shown + hmac.digest(b"any", shown, "sha512")
        LAB.reset()
        at = LAB.put(message)
        assert LAB.free(hpke_decap, keys=pair(), enc=at)["flags"] & 1
        LAB.reset()
        at, nothing = LAB.put(message), LAB.machine.alloc(8)
        done = LAB.free(
            hpke_open, keys=pair(), message=at, length=len(message), info=nothing, info_bytes=0,
            aad=nothing, aad_bytes=0,
        )  # fmt: skip
        assert done["flags"] & 1
        assert LAB.machine.read(at, len(message)) == message, "nothing was opened"
        assert LAB.machine.read(LAB.image.address(HPKE), Hpke.SIZE) == bytes(Hpke.SIZE)


def test_hpke_open_of_a_point_of_small_order_in_lockstep():
    assert opened(SMALL_ORDER[2] + bytes(40), call=LAB.call) is None


def generated(*, weak, call=LAB.call):
    drbg, keys = LAB.g(DRBG), LAB.machine.alloc(HpkeKeys.SIZE)
    drbg.seeded, drbg.weak, drbg.available = 1, weak, 224
    drbg.pool[:] = bytes(range(256))
    refused = call(hpke_generate, keys=keys).outputs["cf"]
    made = LAB.machine.read(keys, HpkeKeys.SIZE)
    return refused, made[:32], made[32:]


def test_hpke_generate_draws_a_pair():
    refused, private, public = generated(weak=0)
    assert (refused, private) == (0, bytes(range(32, 64)))
    other = X25519PrivateKey.from_private_bytes(private)
    assert public == other.public_key().public_bytes_raw()
    assert bytes(LAB.g(DRBG).pool)[32:64] == bytes(32), "what was drawn is forgotten"


def test_hpke_generate_refuses_weak_entropy():
    assert generated(weak=1) == (1, b"\xa5" * 32, b"\xa5" * 32), "nothing was written"
    assert LAB.g(DRBG).available == 224, "nothing was drawn"


@pytest.mark.parametrize("length", [0, 80])
def test_hpke_open_takes_the_same_steps_whatever_the_key(length):
    secrets = [bytes(32), b"\xff" * 32, b"\x55" * 32, bytes(range(32)), b"\x80" + bytes(31)]

    def prepare(secret, size):
        key = X25519PrivateKey.from_private_bytes(secret)
        message = OTHER.encrypt(secret[:1] * size, key.public_key(), info=INFO)
        info = LAB.machine.alloc(len(INFO))
        LAB.machine.write(info, INFO)
        return {
            "keys": pair(secret, key.public_key().public_bytes_raw()),
            "message": LAB.put(message), "length": len(message), "info": info,
            "info_bytes": len(INFO), "aad": info, "aad_bytes": 0,
        }  # fmt: skip

    publics = [length]
    same_traces(LAB.machine, hpke_open, prepare, secrets=secrets, publics=publics, minimum=200_000)
