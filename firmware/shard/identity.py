"""Whose the sessions of this node are: the digests of its bot and of its endpoint."""

from firmware.abi import CALLER_SAVED
from firmware.crypto.sha256 import sha256_finish, sha256_start, sha256_update
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.crypto import HASH
from firmware.layouts.discovery import DISCOVERY, Discovery, DiscoveryMode, DiscoveryState
from firmware.layouts.sessions import DIGEST_BYTES, SESSIONS, Sessions
from firmware.layouts.token import TOKEN, BotToken
from firmware.websocket.request import ws_base
from toolchain.asm import CF, DX, ECX, NE, R8, R12, R12D, RAX, RDI, RSI, Asm, E, Out, routine

QUADS = range(0, DIGEST_BYTES, 8)
"""Offsets of a digest's quadwords."""


def _digest(a: Asm) -> None:
    """Hash R12D bytes at RSI."""
    a.lea(RDI, HASH.address)
    a.call(sha256_start)
    a.mov(ECX, R12D)
    a.call(sha256_update)
    a.lea(RDI, HASH.address)
    a.lea(RSI, SESSIONS.it.digest.address)
    a.call(sha256_finish)


@routine(
    outputs=[Out(CF, "1 = the gateway is still to be discovered, so `endpoint` is not made")],
    clobbers=CALLER_SAVED,
    reads=[
        BotToken.length,
        ConfigBlob.discovery,
        Discovery.state,
        Sessions.digest,
        Sessions.bot_known,
        Sessions.endpoint_known,
    ],
    writes=[
        Sessions.bot,
        Sessions.bot_known,
        Sessions.endpoint,
        Sessions.endpoint_known,
        Sessions.place,
        Sessions.digest,
    ],
    calls=[sha256_start, sha256_update, sha256_finish, ws_base],
    saves=[R12],
    source="firmware/docs/lifecycle.md#session-snapshots",
)
def session_identity(a: Asm) -> None:
    """Make the digests that tell this bot and this endpoint from others, once."""
    state, known, unknown = SESSIONS.it, a.label("known"), a.label("unknown")
    a.cmp(state.bot_known, 0)
    with a.if_(E):
        a.mov(state.bot_known, 1)
        a.lea(RSI, TOKEN.it.text.address)
        a.mov(R12D, TOKEN.it.length)
        _digest(a)
        for at in QUADS:  # unrolled: two quadwords
            a.mov(RAX, state.digest.m64(at))
            a.mov(state.bot.m64(at), RAX)
    a.cmp(state.endpoint_known, 0)
    a.j(NE, known)
    a.cmp(CONFIG.it.discovery, DiscoveryMode.STATIC)
    with a.if_(NE):
        a.cmp(DISCOVERY.it.state, DiscoveryState.FOUND)
        a.j(NE, unknown)
    a.mov(state.endpoint_known, 1)
    a.call(ws_base)
    a.mov(R12D, ECX)
    a.lea(R8, state.place.address)
    a.mov(RDI, R8)
    a.rep_movsb()
    a.mov(Sessions.at(R8, -Sessions.place.offset).place.m16(index=R12), DX)
    a.lea(RSI, state.place.address)
    a.add(R12D, 2)
    _digest(a)
    for at in QUADS:  # unrolled: two quadwords
        a.mov(RAX, state.digest.m64(at))
        a.mov(state.endpoint.m64(at), RAX)
    a.place(known)
    a.clc()
    a.ret()
    a.place(unknown)
    a.stc()
    a.ret()
