"""Name constraints."""

from emulator.effects import World, model
from emulator.models.x509.der import der_open, der_read
from emulator.models.x509.names import x509_dns_valid
from emulator.models.x509.subtrees import DNS, IP, SEQUENCE, x509_subtrees, x509_subtrees_valid
from firmware.layouts.x509 import BUDGET, CONSTRAINTS, Certificate

_PERMITTED, _EXCLUDED = 0xA0, 0xA1


@model
def x509_name_constraints(w: World, value: int, end: int, certificate: int) -> int:
    """Permitted, excluded or both, in this order."""
    kept = w.view(Certificate, certificate).constraints
    bad, _, here, after = der_open(w, value, end, SEQUENCE)
    if bad or after != end:
        return 1
    kept.start = here
    if here == end:
        return 1
    kept.size = end - here
    for tag in (_PERMITTED, _EXCLUDED):
        if here < end and w.u8(here) == tag:
            bad, _, inside, here = der_open(w, here, end, tag)
            if bad or x509_subtrees_valid(w, inside, here):
                return 1
    return int(here != end)


@model
def x509_constrain(
    w: World, certificate: int, constraints: int, size: int, left: int
) -> tuple[int, int]:
    """Every name of a kind that has permitted subtrees lies in one, and none in an excluded one."""
    lists, here, end = {}, constraints, constraints + size
    for tag in (_PERMITTED, _EXCLUDED):
        if here < end and w.u8(here) == tag:
            _, _, inside, here = der_read(w, here, end)
            lists[tag] = inside, here
    names = w.view(Certificate, certificate).names
    here, end = names.start, names.start + names.size
    while here != end:
        before = here
        _, kind, name, here = der_read(w, before, end)
        left -= here - before + size
        if left < 0:
            return BUDGET.code, 0
        length, wildcard = here - name, 0
        if kind == DNS:
            bad, wildcard = x509_dns_valid(w, name, length)
            if bad:
                return CONSTRAINTS.code, left
            name, length = name + 2 * wildcard, length - 2 * wildcard
        elif kind != IP:
            continue
        if _PERMITTED in lists:
            found = x509_subtrees(w, *lists[_PERMITTED], kind, name, length, 0)
            if found == 2:
                return CONSTRAINTS.code, left
        if _EXCLUDED in lists:
            found = x509_subtrees(w, *lists[_EXCLUDED], kind, name, length, wildcard)
            if found & 1:
                return CONSTRAINTS.code, left
    return 0, left
