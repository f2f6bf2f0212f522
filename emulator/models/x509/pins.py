"""Pins."""

from emulator.effects import World, model
from emulator.models.crypto.sha256 import sha256_finish, sha256_start, sha256_update
from emulator.models.x509.certificate import x509_same
from emulator.models.x509.chain import certificate_of
from firmware.layouts.trust import PIN_BYTES, TrustRecord, TrustStore
from firmware.layouts.x509 import Certificate
from firmware.layouts.x509_chain import Chain


@model
def x509_check_pins(w: World, chain: int) -> int:
    """RFC 7469 2.6: one of the pins is of one of the keys."""
    kept = w.view(Chain, chain)
    store, record = w.view(TrustStore, kept.store), w.view(TrustRecord, kept.anchor)
    keys = [(kept.anchor + TrustRecord.SIZE + record.subject_len, record.spki_len)]
    for number in reversed(kept.path[: kept.depth + 1]):
        spki = w.view(Certificate, certificate_of(w, chain, number)).spki
        keys.append((spki.start, spki.size))
    work, digest = kept.hash.address_, kept.offset_of("signed")
    for start, size in keys if store.pins else ():
        sha256_start(w, work)
        sha256_update(w, work, start, size)
        sha256_finish(w, work, digest)
        for number in range(1, store.pins + 1):
            pin = kept.store + store.size - number * PIN_BYTES
            if x509_same(w, digest, PIN_BYTES, pin, PIN_BYTES):
                return 0
    return int(store.pins > 0)
