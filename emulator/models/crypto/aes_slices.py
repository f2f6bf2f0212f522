"""Sliced AES: eight blocks as planes of bits."""

from typing import Any

from emulator.effects import World, model
from emulator.models.crypto.aes import by_rows, mixed, s_box, shifted
from firmware.layouts.aead import AesGcmSoft


def planes(blocks: list[bytes]) -> tuple[int, ...]:
    """Return eight numbers: bit 8 p + j of number b is bit b of byte p, by rows, of block j."""
    found = [0] * 8
    for j, block in enumerate(blocks):
        for p, byte in enumerate(by_rows(block)):
            for b in range(8):
                found[b] |= (byte >> b & 1) << 8 * p + j
    return tuple(found)


def blocks_of(sliced: tuple[int, ...]) -> list[bytes]:
    """Return the eight blocks of the planes."""
    return [
        by_rows(
            bytes(
                sum((plane >> 8 * p + j & 1) << b for b, plane in enumerate(sliced))
                for p in range(16)
            )
        )
        for j in range(8)
    ]


@model
def aes_sub_soft(
    w: World, b0: int, b1: int, b2: int, b3: int, b4: int, b5: int, b6: int, b7: int
) -> tuple[int, ...]:
    """The S-box of every byte, without the constant of its affine map."""
    blocks = blocks_of((b0, b1, b2, b3, b4, b5, b6, b7))
    return planes([bytes(s_box()[x] ^ 0x63 for x in block) for block in blocks])


def round_key(made: Any, n: int) -> bytes:  # noqa: ANN401 - a view by field
    """Return an entry of the made key by columns; all but the first carry the S-box's 0x63."""
    return by_rows(bytes(made.keys[16 * n : 16 * n + 16]))


@model
def aes_eight_soft(
    w: World,
    key: int,
    b0: int,
    b1: int,
    b2: int,
    b3: int,
    b4: int,
    b5: int,
    b6: int,
    b7: int,
) -> tuple[int, ...]:
    """The cipher of eight blocks, a call of the S-box in each round."""
    made = w.view(AesGcmSoft, key)
    blocks = [n.to_bytes(16, "little") for n in (b0, b1, b2, b3, b4, b5, b6, b7)]

    def add(n: int) -> None:
        extra = round_key(made, n)
        blocks[:] = [bytes(x ^ k for x, k in zip(b, extra, strict=True)) for b in blocks]

    add(0)
    for n in range(1, made.rounds + 1):
        blocks[:] = [shifted(b) for b in blocks_of(aes_sub_soft(w, *planes(blocks)))]
        if n < made.rounds:
            blocks[:] = [mixed(b) for b in blocks]
        add(n)
    return tuple(int.from_bytes(b, "little") for b in blocks)
