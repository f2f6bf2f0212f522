"""Lists of subtrees."""

from emulator.effects import World, model
from emulator.models.x509.der import der_open, der_read
from emulator.models.x509.names import x509_dns_valid, x509_match_dns, x509_same_text

SEQUENCE, DNS, IP = 0x30, 0x82, 0x87


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
        bad, _, inside, here = der_open(w, here, end, SEQUENCE)
        if bad:
            return 1
        bad, tag, base, after = der_read(w, inside, here)
        size = here - base
        if bad or after != here:
            return 1
        if tag == DNS and size:
            bad, wildcard = x509_dns_valid(w, base, size)
            if bad or wildcard:
                return 1
        elif tag == IP:
            if size not in (8, 32) or x509_mask_valid(w, base + size // 2, size // 2):
                return 1
        elif tag != DNS:
            return 1
        if here == end:
            return 0


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
        if kind == IP:
            inside_it = x509_address_within(w, name, size, base, wide)
        else:
            inside_it = x509_dns_within(w, name, size, base, wide)
            if not inside_it and wildcard:
                inside_it = x509_match_dns(w, name - 2, size + 2, base, wide)
        if inside_it:
            return 3
    return found
