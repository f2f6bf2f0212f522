"""The names of a certificate."""

import re

from emulator.effects import World, model
from emulator.models.net.dns_name import dns_parse_quad
from emulator.models.x509.der import der_read
from firmware.layouts.x509 import Certificate

_LABEL = rb"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)"
_NAME = re.compile(rb"(\*\.)?" + _LABEL + rb"(\." + _LABEL + rb")*", re.DOTALL)


@model
def x509_dns_valid(w: World, text: int, size: int) -> tuple[int, int]:
    """At most 253 bytes; `*` is a whole first label with two more behind it, or is refused."""
    raw = w.read(text, size) if 1 <= size <= 253 else b""
    found = _NAME.fullmatch(raw)
    if not found or raw.split(b".")[-1].isdigit():
        return 1, 0
    wildcard = found[1] is not None
    return (1, 0) if wildcard and raw.count(b".") < 2 else (0, int(wildcard))


@model
def x509_same_text(w: World, one: int, size: int, other: int, other_size: int) -> int:
    """ASCII alone has small letters here: bytes.lower knows no others."""
    return int(size == other_size and w.read(one, size).lower() == w.read(other, size).lower())


@model
def x509_match_dns(w: World, name: int, size: int, host: int, host_size: int) -> int:
    """RFC 9525 6.3: a wildcard is for one whole label."""
    bad, wildcard = x509_dns_valid(w, name, size)
    if bad:
        return 0
    if not wildcard:
        return x509_same_text(w, name, size, host, host_size)
    label, dot, _ = w.read(host, host_size).partition(b".")
    if not dot or not label:
        return 0
    skip = len(label)
    return x509_same_text(w, name + 1, size - 1, host + skip, host_size - skip)


@model
def x509_match_host(w: World, certificate: int, host: int, size: int) -> int:
    """An address matches addresses alone, a name matches names alone; the common name is none."""
    names = w.view(Certificate, certificate).names
    here, end = names.start, names.start + names.size
    no_quad, quad = dns_parse_quad(w, host, size)
    while here != end:
        _, tag, start, here = der_read(w, here, end)
        length = here - start
        if no_quad:
            if tag == 0x82 and x509_match_dns(w, start, length, host, size):
                return 1
        elif tag == 0x87 and length == 4 and w.u32(start) == quad:
            return 1
    return 0
