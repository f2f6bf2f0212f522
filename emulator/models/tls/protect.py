"""What protects records."""

from emulator.effects import World, model
from emulator.models.crypto.chacha20_poly1305 import (
    chacha20_poly1305_key,
    chacha20_poly1305_open,
    chacha20_poly1305_seal,
)
from emulator.models.crypto.chosen import aes_gcm_key, aes_gcm_open, aes_gcm_seal
from emulator.models.tls.schedule import tls_expand
from emulator.models.tls.transcript import size_of
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import TlsDirection, TlsFlag
from firmware.layouts.tls_schedule import IV, KEY, UPDATE


def _is_chacha(w: World, shard: int) -> bool:
    """Tell whether the suite is TLS_CHACHA20_POLY1305_SHA256 (RFC 8446 B.4)."""
    return bool(w.view(ShardContext, shard).tls.suite == 0x1303)


@model
def tls_make_key(w: World, shard: int, direction: int) -> None:
    """[sender]_write_iv, [sender]_write_key, sequence 0."""
    kept = w.view(TlsDirection, direction)
    secret, size = (
        kept.offset_of("secret"),
        16 if w.view(ShardContext, shard).tls.suite == 0x1301 else 32,
    )
    kept.sequence = 0
    label = w.address(IV)
    tls_expand(w, shard, secret, label, label, 0, kept.offset_of("iv"), 12)
    label = w.address(KEY)
    tls_expand(w, shard, secret, label, label, 0, kept.offset_of("raw"), size)
    make = chacha20_poly1305_key if _is_chacha(w, shard) else aes_gcm_key
    make(w, kept.offset_of("key"), kept.offset_of("raw"), size)
    kept.raw[:] = bytes(32)


@model
def tls_take_secret(w: World, shard: int, direction: int, secret: int) -> None:
    """A copy of the secret, and the keys of it."""
    w.view(TlsDirection, direction).secret[:] = w.read(secret, 48)
    tls_make_key(w, shard, direction)


@model
def tls_next_secret(w: World, shard: int, direction: int) -> None:
    """application_traffic_secret_N+1."""
    secret, label = w.view(TlsDirection, direction).offset_of("secret"), w.address(UPDATE)
    tls_expand(w, shard, secret, label, label, 0, secret, size_of(w, shard))
    tls_make_key(w, shard, direction)


@model
def tls_nonce(w: World, direction: int) -> None:
    """The sequence, padded on the left, XOR the iv."""
    kept = w.view(TlsDirection, direction)
    padded = bytes(4) + int(kept.sequence).to_bytes(8, "big")
    kept.nonce[:] = bytes(a ^ b for a, b in zip(padded, bytes(kept.iv), strict=True))
    kept.sequence += 1


@model
def tls_seal(w: World, shard: int, text: int, length: int) -> None:
    """The five bytes before are the additional data."""
    kept = w.view(ShardContext, shard).tls_keys.send
    tls_nonce(w, kept.address_)
    key, nonce = kept.offset_of("key"), kept.offset_of("nonce")
    seal = chacha20_poly1305_seal if _is_chacha(w, shard) else aes_gcm_seal
    seal(w, key, text, length, nonce, text - 5, 5)


@model
def tls_open(w: World, shard: int, text: int, length: int) -> int:
    """The five bytes before are the additional data."""
    kept = w.view(ShardContext, shard).tls_keys.receive
    tls_nonce(w, kept.address_)
    key, nonce = kept.offset_of("key"), kept.offset_of("nonce")
    opened = chacha20_poly1305_open if _is_chacha(w, shard) else aes_gcm_open
    return int(opened(w, key, text, length, nonce, text - 5, 5))


@model
def tls_erase(w: World, shard: int) -> None:
    """No key is left, nor a flag that says so."""
    context = w.view(ShardContext, shard)
    context.tls.flags &= ~(TlsFlag.OPENING | TlsFlag.SEALING)
    context.tls_keys.wipe()
