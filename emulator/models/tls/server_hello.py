"""ServerHello and HelloRetryRequest, judged by RFC 8446 4.1.3 and 4.1.4."""

from emulator.effects import View, World, model
from emulator.models.tls.extensions import tls_extensions
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import COOKIE_MAX, Extension, HandshakeType
from firmware.layouts.tls_arena import RETRY_RANDOM, SUITES, TlsArena
from firmware.layouts.tls_sites import (
    COMPRESSION,
    COOKIE_TOO_LONG,
    DOWNGRADE,
    GROUP,
    KEY_SHARE,
    KEY_SHARE_MISSING,
    MESSAGE_FORM,
    RETRY_SUITE,
    RETRY_UNCHANGED,
    SESSION_ID,
    SUITE,
    VERSION,
    VERSION_SELECTED,
)

_HELLO_FORM = MESSAGE_FORM.code | HandshakeType.SERVER_HELLO
_RETRY_FORM = MESSAGE_FORM.code | HandshakeType.HELLO_RETRY_REQUEST
# RFC 8446 4.2.8.2, RFC 7748 6.1, draft-ietf-tls-ecdhe-mlkem: bytes of a server's share.
_SHARES = {0x001D: 32, 0x0017: 65, 0x11EC: 1120}


def number(data: bytes) -> int:
    """Return a number as the wire has it."""
    return int.from_bytes(data, "big")


def value_of(w: World, arena: View, kind: int) -> bytes | None:
    """Return the value of an extension of the message in hand; None when it is not there."""
    row = arena.found[kind]
    offset, length = row.offset, row.length
    if not offset:
        return None
    return w.read(arena.address_ + offset, length) if length else b""


@model
def tls_is_retry(w: World, body: int, length: int) -> int:
    """The random stands behind the version."""
    return int(length >= 34 and w.read(body + 2, 32) == RETRY_RANDOM)


@model
def tls_judge_hello(w: World, shard: int, body: int, length: int, place: int) -> int:
    """Structure, version, what must be returned, then the extensions."""
    tls = w.view(ShardContext, shard).tls
    arena = w.view(TlsArena, tls.arena_ptr)
    data = w.read(body, length) if length else b""
    if length < 38 or data[34] > 32 or length < 38 + data[34]:
        return _HELLO_FORM
    at = 35 + data[34]
    suite, compression, block = number(data[at : at + 2]), data[at + 2], data[at + 3 :]
    if block and (len(block) < 2 or number(block[:2]) != len(block) - 2):
        return _HELLO_FORM
    size, start = max(len(block) - 2, 0), body + at + 3 + (2 if block else 0)
    broken, error = tls_extensions(w, shard, start, size, place)
    if broken:
        return _HELLO_FORM
    version, chosen = number(data[:2]), value_of(w, arena, Extension.SUPPORTED_VERSIONS)
    if chosen is None:
        marked = data[26:33] == b"DOWNGRD" and data[33] in (0, 1)
        return DOWNGRADE.code if marked else VERSION.code | version
    if len(chosen) != 2:
        return _HELLO_FORM
    if number(chosen) != 0x0304:
        return VERSION_SELECTED.code | number(chosen)
    if version != 0x0303:
        return VERSION.code | version
    if data[35:at] != bytes(arena.session_id):
        return SESSION_ID.code
    if suite not in SUITES:
        return SUITE.code | suite
    if arena.retry_suite not in (0, suite):
        return RETRY_SUITE.code
    if compression:
        return COMPRESSION.code
    if error:
        return error
    tls.suite = suite
    return 0


@model
def tls_take_share(w: World, shard: int) -> int:
    """The group of our share, and exactly its bytes."""
    tls = w.view(ShardContext, shard).tls
    arena = w.view(TlsArena, tls.arena_ptr)
    value = value_of(w, arena, Extension.KEY_SHARE)
    if value is None:
        return KEY_SHARE_MISSING.code
    if len(value) < 4 or number(value[2:4]) != len(value) - 4:
        return _HELLO_FORM
    group, share = number(value[:2]), value[4:]
    if group not in _SHARES or group not in (arena.share_group, arena.second_group):
        return GROUP.code | group
    if len(share) != _SHARES[group]:
        return KEY_SHARE.code
    tls.group = group
    arena.peer_share[: len(share)] = share
    return 0


@model
def tls_take_retry(w: World, shard: int) -> tuple[int, int]:
    """Another group that we offered, a cookie, or both; the suite has to stay."""
    tls = w.view(ShardContext, shard).tls
    arena = w.view(TlsArena, tls.arena_ptr)
    share, cookie = (value_of(w, arena, k) for k in (Extension.KEY_SHARE, Extension.COOKIE))
    group = 0
    if share is not None:
        if len(share) != 2:
            return _RETRY_FORM, 0
        group = number(share)
        offered = _SHARES.keys() - (set() if arena.hybrid else {0x11EC})
        if group not in offered - {arena.share_group, arena.second_group}:
            return GROUP.code | group, 0
    if cookie is None:
        if not group:
            return RETRY_UNCHANGED.code, 0
    else:
        if len(cookie) < 3 or number(cookie[:2]) != len(cookie) - 2:
            return _RETRY_FORM, group
        if len(cookie) - 2 > COOKIE_MAX:
            return COOKIE_TOO_LONG.code, group
        arena.cookie_len = len(cookie) - 2
        arena.cookie[: len(cookie) - 2] = cookie[2:]
    arena.retry_suite = tls.suite
    return 0, group
