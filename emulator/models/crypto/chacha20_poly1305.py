"""ChaCha20-Poly1305 by RFC 8439 2.8."""

from typing import Any

from emulator.effects import World, model
from emulator.models.crypto import poly1305
from emulator.models.crypto.aead import added, store
from emulator.models.crypto.chacha20_four import chacha20_four, four_blocks
from firmware.layouts.aead import ChaChaPoly


@model
def chacha20_poly1305_key(w: World, key: int, raw: int, size: int) -> None:
    """Constants and key, as rows."""
    w.view(ChaChaPoly, key).matrix[:48] = b"expand 32-byte k" + w.read(raw, 32)


def _padded(part: bytes) -> bytes:
    return part + bytes(-len(part) % 16)


def _tag(key: bytes, aad: bytes, ciphertext: bytes) -> bytes:
    lengths = len(aad).to_bytes(8, "little") + len(ciphertext).to_bytes(8, "little")
    return poly1305.tag(key, _padded(aad) + _padded(ciphertext) + lengths)


def _begun(w: World, key: int, nonce: int) -> tuple[Any, bytes]:
    """Make the first four blocks; return the work space and the key of Poly1305 (2.6)."""
    work = w.view(ChaChaPoly, key)
    work.matrix[48:64] = bytes(4) + w.read(nonce, 12)
    chacha20_four(w, key)
    work.pad[:] = work.stream[16:32]
    return work, bytes(work.stream[:32])


def _ciphered(w: World, key: int, text: int, length: int, *, ahead: bool) -> None:
    """Add the key stream: three blocks, then four at a time.

    What is not a whole four comes from a call; with `ahead`, so does the first whole four.
    """
    work = w.view(ChaChaPoly, key)
    stream, end = bytes(work.stream[64:256]), text + length
    while True:
        part = w.read(text, min(len(stream), end - text))
        store(w, text, added(part, stream))
        text += len(part)
        if text == end:
            return
        if end - text < 256 or ahead:
            chacha20_four(w, key)
            stream, ahead = bytes(work.stream), False
        else:
            stream = four_blocks(work)


def _wipe(work: Any) -> None:  # noqa: ANN401 - a view by field
    work.stream[:] = bytes(256)
    work.pad[:] = bytes(16)


@model
def chacha20_poly1305_seal(
    w: World, key: int, text: int, length: int, nonce: int, aad: int, aad_length: int
) -> None:
    """Ciphertext in place, tag behind it."""
    work, once = _begun(w, key, nonce)
    _ciphered(w, key, text, length, ahead=length >= 192 + 256)
    w.write(text + length, _tag(once, w.read(aad, aad_length), w.read(text, length)))
    _wipe(work)


@model
def chacha20_poly1305_decrypt(
    w: World, key: int, text: int, length: int, nonce: int, aad: int, aad_length: int
) -> int:
    """Plaintext in place; whether the tag is wrong."""
    given, told = w.read(text, length), w.read(text + length, 16)
    work, once = _begun(w, key, nonce)
    _ciphered(w, key, text, length, ahead=False)
    _wipe(work)
    return int(_tag(once, w.read(aad, aad_length), given) != told)


@model
def chacha20_poly1305_open(
    w: World, key: int, text: int, length: int, nonce: int, aad: int, aad_length: int
) -> int:
    """Plaintext, or zeros."""
    wrong = chacha20_poly1305_decrypt(w, key, text, length, nonce, aad, aad_length)
    if wrong:
        w.write(text, bytes(length))
    return wrong
