"""May this certificate be where it is."""

from typing import Any

from emulator.effects import World, model
from emulator.models.x509.key import x509_key
from firmware.layouts.trust import TrustRecord
from firmware.layouts.x509 import (
    EARLY,
    EXPIRED,
    KEY,
    KEY_USAGE,
    LEAF_IS_CA,
    NOT_CA,
    PATH_LENGTH,
    PURPOSE,
    Certificate,
    CertificateFlag,
    KeyKind,
    KeyUsage,
    PublicKey,
)


def signed(value: int) -> int:
    """Return a number of 64 bits with its sign."""
    return value - (value >> 63 << 64)


@model
def x509_check_time(w: World, certificate: int, now: int) -> int:
    """RFC 5280: the period includes both of its ends."""
    view = w.view(Certificate, certificate)
    if signed(now) < signed(view.not_before):
        return EARLY.code
    return EXPIRED.code if signed(now) > signed(view.not_after) else 0


def _purpose(view: Any) -> int:  # noqa: ANN401 - a View
    """Return the error of extKeyUsage or of the key."""
    wanted = CertificateFlag.EXTENDED_KEY_USAGE
    if view.flags & wanted and not view.flags & CertificateFlag.SERVER_AUTH:
        return PURPOSE.code
    return 0 if view.key.kind else KEY.code


@model
def x509_check_leaf(w: World, certificate: int, now: int) -> int:
    """In time, no CA, digitalSignature without keyCertSign, serverAuth, a key that can verify."""
    view = w.view(Certificate, certificate)
    error = x509_check_time(w, certificate, now)
    if error:
        return error
    if view.flags & CertificateFlag.CA or view.constraints.size:
        return LEAF_IS_CA.code
    if view.flags & CertificateFlag.KEY_USAGE:
        uses = view.key_usage & (KeyUsage.DIGITAL_SIGNATURE | KeyUsage.KEY_CERT_SIGN)
        if uses != KeyUsage.DIGITAL_SIGNATURE:
            return KEY_USAGE.code
    return _purpose(view)


@model
def x509_check_issuer(w: World, certificate: int, now: int, below: int) -> int:
    """In time, a CA that allows so many below, keyCertSign, serverAuth, a key that can verify."""
    view = w.view(Certificate, certificate)
    error = x509_check_time(w, certificate, now)
    if error:
        return error
    if not view.flags & CertificateFlag.CA:
        return NOT_CA.code
    if below > view.path_length:
        return PATH_LENGTH.code
    if view.flags & CertificateFlag.KEY_USAGE and not view.key_usage & KeyUsage.KEY_CERT_SIGN:
        return KEY_USAGE.code
    return _purpose(view)


@model
def x509_check_anchor(w: World, record: int, now: int, below: int, key: int) -> int:
    """Not yet over, so many below allowed, and its key can verify."""
    anchor, kept = w.view(TrustRecord, record), w.view(PublicKey, key)
    if signed(now) > signed(anchor.not_after):
        return EXPIRED.code
    if below > anchor.path_length:
        return PATH_LENGTH.code
    kept.kind = KeyKind.UNSUPPORTED
    start = record + TrustRecord.SIZE + anchor.subject_len
    x509_key(w, start, start + anchor.spki_len, key)
    return 0 if kept.kind else KEY.code
