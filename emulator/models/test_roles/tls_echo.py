"""The TLS echo role."""

from emulator.effects import World, model
from emulator.models.tls.stream import tls_ended
from emulator.models.tls.transport import (
    tls_commit,
    tls_consume,
    tls_more,
    tls_readable,
    tls_reserve,
)
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import TlsState
from firmware.layouts.tls_echo import ECHO_RECORD_MAX, SHORT_RUN, STORE_MAX, TLS_ECHO
from firmware.layouts.tls_pool import TLS_POOL
from firmware.layouts.trust import TrustStore
from firmware.layouts.x509_chain import KNOWN_CHAINS, KnownChains


@model
def tls_echo_trust(w: World, store: int, length: int) -> int:
    """A whole trust store takes the place of the node's; what was known of chains is not any more."""
    if not TrustStore.SIZE <= length <= STORE_MAX:
        return 1
    if w.read(store, 4) != b"TRST" or w.view(TrustStore, store).size != length:
        return 1
    where = w.g(TLS_ECHO).offset_of("store")
    w.write(where, w.read(store, length))
    w.g(TLS_POOL).trust = where
    w.write(w.g(KNOWN_CHAINS).address_, bytes(KnownChains.SIZE))
    return 0


@model
def tls_echo_say(w: World, shard: int) -> int:
    """Say the text as one record, when there is one and it finds room."""
    echo = w.g(TLS_ECHO)
    size = echo.say_len
    if not size:
        return 0
    where, full = tls_reserve(w, shard, size)
    if full:
        return 1
    w.write(where, bytes(echo.say[:size]))
    tls_commit(w, shard, size)
    echo.say_len = 0
    return 0


@model
def tls_echo_poll(w: World, shard: int) -> int:
    """Every byte comes back turned, in records of at most 4096; what finds no room stays unread.

    Behind the server's end nothing is sent.
    """
    echo = w.g(TLS_ECHO)
    while True:
        start, size = tls_readable(w, shard)
        if size < SHORT_RUN:
            tls_more(w, shard)
            start, size = tls_readable(w, shard)
        if not size:
            break
        size = min(size, ECHO_RECORD_MAX)
        if not echo.quiet:
            where, full = tls_reserve(w, shard, size)
            if full:
                return int(w.view(ShardContext, shard).tls.state != TlsState.ENDED)
            w.write(where, bytes(byte ^ 0xFF for byte in w.read(start, size)))
            tls_commit(w, shard, size)
        echo.received += size
        tls_consume(w, shard, size)
    if echo.limit and echo.received >= echo.limit:
        return 0
    return tls_ended(w, shard)
