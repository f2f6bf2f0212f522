"""Ed25519 by the variant that boot chose; apart from the other families, because it hashes with theirs."""

from firmware.abi import CALLER_SAVED
from firmware.crypto.chosen import leave_to
from firmware.crypto.ed25519 import (
    ed25519_key_adx,
    ed25519_key_base,
    ed25519_sign_adx,
    ed25519_sign_base,
)
from firmware.layouts.variants import VARIANTS, Variants
from toolchain.asm import Asm, Reg32, Reg64, routine

_SOURCE = "firmware/docs/tls.md#variants"


@routine(
    inputs=ed25519_key_adx.contract.inputs,
    clobbers=CALLER_SAVED,
    reads=[Variants.ed25519],
    calls=[ed25519_key_adx, ed25519_key_base],
    source=_SOURCE,
)
def ed25519_key(a: Asm, out: Reg64, seed: Reg64) -> None:
    """Make the key of a seed."""
    leave_to(a, VARIANTS.it.ed25519, ed25519_key_adx, ed25519_key_base)


@routine(
    inputs=ed25519_sign_adx.contract.inputs,
    clobbers=CALLER_SAVED,
    reads=[Variants.ed25519],
    calls=[ed25519_sign_adx, ed25519_sign_base],
    source=_SOURCE,
)
def ed25519_sign(a: Asm, out: Reg64, key: Reg64, message: Reg64, length: Reg32) -> None:
    """Sign a message."""
    leave_to(a, VARIANTS.it.ed25519, ed25519_sign_adx, ed25519_sign_base)
