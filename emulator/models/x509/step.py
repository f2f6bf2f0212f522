"""One signature after the other."""

from emulator.effects import World, model
from emulator.models.x509.chain import x509_known_keep, x509_note
from emulator.models.x509.path import on_path, x509_chain_next
from firmware.layouts.x509 import ALGORITHM, BUDGET, SIGNATURE
from firmware.layouts.x509_chain import SIGNATURES_MAX, Chain, ChainState


@model
def x509_chain_step(w: World, chain: int, good: int) -> tuple[int, int, int]:
    """One signature at a time, from the anchor downwards; a wrong one sends the search on."""
    kept = w.view(Chain, chain)
    error = 0
    if kept.state == ChainState.VERIFY:
        if good != 1:
            error = SIGNATURE.code
        else:
            kept.verifying -= 1
            if kept.verifying == 0xFFFF_FFFF:
                kept.state = ChainState.DONE
                x509_known_keep(w, chain)
    elif kept.state == ChainState.SEARCH:
        x509_chain_next(w, chain)
    while kept.state == ChainState.VERIFY:
        place = kept.verifying
        number = kept.path[place]
        certificate = on_path(w, chain, place)
        if not error and not certificate.signature_algorithm:
            error = ALGORITHM.code
        if error:
            x509_note(w, chain, error | number, number)
            error = 0
            x509_chain_next(w, chain)
            continue
        if kept.signatures == SIGNATURES_MAX:
            x509_note(w, chain, BUDGET.code, 0)
            kept.state = ChainState.FAILED
            break
        kept.signatures += 1
        key = kept.anchor_key if place == kept.depth else on_path(w, chain, place + 1).key
        return ChainState.VERIFY, key.address_, certificate.address_
    return int(kept.state), 0, 0
