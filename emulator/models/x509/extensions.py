"""What the extensions say."""

from emulator.effects import World, model
from emulator.models.x509.der import der_known, der_open, der_read, der_small
from firmware.layouts.x509 import Certificate, CertificateFlag

_BOOLEAN, _INTEGER, _BIT_STRING, _OID, _SEQUENCE = 1, 2, 3, 6, 0x30

_KINDS = {0x80 + n for n in (1, 2, 6, 7, 8)} | {0xA0 + n for n in (0, 3, 4, 5)}
"""RFC 5280 4.2.1.6: texts, addresses and OIDs are primitive, the other kinds constructed."""


def is_true(w: World, contents: int, end: int) -> bool:
    """DER has one TRUE, and leaves a FALSE out that is the default."""
    return end - contents == 1 and w.u8(contents) == 0xFF


def _whole(w: World, value: int, end: int, tag: int) -> tuple[bool, int]:
    """Open the one element that is all of the value; return whether that fails, and its contents."""
    bad, _, inside, after = der_open(w, value, end, tag)
    return bool(bad) or after != end, inside


@model
def x509_basic_constraints(w: World, value: int, end: int, certificate: int) -> int:
    """SEQUENCE { cA BOOLEAN DEFAULT FALSE, pathLenConstraint INTEGER OPTIONAL }."""
    view = w.view(Certificate, certificate)
    wrong, inside = _whole(w, value, end, _SEQUENCE)
    if wrong or inside == end:
        return int(wrong)
    bad, _, flag, after = der_open(w, inside, end, _BOOLEAN)
    if bad or not is_true(w, flag, after):
        return 1
    view.flags |= CertificateFlag.CA
    if after == end:
        return 0
    bad, _, number, last = der_open(w, after, end, _INTEGER)
    if bad or last != end:
        return 1
    bad, length = der_small(w, number, last)
    if not bad:
        view.path_length = length
    return bad


@model
def x509_key_usage(w: World, value: int, end: int, certificate: int) -> int:
    """Named bits: zeros at the end are left out, so the last bit that is there is set."""
    view = w.view(Certificate, certificate)
    wrong, inside = _whole(w, value, end, _BIT_STRING)
    if wrong or end - inside not in (2, 3):
        return 1
    unused, *bits = w.read(inside, end - inside)
    zeros = next((n for n in range(8) if bits[-1] >> n & 1), None)
    if zeros != unused:
        return 1
    view.key_usage = bits[0]
    view.flags |= CertificateFlag.KEY_USAGE
    return 0


@model
def x509_extended_key_usage(w: World, value: int, end: int, certificate: int) -> int:
    """SEQUENCE SIZE (1..MAX) OF OBJECT IDENTIFIER."""
    view = w.view(Certificate, certificate)
    wrong, here = _whole(w, value, end, _SEQUENCE)
    if wrong:
        return 1
    view.flags |= CertificateFlag.EXTENDED_KEY_USAGE
    while True:
        bad, _, oid, after = der_open(w, here, end, _OID)
        if bad or oid == after:
            return 1
        view.flags |= der_known(w, oid, after, w.address("x509_purposes"))
        here = after
        if here == end:
            return 0


@model
def x509_names(w: World, value: int, end: int, certificate: int) -> int:
    """GeneralNames, at least one; an iPAddress has 4 or 16 bytes."""
    view = w.view(Certificate, certificate)
    wrong, here = _whole(w, value, end, _SEQUENCE)
    if wrong:
        return 1
    view.names.start, view.names.size = here, end - here
    while True:
        bad, tag, contents, after = der_read(w, here, end)
        if bad or tag not in _KINDS:
            return 1
        if tag == 0x87 and after - contents not in (4, 16):
            return 1
        here = after
        if here == end:
            return 0
