"""Outgoing frames."""

from emulator.effects import World, model
from emulator.models.crypto.drbg import drbg_u64
from emulator.models.tls.transport import tls_commit, tls_reserve
from firmware.layouts.shard import ShardContext


def _header(first: int, length: int) -> bytes:
    """Return the header of a masked frame without its key (RFC 6455 5.2)."""
    if length <= 125:
        return bytes([first, 0x80 | length])
    if length <= 0xFFFF:
        return bytes([first, 0x80 | 126]) + length.to_bytes(2, "big")
    return bytes([first, 0x80 | 127]) + length.to_bytes(8, "big")


@model
def ws_begin(w: World, shard: int, length: int) -> tuple[int, int]:
    """Reserve header and payload together; the payload lies behind the header."""
    ws = w.view(ShardContext, shard).websocket
    ws.tx_header = len(_header(0, length)) + 4
    frame, full = tls_reserve(w, shard, length + ws.tx_header)
    if full:
        return frame, 1
    ws.tx_frame = frame
    return frame + ws.tx_header, 0


@model
def ws_finish(w: World, shard: int, length: int, first: int) -> None:
    """Header, key, masked payload, commit."""
    ws = w.view(ShardContext, shard).websocket
    key = (drbg_u64(w) & 0xFFFF_FFFF).to_bytes(4, "little")
    payload = w.read(ws.tx_frame + ws.tx_header, length)
    masked = bytes(b ^ key[n % 4] for n, b in enumerate(payload))
    w.write(ws.tx_frame, _header(first, length) + key + masked)
    tls_commit(w, shard, length + ws.tx_header)
