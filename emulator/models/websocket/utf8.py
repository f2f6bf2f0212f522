"""UTF-8 over a stream, by the ranges of RFC 3629 section 4."""

from emulator.effects import World, model
from firmware.websocket.utf8 import (
    ACCEPT,
    AFTER_E0,
    AFTER_ED,
    AFTER_F0,
    AFTER_F4,
    COLUMNS,
    ONE,
    REJECT,
    THREE,
    TWO,
)

# What may follow a state: ranges of the next byte, and the state after it.
_FOLLOW = {
    ONE: ((0x80, 0xBF, ACCEPT),),
    TWO: ((0x80, 0xBF, ONE),),
    THREE: ((0x80, 0xBF, TWO),),
    AFTER_E0: ((0xA0, 0xBF, ONE),),
    AFTER_ED: ((0x80, 0x9F, ONE),),
    AFTER_F0: ((0x90, 0xBF, TWO),),
    AFTER_F4: ((0x80, 0x8F, TWO),),
    ACCEPT: (
        (0x00, 0x7F, ACCEPT), (0xC2, 0xDF, ONE), (0xE0, 0xE0, AFTER_E0), (0xE1, 0xEC, TWO),
        (0xED, 0xED, AFTER_ED), (0xEE, 0xEF, TWO), (0xF0, 0xF0, AFTER_F0), (0xF1, 0xF3, THREE),
        (0xF4, 0xF4, AFTER_F4),
    ),
    REJECT: (),
}  # fmt: skip


def advance(state: int, text: bytes) -> int:
    """Return the state, as the routine numbers it, after more bytes."""
    row = state // COLUMNS
    for byte in text:
        row = next((to for low, high, to in _FOLLOW[row] if low <= byte <= high), REJECT)
    return row * COLUMNS


@model
def utf8_check(w: World, text: int, length: int, state: int) -> int:
    """Carry the check over the bytes."""
    return advance(state, w.read(text, length))
