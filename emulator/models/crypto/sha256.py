"""SHA-256."""

from emulator.effects import World, model
from emulator.models.crypto import sha2
from emulator.models.crypto.chosen import sha256_blocks
from emulator.models.crypto.sha2 import SHORT
from firmware.layouts.crypto import SHA256_INITIAL


@model
def sha256_update(w: World, work: int, message: int, length: int) -> None:
    """Append to the message."""
    sha2.update(w, work, message, length, SHORT, sha256_blocks)


@model
def sha256_start(w: World, work: int) -> None:
    """The words of 5.3.3."""
    sha2.start(w, work, SHA256_INITIAL, SHORT)


@model
def sha256_finish(w: World, work: int, digest: int) -> None:
    """The first 32 bytes of the words."""
    sha2.finish(w, work, digest, 32, SHORT, sha256_blocks)
