"""One certificate."""

from collections.abc import Callable
from typing import Any

from emulator.effects import World, model
from emulator.models.x509.constraints import x509_name_constraints
from emulator.models.x509.der import der_known, der_open, der_read
from emulator.models.x509.extensions import (
    is_true,
    x509_basic_constraints,
    x509_extended_key_usage,
    x509_key_usage,
    x509_names,
)
from emulator.models.x509.key import x509_key
from emulator.models.x509.time import x509_time
from firmware.layouts.x509 import (
    ALGORITHMS_DIFFER,
    CRITICAL,
    DUPLICATE,
    EXTENSION,
    NOT_DER,
    PATH_ANY,
    TIME,
    VERSION,
    Certificate,
)

_INTEGER, _BIT_STRING, _SEQUENCE, _EXPLICIT_3 = 2, 3, 0x30, 0xA3
_BOOLEAN, _OCTET_STRING, _OID = 1, 4, 6
_READ: dict[int, Callable[..., int]] = {
    15: x509_key_usage,
    17: x509_names,
    19: x509_basic_constraints,
    30: x509_name_constraints,
    37: x509_extended_key_usage,
}


@model
def x509_same(w: World, one: int, size: int, other: int, other_size: int) -> int:
    """Names are the same when their encodings are."""
    return int(size == other_size and w.read(one, size) == w.read(other, size))


class _BadError(Exception):
    """The certificate is refused."""

    def __init__(self, error: int) -> None:
        self.error = error


def _opened(w: World, at: int, end: int, tag: int) -> tuple[int, int]:
    """Return contents and end of an element that must be there."""
    bad, _, contents, after = der_open(w, at, end, tag)
    if bad:
        raise _BadError(at)
    return contents, after


def _whole(w: World, at: int, end: int, tag: int) -> int:
    """Return the contents of an element behind which nothing may be."""
    contents, after = _opened(w, at, end, tag)
    if after != end:
        raise _BadError(contents)
    return contents


@model
def x509_extension(w: World, extension: int, end: int, certificate: int) -> tuple[int, int]:
    """SEQUENCE { extnID, critical BOOLEAN DEFAULT FALSE, extnValue OCTET STRING }."""
    kept, number = w.view(Certificate, certificate), 0
    try:
        inside, last = _opened(w, extension, end, _SEQUENCE)
        oid, after = _opened(w, inside, last, _OID)
        if after == oid:
            raise _BadError(0)
        name = w.read(oid, after - oid)
        if len(name) == 3 and name[:2] == b"\x55\x1d":
            number = name[2]
            if number < 64:
                twice = kept.seen >> number & 1
                kept.seen |= 1 << number
                if twice:
                    return DUPLICATE.code | number, 0
        critical = False
        if after >= last:
            raise _BadError(0)
        if w.u8(after) == _BOOLEAN:
            flag, after = _opened(w, after, last, _BOOLEAN)
            if not is_true(w, flag, after):
                raise _BadError(0)
            critical = True
        value = _whole(w, after, last, _OCTET_STRING)
        if number in _READ:
            if _READ[number](w, value, last, certificate):
                raise _BadError(0)
        elif critical:
            return CRITICAL.code | number, 0
    except _BadError:
        return EXTENSION.code | number, 0
    return 0, last


@model
def x509_parse(w: World, encoded: int, length: int, certificate: int) -> int:
    """RFC 5280 4.1, every element in its place; what is refused is refused with its place."""
    kept = w.view(Certificate, certificate)
    kept.wipe()
    kept.der.start, kept.der.size = encoded, length
    kept.path_length = PATH_ANY
    try:
        error = _tbs(w, encoded, encoded + length, certificate, kept)
    except _BadError as problem:
        error = NOT_DER.code | (problem.error - encoded) & 0xFFFF
    if error:
        kept.error = error
    return error


def _slice(field: Any, start: int, end: int) -> None:  # noqa: ANN401 - a View
    field.start, field.size = start, end - start


def _tbs(w: World, encoded: int, end: int, certificate: int, kept: Any) -> int:  # noqa: ANN401
    """Read everything but the extensions; a wrong element is raised with its address."""
    tbs = _whole(w, encoded, end, _SEQUENCE)
    here, signed = _opened(w, tbs, end, _SEQUENCE)
    _slice(kept.tbs, tbs, signed)
    algorithm, after = _opened(w, signed, end, _SEQUENCE)
    table = w.address("x509_signature_algorithms")
    kept.signature_algorithm = der_known(w, algorithm, after, table)
    outside = signed, after - signed
    bits = _whole(w, after, end, _BIT_STRING)
    if bits == end or w.u8(bits):
        raise _BadError(bits)
    _slice(kept.signature, bits + 1, end)

    if signed - here < 5:
        raise _BadError(here)
    if w.read(here, 5) != b"\xa0\x03\x02\x01\x02":
        return VERSION.code
    serial, after = _opened(w, here + 5, signed, _INTEGER)
    kept.serial.start = serial
    if serial == after:
        raise _BadError(serial)
    kept.serial.size = after - serial
    start = w.read(serial, min(2, after - serial))
    if len(start) == 2 and int.from_bytes(start, "big", signed=True) >> 7 in (0, -1):
        raise _BadError(serial)
    inside = after
    _, after = _opened(w, inside, signed, _SEQUENCE)
    if not x509_same(w, inside, after - inside, *outside):
        return ALGORITHMS_DIFFER.code
    name, last = _opened(w, after, signed, _SEQUENCE)
    if name == last:
        raise _BadError(name)
    _slice(kept.issuer, after, last)
    return _validity(w, last, signed, certificate, kept)


def _validity(w: World, at: int, end: int, certificate: int, kept: Any) -> int:  # noqa: ANN401
    """Read the validity and what comes behind it."""
    here, last = _opened(w, at, end, _SEQUENCE)
    for field in ("not_before", "not_after"):
        bad, tag, contents, after = der_read(w, here, last)
        if bad:
            raise _BadError(here)
        bad, seconds = x509_time(w, contents, after, tag)
        if bad:
            return TIME.code | (contents - int(kept.der.start)) & 0xFFFF
        setattr(kept, field, seconds)
        here = after
    if here != last:
        raise _BadError(here)
    _, after = _opened(w, here, end, _SEQUENCE)
    _slice(kept.subject, here, after)
    info = after
    _, after = _opened(w, info, end, _SEQUENCE)
    _slice(kept.spki, info, after)
    if x509_key(w, info, after, kept.key.address_):
        raise _BadError(info)
    return 0 if after == end else _extensions(w, after, end, certificate)


def _extensions(w: World, at: int, end: int, certificate: int) -> int:
    """[3] EXPLICIT SEQUENCE SIZE (1..MAX) OF Extension."""
    here = _whole(w, _whole(w, at, end, _EXPLICIT_3), end, _SEQUENCE)
    while True:
        error, here = x509_extension(w, here, end, certificate)
        if error or here == end:
            return error
