"""AES-GCM without AES-NI: seal, open."""

from emulator.effects import World, model
from emulator.models.crypto.aead import added, store
from emulator.models.crypto.aes_slices import aes_eight_soft
from emulator.models.crypto.ghash_soft import ghash_soft


class _Running:
    """Key stream and hash of one text."""

    def __init__(self, w: World, key: int, nonce: int) -> None:
        self._w, self._key, self._nonce = w, key, w.read(nonce, 12)
        self._counter, self._stream, self.hash = 1, b"", 0

    def absorb(self, part: bytes) -> None:
        """Hash the part, filled up with zeros to whole blocks."""
        for at in range(0, len(part), 16):
            block = int.from_bytes(part[at : at + 16].ljust(16, b"\0"), "big")
            mixed = self.hash ^ block
            high, low = ghash_soft(self._w, self._key, mixed >> 64, mixed & (1 << 64) - 1)
            self.hash = high << 64 | low

    def stream(self, size: int) -> bytes:
        """Return the next bytes of key stream, of one block at most; eight are made at a time."""
        if not self._stream:
            counters = range(self._counter, self._counter + 8)
            blocks = [self._nonce + n.to_bytes(4, "big") for n in counters]
            numbers = (int.from_bytes(block, "little") for block in blocks)
            made = aes_eight_soft(self._w, self._key, *numbers)
            self._stream = b"".join(n.to_bytes(16, "little") for n in made)
            self._counter += 8
        found, self._stream = self._stream[:16], self._stream[16:]
        return found[:size]


def _worked(
    w: World, key: int, text: int, length: int, nonce: int, aad: bytes, *, seal: bool
) -> bytes:
    """Cipher the text in place; return its tag."""
    running = _Running(w, key, nonce)
    running.absorb(aad)
    first = running.stream(16)
    for at in range(text, text + length, 16):
        part = w.read(at, min(16, text + length - at))
        made = added(part, running.stream(len(part)))
        store(w, at, made)
        running.absorb(made if seal else part)
    running.absorb((8 * len(aad)).to_bytes(8, "big") + (8 * length).to_bytes(8, "big"))
    return added(running.hash.to_bytes(16, "big"), first)


@model
def aes_gcm_seal_soft(
    w: World, key: int, text: int, length: int, nonce: int, aad: int, aad_length: int
) -> None:
    """Ciphertext in place, tag behind it."""
    tag = _worked(w, key, text, length, nonce, w.read(aad, aad_length), seal=True)
    w.write(text + length, tag)


@model
def aes_gcm_decrypt_soft(
    w: World, key: int, text: int, length: int, nonce: int, aad: int, aad_length: int
) -> int:
    """Plaintext in place; whether the tag is wrong."""
    told = w.read(text + length, 16)
    return int(_worked(w, key, text, length, nonce, w.read(aad, aad_length), seal=False) != told)


@model
def aes_gcm_open_soft(
    w: World, key: int, text: int, length: int, nonce: int, aad: int, aad_length: int
) -> int:
    """Plaintext, or zeros."""
    wrong = aes_gcm_decrypt_soft(w, key, text, length, nonce, aad, aad_length)
    if wrong:
        w.write(text, bytes(length))
    return wrong
