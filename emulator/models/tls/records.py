"""Records of the server, by RFC 8446 5."""

from emulator.effects import World, model
from emulator.models.tcp.ring import tcp_readable
from emulator.models.tls.fail import refuse
from emulator.models.tls.protect import tls_open
from firmware.errors import Site
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import TlsFlag, TlsState
from firmware.layouts.tls_sites import (
    ALERT_FORM,
    BAD_RECORD_MAC,
    CHANGE_CIPHER_SPEC,
    RECORD_EMPTY,
    RECORD_NO_ROOM,
    RECORD_OVERFLOW,
    RECORD_TYPE,
)
from firmware.limits import RING_BYTES

_NONE = 1, 0, 0, 0, 0
_CCS, _ALERT, _HANDSHAKE, _DATA = 20, 21, 22, 23


def _header_problem(tls: object, kind: int, size: int) -> tuple[Site, int] | None:
    """Return why a record may not come, by its header alone."""
    state, flags = tls.state, tls.flags  # type: ignore[attr-defined]  # a View
    if kind == _CCS:
        if state >= TlsState.CONNECTED:
            return RECORD_TYPE, kind
        return None if size == 1 else (CHANGE_CIPHER_SPEC, 0)
    early = kind == _ALERT and state == TlsState.WAIT_EXTENSIONS
    if flags & TlsFlag.OPENING and not early:
        if kind != _DATA:
            return RECORD_TYPE, kind
        if size > 2**14 + 256:
            return RECORD_OVERFLOW, 0
        return (BAD_RECORD_MAC, 0) if size < 17 else None
    if kind not in (_ALERT, _HANDSHAKE):
        return RECORD_TYPE, kind
    return (RECORD_OVERFLOW, 0) if size > 2**14 else None


def _content_problem(state: int, kind: int, size: int) -> tuple[Site, int] | None:
    """Return why a content may not come."""
    if kind == _DATA:
        return None if state == TlsState.CONNECTED else (RECORD_TYPE, kind)
    if not size:
        return RECORD_EMPTY, 0
    if kind == _ALERT:
        return None if size == 2 else (ALERT_FORM, 0)
    return None if kind == _HANDSHAKE else (RECORD_TYPE, kind)


@model
def tls_next_record(w: World, shard: int) -> tuple[int, int, int, int, int]:
    """Header, room, tag, padding, content: the first that is wrong ends it."""
    tls = w.view(ShardContext, shard).tls
    first, readable = tcp_readable(w, shard)
    at, left = tls.plain_left + tls.gap, readable - tls.plain_left - tls.gap
    if left < 5:
        return _NONE
    header = w.read(first + at, 5)
    kind, size = header[0], int.from_bytes(header[3:], "big")
    problem = _header_problem(tls, kind, size)
    if problem is None and at + 5 + size > RING_BYTES:
        problem = RECORD_NO_ROOM, 0
    if problem is not None:
        refuse(w, shard, *problem)
        return _NONE
    first, readable = tcp_readable(w, shard)
    if readable < at + 5 + size:
        return _NONE
    content, length = first + at + 5, size
    if kind == _CCS:
        if w.read(content, 1) != b"\x01":
            refuse(w, shard, CHANGE_CIPHER_SPEC)
            return _NONE
        return 0, _CCS, content, 1, 6
    if kind == _DATA:
        if tls_open(w, shard, content, size - 16):
            refuse(w, shard, BAD_RECORD_MAC)
            return _NONE
        if size - 16 > 2**14 + 1:
            refuse(w, shard, RECORD_OVERFLOW)
            return _NONE
        inner = w.read(content, size - 16).rstrip(b"\0")
        if not inner:
            refuse(w, shard, RECORD_EMPTY)
            return _NONE
        kind, length = inner[-1], len(inner) - 1
    problem = _content_problem(tls.state, kind, length)
    if problem is not None:
        refuse(w, shard, *problem)
        return _NONE
    return 0, kind, content, length, 5 + size
