"""SHA-384 and SHA-512."""

from emulator.effects import World, model
from emulator.models.crypto import sha2
from emulator.models.crypto.chosen import sha512_blocks
from emulator.models.crypto.sha2 import LONG
from firmware.layouts.crypto import SHA384_INITIAL, SHA512_INITIAL


@model
def sha512_update(w: World, work: int, message: int, length: int) -> None:
    """Append to the message."""
    sha2.update(w, work, message, length, LONG, sha512_blocks)


@model
def sha384_start(w: World, work: int) -> None:
    """The words of 5.3.4."""
    sha2.start(w, work, SHA384_INITIAL, LONG)


@model
def sha384_finish(w: World, work: int, digest: int) -> None:
    """The first 48 bytes of the words."""
    sha2.finish(w, work, digest, 48, LONG, sha512_blocks)


@model
def sha512_start(w: World, work: int) -> None:
    """The words of 5.3.5."""
    sha2.start(w, work, SHA512_INITIAL, LONG)


@model
def sha512_finish(w: World, work: int, digest: int) -> None:
    """The first 64 bytes of the words."""
    sha2.finish(w, work, digest, 64, LONG, sha512_blocks)
