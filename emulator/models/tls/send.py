"""Records of ours."""

from emulator.effects import World, model
from emulator.models.tcp.reliable import tcp_commit, tcp_reserve
from emulator.models.tls.protect import tls_next_secret, tls_seal
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import TlsFlag, TlsState

_COST = 5 + 1 + 16


@model
def tls_reserve_record(w: World, shard: int, length: int) -> tuple[int, int]:
    """Room for header, type and tag as well."""
    at, full = tcp_reserve(w, shard, length + _COST)
    return (at if full else at + 5), full


@model
def tls_commit_record(w: World, shard: int, kind: int, length: int) -> None:
    """TLSCiphertext with keys, TLSPlaintext without."""
    context = w.view(ShardContext, shard)
    at, tls = context.tx_base + context.tcp.tx_end, context.tls
    if tls.flags & TlsFlag.SEALING:
        w.write(at + 5 + length, bytes([kind]))
        w.write(at, b"\x17\x03\x03" + (length + 17).to_bytes(2, "big"))
        tls_seal(w, shard, at + 5, length + 1)
        tcp_commit(w, shard, length + _COST)
        return
    version = b"\x03\x01" if tls.state == TlsState.IDLE else b"\x03\x03"
    w.write(at, bytes([kind]) + version + length.to_bytes(2, "big"))
    tcp_commit(w, shard, length + 5)


@model
def tls_alert(w: World, shard: int, alert: int) -> int:
    """Two bytes; only close_notify is a warning."""
    at, full = tls_reserve_record(w, shard, 2)
    if not full:
        w.write(at, bytes([2 if alert else 1, alert]))
        tls_commit_record(w, shard, 21, 2)
    return full


@model
def tls_change_cipher_spec(w: World, shard: int) -> int:
    """Once."""
    tls = w.view(ShardContext, shard).tls
    if tls.flags & TlsFlag.CCS_SENT:
        return 0
    at, full = tcp_reserve(w, shard, 6)
    if not full:
        w.write(at, b"\x14\x03\x03\x00\x01\x01")
        tls.flags |= TlsFlag.CCS_SENT
        tcp_commit(w, shard, 6)
    return full


@model
def tls_update_keys(w: World, shard: int) -> int:
    """KeyUpdate under the old key; the next record is under the new one."""
    at, full = tls_reserve_record(w, shard, 5)
    if not full:
        context = w.view(ShardContext, shard)
        w.write(at, b"\x18\x00\x00\x01\x00")
        tls_commit_record(w, shard, 22, 5)
        tls_next_secret(w, shard, context.tls_keys.send.address_)
        context.tls.flags &= ~TlsFlag.KEY_UPDATE_OWED
    return full
