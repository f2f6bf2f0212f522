"""The certificate list of one message."""

from emulator.effects import World, model
from emulator.models.crypto.sha256 import sha256_finish, sha256_start, sha256_update
from emulator.models.x509.certificate import x509_parse
from emulator.models.x509.names import x509_match_host
from emulator.models.x509.roles import signed, x509_check_leaf
from firmware.layouts.trust import TrustRecord
from firmware.layouts.x509 import LIST, NAME, TOO_MANY, Certificate
from firmware.layouts.x509_chain import (
    CERTIFICATES_MAX,
    CHAINS_KEPT,
    COMPARED_MAX,
    KNOWN_CHAINS,
    Chain,
    ChainState,
)


def certificate_of(w: World, chain: int, number: int) -> int:
    """Return the address of a certificate of the message."""
    return chain + Chain.certificates.offset + number * Certificate.SIZE


@model
def x509_note(w: World, chain: int, error: int, number: int) -> None:
    """The first reason is the one that is told."""
    kept = w.view(Chain, chain)
    if not kept.error:
        kept.error, kept.failed = error, number


@model
def x509_chain_read(w: World, chain: int, listed: int, length: int) -> int:
    """RFC 8446 4.4.2: opaque cert_data<1..2^24-1>; Extension extensions<0..2^16-1>."""
    kept, here, end = w.view(Chain, chain), listed, listed + length
    while True:
        if end - here < 3 or w.u8(here):
            return LIST.code
        size = int.from_bytes(w.read(here + 1, 2), "big")
        here += 3
        if end - here < size + 2:
            return LIST.code
        if kept.count == CERTIFICATES_MAX:
            return TOO_MANY.code
        error = x509_parse(w, here, size, certificate_of(w, chain, kept.count))
        if error and not kept.count:
            return error
        if error:
            x509_note(w, chain, error, kept.count)
        kept.count += 1
        here += size
        here += 2 + int.from_bytes(w.read(here, 2), "big")
        if here >= end:
            return 0 if here == end else LIST.code


@model
def x509_known_find(w: World, chain: int) -> int:
    """The same bytes led to an anchor, and nothing on that path has begun or ended since."""
    kept, known = w.view(Chain, chain), w.g(KNOWN_CHAINS)
    wanted, now = bytes(kept.digest), signed(kept.now)
    for place in (known.chains[n] for n in range(CHAINS_KEPT)):
        if not place.used or bytes(place.digest) != wanted:
            continue
        if signed(place.not_before) <= now <= signed(place.not_after):
            known.turn += 1
            place.used = known.turn
            kept.anchor = place.anchor
            known.hits += 1
            return 1
    known.misses += 1
    return 0


@model
def x509_known_keep(w: World, chain: int) -> None:
    """The latest beginning and the earliest end on the path; the place used least recently."""
    kept, known = w.view(Chain, chain), w.g(KNOWN_CHAINS)
    path = [
        w.view(Certificate, certificate_of(w, chain, number))
        for number in kept.path[: kept.depth + 1]
    ]
    ends = [signed(w.view(TrustRecord, kept.anchor).not_after)]
    start = max(signed(c.not_before) for c in path)
    end = min(ends + [signed(c.not_after) for c in path])
    kept.not_before, kept.not_after = start, end
    place = min((known.chains[n] for n in range(CHAINS_KEPT)), key=lambda p: p.used)
    place.digest[:] = bytes(kept.digest)
    place.not_before, place.not_after = start, end
    place.anchor = kept.anchor
    known.turn += 1
    place.used = known.turn


@model
def x509_chain_begin(w: World, chain: int, listed: int, length: int) -> int:
    """Everything about the leaf is judged each time; only the way to an anchor is remembered."""
    kept = w.view(Chain, chain)
    for name in ("error", "failed", "count", "depth", "steps", "signatures", "anchor"):
        setattr(kept, name, 0)
    kept.path[0:4] = kept.anchors[0:4] = bytes(4)
    kept.candidates[0] = 1
    kept.uncompared = COMPARED_MAX
    kept.state = ChainState.FAILED
    leaf = certificate_of(w, chain, 0)
    error = x509_chain_read(w, chain, listed, length)
    error = error or x509_check_leaf(w, leaf, kept.now)
    if not error and not x509_match_host(w, leaf, kept.host, kept.host_len):
        error = NAME.code
    if error:
        kept.error, kept.failed = error, 0
        kept.state = ChainState.FAILED
        return ChainState.FAILED
    work = kept.hash.address_
    sha256_start(w, work)
    sha256_update(w, work, listed, length)
    sha256_finish(w, work, kept.offset_of("digest"))
    kept.state = ChainState.DONE if x509_known_find(w, chain) else ChainState.SEARCH
    return int(kept.state)
