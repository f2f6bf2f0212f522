"""Name constraints."""

from emulator.effects import World, model
from emulator.models.x509.der import der_open, der_read
from emulator.models.x509.names import x509_dns_valid, x509_match_dns, x509_same_text
from firmware.layouts.x509 import BUDGET, CONSTRAINTS, Certificate

_SEQUENCE, _PERMITTED, _EXCLUDED, _DNS, _IP = 0x30, 0xA0, 0xA1, 0x82, 0x87


@model
def x509_mask_valid(w: World, mask: int, size: int) -> int:
    """As many ones as one likes, then zeros."""
    bits = "".join(f"{byte:08b}" for byte in w.read(mask, size))
    return int("01" in bits)


@model
def x509_subtrees_valid(w: World, contents: int, end: int) -> int:
    """GeneralSubtree ::= SEQUENCE { base }; the distances have their defaults."""
    here = contents
    while True:
        bad, _, inside, here = der_open(w, here, end, _SEQUENCE)
        if bad:
            return 1
        bad, tag, base, after = der_read(w, inside, here)
        size = here - base
        if bad or after != here:
            return 1
        if tag == _DNS and size:
            bad, wildcard = x509_dns_valid(w, base, size)
            if bad or wildcard:
                return 1
        elif tag == _IP:
            if size not in (8, 32) or x509_mask_valid(w, base + size // 2, size // 2):
                return 1
        elif tag != _DNS:
            return 1
        if here == end:
            return 0


@model
def x509_name_constraints(w: World, value: int, end: int, certificate: int) -> int:
    """Permitted, excluded or both, in this order."""
    kept = w.view(Certificate, certificate).constraints
    bad, _, here, after = der_open(w, value, end, _SEQUENCE)
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
def x509_dns_within(w: World, name: int, size: int, base: int, base_size: int) -> int:
    """Any name lies in the empty one; others end with the subtree's, label by label."""
    more = size - base_size
    if base_size == 0:
        return 1
    if more < 0 or (more and w.u8(name + more - 1) != ord(".")):
        return 0
    return x509_same_text(w, name + more, base_size, base, base_size)


@model
def x509_address_within(w: World, name: int, size: int, base: int, base_size: int) -> int:
    """The bits that the mask has are the same."""
    if base_size != 2 * size:
        return 0
    address, network = (int.from_bytes(w.read(at, size), "big") for at in (name, base))
    mask = int.from_bytes(w.read(base + size, size), "big")
    return int(address & mask == network & mask)


@model
def x509_subtrees(
    w: World, contents: int, end: int, kind: int, name: int, size: int, wildcard: int
) -> int:
    """Whether a subtree is of this kind (2), and whether one holds the name (1)."""
    here, found = contents, 0
    while here != end:
        _, _, inside, here = der_read(w, here, end)
        _, tag, base, _ = der_read(w, inside, here)
        if tag != kind:
            continue
        found, wide = 2, here - base
        if kind == _IP:
            inside_it = x509_address_within(w, name, size, base, wide)
        else:
            inside_it = x509_dns_within(w, name, size, base, wide)
            if not inside_it and wildcard:
                inside_it = x509_match_dns(w, name - 2, size + 2, base, wide)
        if inside_it:
            return 3
    return found


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
        if kind == _DNS:
            bad, wildcard = x509_dns_valid(w, name, length)
            if bad:
                return CONSTRAINTS.code, left
            name, length = name + 2 * wildcard, length - 2 * wildcard
        elif kind != _IP:
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
