"""HPKE by RFC 9180: mode_base, DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20Poly1305."""

from __future__ import annotations

from typing import Any

from emulator.effects import World, model
from emulator.models.crypto.chacha20_poly1305 import chacha20_poly1305_key, chacha20_poly1305_open
from emulator.models.crypto.chosen import x25519
from emulator.models.crypto.drbg import drbg_bytes
from emulator.models.crypto.hkdf import SHA256, hkdf_sha256_expand
from firmware.layouts.crypto import DRBG
from firmware.layouts.hpke import (
    HPKE,
    HPKE_BASE_NONCE,
    HPKE_CONTEXT_START,
    HPKE_EAE_PRK,
    HPKE_INFO_HASH,
    HPKE_KEY,
    HPKE_SECRET,
    HPKE_SHARED_SECRET,
    HpkeKeys,
)
from firmware.layouts.x25519 import X25519_BASE_POINT


@model
def hpke_labeled_extract(
    w: World,
    salt: int,
    salt_bytes: int,
    label: int,
    label_bytes: int,
    ikm: int,
    ikm_bytes: int,
    prk: int,
) -> None:
    """Extract(salt, "HPKE-v1" | suite_id | label | ikm)."""
    SHA256.start(w, salt, salt_bytes)
    SHA256.append(w, label, label_bytes)
    SHA256.append(w, ikm, ikm_bytes)
    SHA256.finish(w, prk)


@model
def hpke_labeled_expand(
    w: World, prk: int, label: int, label_bytes: int, info_bytes: int, out: int, out_bytes: int
) -> None:
    """Expand(prk, I2OSP(L, 2) | "HPKE-v1" | suite_id | label | info, L)."""
    work = w.g(HPKE)
    info = w.read(label, label_bytes) + work.context[:info_bytes]
    work.info[: len(info)] = info
    hkdf_sha256_expand(w, prk, work.offset_of("info"), len(info), out, out_bytes)


def _label(w: World, label: Any) -> tuple[int, int]:  # noqa: ANN401 - a constant
    return w.address(label), label.size


def _expand(w: World, label: tuple[int, int], info_bytes: int, out: tuple[int, int]) -> None:
    hpke_labeled_expand(w, w.g(HPKE).offset_of("prk"), *label, info_bytes, *out)


def _shared(work: Any) -> tuple[int, int]:  # noqa: ANN401 - a view by field
    return work.offset_of("shared"), 32


@model
def hpke_generate(w: World, keys: int) -> int:
    """A random scalar a, and X25519(a, 9)."""
    if w.g(DRBG).weak:
        return 1
    pair = w.view(HpkeKeys, keys)
    drbg_bytes(w, pair.offset_of("private"), 32)
    x25519(w, pair.offset_of("public"), pair.offset_of("private"), w.address(X25519_BASE_POINT))
    return 0


@model
def hpke_decap(w: World, keys: int, enc: int) -> int:
    """ExtractAndExpand(DH(skR, pkE), enc | pkRm)."""
    work, pair = w.g(HPKE), w.view(HpkeKeys, keys)
    shared = _shared(work)
    if x25519(w, shared[0], pair.offset_of("private"), enc):
        return 1
    hpke_labeled_extract(w, shared[0], 0, *_label(w, HPKE_EAE_PRK), *shared, work.offset_of("prk"))
    work.context[:64] = w.read(enc, 32) + bytes(pair.public)
    _expand(w, _label(w, HPKE_SHARED_SECRET), 64, shared)
    return 0


@model
def hpke_key_schedule(w: World, info: int, info_bytes: int) -> None:
    """KeySchedule(mode_base, shared_secret, info, "", "")."""
    work = w.g(HPKE)
    shared, context = _shared(work), work.offset_of("context")
    start = w.read(w.address(HPKE_CONTEXT_START), 33)
    work.context[:33] = start
    hpke_labeled_extract(
        w, context + 33, 0, *_label(w, HPKE_INFO_HASH), info, info_bytes, context + 33
    )
    hpke_labeled_extract(w, *shared, *_label(w, HPKE_SECRET), shared[0], 0, work.offset_of("prk"))
    _expand(w, _label(w, HPKE_KEY), 65, shared)
    _expand(w, _label(w, HPKE_BASE_NONCE), 65, (work.offset_of("nonce"), 12))
    chacha20_poly1305_key(w, work.offset_of("key"), *shared)


@model
def hpke_open(
    w: World,
    keys: int,
    message: int,
    length: int,
    info: int,
    info_bytes: int,
    aad: int,
    aad_bytes: int,
) -> int:
    """Open(sequence number 0): the nonce is base_nonce."""
    if length < 48:
        return 1
    work = w.g(HPKE)
    refused = hpke_decap(w, keys, message)
    if not refused:
        hpke_key_schedule(w, info, info_bytes)
        refused = chacha20_poly1305_open(
            w,
            work.offset_of("key"),
            message + 32,
            length - 48,
            work.offset_of("nonce"),
            aad,
            aad_bytes,
        )
    work.wipe()
    return int(refused)
