"""Whether the node may use a server."""

from emulator.effects import World, model
from emulator.models.bus.link import bus_fail
from firmware.errors import Site
from firmware.layouts.bus import BusLink, LinkState
from firmware.layouts.bus_sites import (
    LAME_DUCK,
    NO_HEADERS,
    NO_NONCE,
    NO_TLS,
    OLD_CLUSTER,
    TLS_WANTED,
)
from firmware.layouts.config import CONFIG
from firmware.layouts.credentials import CREDENTIALS
from firmware.layouts.fleet_config import FLEET_CONFIG, BusAuth
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import TlsState

_OLD = 2 << 16 | 9 << 8 | 21


def _refusal(w: World, link: int, shard: int) -> Site | None:
    bus, fleet = w.view(BusLink, link), w.g(FLEET_CONFIG)
    if not bus.headers:
        return NO_HEADERS
    if bus.clustered and bus.version < _OLD:
        return OLD_CLUSTER
    if bus.state != LinkState.INFO:
        return None
    if bus.lame_duck and fleet.servers_used > 1:
        return LAME_DUCK
    if not w.g(CONFIG).gateway_secure:
        if bus.tls_required:
            return TLS_WANTED
    elif w.view(ShardContext, shard).tls.state == TlsState.IDLE and not (
        bus.tls_required or bus.tls_available
    ):
        return NO_TLS
    return NO_NONCE if w.g(CREDENTIALS).auth == BusAuth.NKEY and not bus.nonce_len else None


@model
def bus_judge(w: World, link: int, shard: int) -> None:
    """The first INFO of a connection lets it go on."""
    bus = w.view(BusLink, link)
    site = _refusal(w, link, shard)
    if site is not None:
        bus_fail(w, link, shard, site.code)
    elif bus.state == LinkState.INFO:
        bus.informed, bus.state = 1, LinkState.TLS
