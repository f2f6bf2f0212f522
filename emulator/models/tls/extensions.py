"""The extensions of a server's message."""

from emulator.effects import World, model
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import Extension
from firmware.layouts.tls_arena import FOUND_TYPES, Place, TlsArena
from firmware.layouts.tls_sites import EXTENSION_MISPLACED, EXTENSION_TWICE, EXTENSION_UNSOLICITED

_E = Extension
# RFC 8446 4.2, the table: what of ours each message may answer.
_MAY = {
    Place.SERVER_HELLO: {_E.SUPPORTED_VERSIONS, _E.KEY_SHARE},
    Place.RETRY: {_E.SUPPORTED_VERSIONS, _E.KEY_SHARE, _E.COOKIE},
    Place.ENCRYPTED: {_E.SERVER_NAME, _E.ALPN, _E.SUPPORTED_GROUPS},
    Place.ENTRY: set(),
}
_OURS = {
    _E.SERVER_NAME,
    _E.SUPPORTED_GROUPS,
    _E.SIGNATURE_ALGORITHMS,
    _E.ALPN,
    _E.SUPPORTED_VERSIONS,
    _E.KEY_SHARE,
}


@model
def tls_extensions(w: World, shard: int, first: int, length: int, place: int) -> tuple[int, int]:
    """Rows of what is there; of the bad ones the first counts."""
    arena = w.view(TlsArena, w.view(ShardContext, shard).tls.arena_ptr)
    w.write(arena.offset_of("found"), bytes(8 * FOUND_TYPES))
    data, at, error = w.read(first, length) if length else b"", 0, 0
    seen: set[int] = set()
    while at < length:
        if at + 4 > length:
            return 1, error
        kind, size = (int.from_bytes(data[at + n : at + n + 2], "big") for n in (0, 2))
        if at + 4 + size > length:
            return 1, error
        wrong = None
        if kind in seen and kind < FOUND_TYPES:
            wrong = EXTENSION_TWICE
        else:
            if kind < FOUND_TYPES:
                row = arena.found[kind]
                row.offset, row.length = first + at + 4 - arena.address_, size
            if place != Place.REQUEST and kind not in _MAY[Place(place)]:
                wrong = EXTENSION_MISPLACED if kind in _OURS else EXTENSION_UNSOLICITED
        seen.add(kind)
        if wrong is not None and not error:
            error = wrong.code | kind
        at += 4 + size
    return 0, error
