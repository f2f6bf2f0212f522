"""From a leaf to an anchor."""

from typing import Any

from emulator.effects import World, model
from emulator.models.x509.certificate import x509_same
from emulator.models.x509.chain import certificate_of, x509_note
from emulator.models.x509.constraints import x509_constrain
from emulator.models.x509.pins import x509_check_pins
from emulator.models.x509.roles import x509_check_anchor, x509_check_issuer
from emulator.models.x509.trust import x509_anchor_find
from firmware.layouts.trust import TrustRecord
from firmware.layouts.x509 import BUDGET, PIN, UNKNOWN_ISSUER, Certificate
from firmware.layouts.x509_chain import ANCHOR, INTERMEDIATES_MAX, STEPS_MAX, Chain, ChainState


def on_path(w: World, chain: int, place: int) -> Any:  # noqa: ANN401 - a View
    """Return the certificate at a place of the path."""
    return w.view(Certificate, certificate_of(w, chain, w.view(Chain, chain).path[place]))


def _spent(kept: Any, size: int) -> bool:  # noqa: ANN401 - a View
    """Take the bytes of a comparison from the budget; tell whether there were as many."""
    enough = kept.uncompared >= size
    kept.uncompared = kept.uncompared - size if enough else 0
    return bool(enough)


@model
def x509_on_path(w: World, chain: int, certificate: int) -> int:
    """The same subject with the same key would lead nowhere new."""
    mine, kept = w.view(Certificate, certificate), w.view(Chain, chain)
    for place in range(kept.depth, -1, -1):
        if not _spent(kept, mine.subject.size + mine.spki.size):
            return 1
        other = on_path(w, chain, place)
        if all(
            x509_same(w, one.start, one.size, two.start, two.size)
            for one, two in ((mine.subject, other.subject), (mine.spki, other.spki))
        ):
            return 1
    return 0


@model
def x509_constrain_path(w: World, chain: int) -> tuple[int, int]:
    """Each CA constrains everything below it; the anchor everything."""
    kept = w.view(Chain, chain)
    record = w.view(TrustRecord, kept.anchor)
    start = kept.anchor + TrustRecord.SIZE + record.subject_len + record.spki_len
    size, place = record.constraints_len, kept.depth + 1
    while True:
        for below in range(place - 1, -1, -1) if size else ():
            number = kept.path[below]
            of = certificate_of(w, chain, number)
            error, kept.uncompared = x509_constrain(w, of, start, size, kept.uncompared)
            if error:
                return error | number, number
        place -= 1
        if not place:
            return 0, 0
        constraints = on_path(w, chain, place).constraints
        start, size = constraints.start, constraints.size


def _anchor(w: World, chain: int, kept: Any, issuer: Any) -> int | None:  # noqa: ANN401 - Views
    """Try the next anchor of a name: 0 when it completes the path; None when there is none."""
    at = kept.anchors.address + 2 * kept.depth
    missing, record, following = x509_anchor_find(
        w, kept.store, issuer.start, issuer.size, w.u16(at)
    )
    if missing:
        return None
    w.write(at, following.to_bytes(2, "little"))
    kept.anchor = record
    key = kept.anchor_key.address_
    error, number = x509_check_anchor(w, record, kept.now, kept.depth, key), ANCHOR
    if error:
        error |= ANCHOR
    else:
        error, number = x509_constrain_path(w, chain)
        if not error and x509_check_pins(w, chain):
            error, number = PIN.code, 0
    if error:
        x509_note(w, chain, error, number)
    return error


class _UsedUp(Exception):  # noqa: N818 - it ends a search
    """The budget of comparisons has no more."""


def _candidate(w: World, chain: int, kept: Any, issuer: Any) -> int | None:  # noqa: ANN401 - Views
    """Return the next certificate of the message that may be the issuer.

    Raises:
        _UsedUp: Too much would be compared.
    """
    while (number := kept.candidates[kept.depth]) < kept.count:
        kept.candidates[kept.depth] = number + 1
        at = certificate_of(w, chain, number)
        view = w.view(Certificate, at)
        if view.error:
            continue
        subject = view.subject
        if not _spent(kept, issuer.size):
            raise _UsedUp
        if not x509_same(w, issuer.start, issuer.size, subject.start, subject.size):
            continue
        if x509_on_path(w, chain, at):
            if not kept.uncompared:
                raise _UsedUp
            continue
        error = BUDGET.code
        if kept.depth < INTERMEDIATES_MAX:
            error = x509_check_issuer(w, at, kept.now, kept.depth)
        if not error:
            return int(number)
        x509_note(w, chain, error | number, number)
    return None


@model
def x509_chain_next(w: World, chain: int) -> int:
    """Depth first: the anchors of the issuer's name, then the peer's certificates of that name."""
    kept = w.view(Chain, chain)
    error = BUDGET.code
    while True:
        kept.steps += 1
        if kept.steps > STEPS_MAX:
            break
        issuer = on_path(w, chain, kept.depth).issuer
        if not _spent(kept, issuer.size):
            break
        outcome = _anchor(w, chain, kept, issuer)
        if outcome == 0:
            kept.verifying = kept.depth
            kept.state = ChainState.VERIFY
            return ChainState.VERIFY
        if outcome is not None:
            kept.state = ChainState.SEARCH
            return ChainState.SEARCH
        try:
            number = _candidate(w, chain, kept, issuer)
        except _UsedUp:
            break
        if number is not None:
            kept.depth += 1
            kept.path[kept.depth], kept.candidates[kept.depth] = number, 1
            w.write(kept.anchors.address + 2 * kept.depth, bytes(2))
            continue
        kept.depth -= 1
        if kept.depth == 0xFFFF_FFFF:
            error = UNKNOWN_ISSUER.code
            break
    x509_note(w, chain, error, 0)
    kept.state = ChainState.FAILED
    return ChainState.FAILED
