"""The compression of SHA-256 and SHA-512."""

from emulator.effects import World, model
from emulator.models.crypto import sha2
from emulator.models.crypto.sha2 import LONG, SHORT


@model
def sha256_blocks_base(w: World, work: int, blocks: int, count: int) -> int:
    """Mix blocks into the eight words (6.2.2)."""
    return sha2.blocks(w, work, blocks, count, SHORT)


@model
def sha512_blocks_base(w: World, work: int, blocks: int, count: int) -> int:
    """Mix blocks into the eight words (6.4.2)."""
    return sha2.blocks(w, work, blocks, count, LONG)
