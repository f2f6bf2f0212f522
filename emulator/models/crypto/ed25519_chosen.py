"""Ed25519 by the variant that boot chose."""

from emulator.effects import World, model
from emulator.models.crypto.chosen import level_of
from emulator.models.crypto.ed25519 import ED25519_MODELS


@model
def ed25519_key(w: World, out: int, seed: int) -> None:
    """RFC 8032 5.1.5."""
    ED25519_MODELS[level_of(w, "ed25519")][0](w, out, seed)


@model
def ed25519_sign(w: World, out: int, key: int, message: int, length: int) -> None:
    """RFC 8032 5.1.6."""
    ED25519_MODELS[level_of(w, "ed25519")][1](w, out, key, message, length)
