"""The compression of SHA-256: other instructions, the same rule."""

from emulator.effects import World, model
from emulator.models.crypto import sha2
from emulator.models.crypto.sha2 import SHORT


@model
def sha256_blocks_shani(w: World, work: int, blocks: int, count: int) -> int:
    """Mix blocks into the eight words (6.2.2)."""
    return sha2.blocks(w, work, blocks, count, SHORT)
