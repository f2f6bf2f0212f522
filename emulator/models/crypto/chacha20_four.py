"""Four blocks of ChaCha20."""

from typing import Any

from emulator.effects import World, model
from emulator.models.crypto.chacha20 import key_stream
from firmware.layouts.aead import ChaChaPoly


def four_blocks(work: Any) -> bytes:  # noqa: ANN401 - a view by field
    """Return the key stream of four counters in a row, and count them in the matrix."""
    rows, counter = bytes(work.matrix[:48]), int.from_bytes(work.matrix[48:52], "little")
    nonce = bytes(work.matrix[52:64])
    counters = [(counter + n) % 2**32 for n in range(5)]
    work.matrix[48:64] = counters[4].to_bytes(4, "little") + nonce
    return b"".join(key_stream(rows + n.to_bytes(4, "little") + nonce) for n in counters[:4])


@model
def chacha20_four(w: World, key: int) -> None:
    """Four blocks lie in the work space."""
    work = w.view(ChaChaPoly, key)
    work.stream[:] = four_blocks(work)
