"""Whether the node may use a server that has said what it is."""

from __future__ import annotations

from firmware.abi import CALLER_SAVED
from firmware.bus.link import bus_fail
from firmware.layouts.bus import CLUSTER_VERSION_LEAST, BusLink, LinkState
from firmware.layouts.bus_sites import (
    LAME_DUCK,
    NO_HEADERS,
    NO_NONCE,
    NO_TLS,
    OLD_CLUSTER,
    TLS_WANTED,
)
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.credentials import CREDENTIALS, Credentials
from firmware.layouts.fleet_config import FLEET_CONFIG, BusAuth, FleetConfig
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import TlsContext, TlsState
from toolchain.asm import AL, EDX, NE, RBP, RBX, A, Asm, B, E, In, routine


@routine(
    inputs=[In(RBP, BusLink, "a link that INFO came on"), In(RBX, ShardContext, "its workspace")],
    clobbers=CALLER_SAVED,
    reads=[
        BusLink.state, BusLink.headers, BusLink.clustered, BusLink.version, BusLink.lame_duck,
        BusLink.tls_required, BusLink.tls_available, BusLink.nonce_len, ConfigBlob.gateway_secure,
        TlsContext.state, FleetConfig.servers_used, Credentials.auth,
    ],
    writes=[BusLink.state, BusLink.informed],
    calls=[bus_fail],
    source="firmware/docs/bus.md#refusals",
)  # fmt: skip
def bus_judge(a: Asm, link: BusLink, shard: ShardContext) -> None:
    """Refuse what cannot be trusted with a lease or would be a downgrade; else TLS or the login is next."""
    fail, secure, login, done = map(a.label, ("fail", "secure", "login", "done"))
    a.mov(EDX, NO_HEADERS.code)
    a.cmp(link.headers, 0)
    a.j(E, fail)
    # This may come with any INFO: one in clear could have been another's words.
    a.cmp(link.clustered, 0)
    with a.if_(NE):
        a.mov(EDX, OLD_CLUSTER.code)
        a.cmp(link.version, CLUSTER_VERSION_LEAST)
        a.j(B, fail)
    a.cmp(link.state, LinkState.INFO)
    a.j(NE, done)
    a.cmp(link.lame_duck, 0)
    with a.if_(NE):
        a.mov(EDX, LAME_DUCK.code)
        a.cmp(FLEET_CONFIG.it.servers_used, 1)
        a.j(A, fail)
    a.cmp(CONFIG.it.gateway_secure, 0)
    a.j(NE, secure)
    a.mov(EDX, TLS_WANTED.code)
    a.cmp(link.tls_required, 0)
    a.j(NE, fail)
    a.jmp(login)
    a.place(secure)
    a.cmp(shard.tls.state, TlsState.IDLE)
    with a.if_(E):
        a.mov(EDX, NO_TLS.code)
        a.mov(AL, link.tls_required)
        a.or_(AL, link.tls_available)
        a.j(E, fail)
    a.place(login)
    a.cmp(CREDENTIALS.it.auth, BusAuth.NKEY)
    with a.if_(E):
        a.mov(EDX, NO_NONCE.code)
        a.cmp(link.nonce_len, 0)
        a.j(E, fail)
    a.mov(link.informed, 1)
    a.mov(link.state, LinkState.TLS)
    a.place(done)
    a.ret()
    a.place(fail)
    a.jmp(bus_fail)
