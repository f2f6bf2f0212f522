"""Whose the sessions of this node are."""

from emulator.effects import World, model
from emulator.models.crypto.sha256 import sha256_finish, sha256_start, sha256_update
from emulator.models.websocket.request import ws_base
from firmware.layouts.config import CONFIG
from firmware.layouts.crypto import HASH
from firmware.layouts.discovery import DISCOVERY, DiscoveryMode, DiscoveryState
from firmware.layouts.sessions import SESSIONS
from firmware.layouts.token import TOKEN


def _hash(w: World, text: int, length: int) -> bytes:
    """Return the first half of the SHA-256 of a text."""
    state, work = w.g(SESSIONS), w.g(HASH).address_
    sha256_start(w, work)
    sha256_update(w, work, text, length)
    sha256_finish(w, work, state.offset_of("digest"))
    return bytes(state.digest[:16])


@model
def session_identity(w: World) -> int:
    """Each digest is made once; that of the endpoint when the gateway is known."""
    state, config, token = w.g(SESSIONS), w.g(CONFIG), w.g(TOKEN)
    if not state.bot_known:
        state.bot_known = 1
        state.bot[:] = _hash(w, token.offset_of("text"), token.length)
    if not state.endpoint_known:
        static = config.discovery == DiscoveryMode.STATIC
        if not static and w.g(DISCOVERY).state != DiscoveryState.FOUND:
            return 1
        state.endpoint_known = 1
        host, length, port, _path, _size = ws_base(w)
        state.place[:length] = w.read(host, length)
        state.place[length : length + 2] = port.to_bytes(2, "little")
        state.endpoint[:] = _hash(w, state.offset_of("place"), length + 2)
    return 0
