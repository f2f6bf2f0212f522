"""Another place to ask."""

from emulator.effects import World, model
from emulator.models.gateway.discovery_target import PATH_MAX, discovery_target
from emulator.models.gateway.discovery_verdict import discovery_refuse
from emulator.models.gateway.url import url_authority, url_scheme
from emulator.models.tls.transport import tls_abort
from firmware.layouts.discovery import (
    DISCOVERY,
    DISCOVERY_LOCATION,
    DISCOVERY_REDIRECTS,
    DiscoveryState,
    HttpField,
)
from firmware.layouts.gateway import UrlFault


def _judge_location(w: World) -> tuple[int, int]:
    """Return the error of a Location by its form, or 0 and whether it names a host."""
    found = w.g(DISCOVERY)
    if not found.seen & HttpField.LOCATION:
        return DISCOVERY_LOCATION.code, 0
    if found.location_len > 384:
        return DISCOVERY_LOCATION.code | UrlFault.TOO_LONG, 0
    text = bytes(found.location)
    if text.startswith(b"/") and not text.startswith(b"//"):
        return 0, 0
    return 0, 1


@model
def discovery_redirect(w: World, shard: int) -> None:
    """Three redirects at most; another host or port takes the token away."""
    found = w.g(DISCOVERY)
    found.redirects += 1
    if found.redirects > 3:
        discovery_refuse(w, shard, DISCOVERY_REDIRECTS.code)
        return
    error, absolute = _judge_location(w)
    if error:
        discovery_refuse(w, shard, error)
        return
    start = found.location.address
    rest, end = start, start + found.location_len
    if absolute:
        fault, default, host = url_scheme(w, start, 1)
        if fault or default is None or host is None:
            discovery_refuse(w, shard, DISCOVERY_LOCATION.code | fault)
            return
        fault, size, port, after = url_authority(w, host, end, default)
        if fault or size is None or port is None or after is None:
            discovery_refuse(w, shard, DISCOVERY_LOCATION.code | fault)
            return
        name, rest = w.read(host, size), after
        if (port, name) != (found.port, bytes(found.host[: found.host_len])):
            found.token, found.port, found.host_len = 0, port, size
            found.host[:size] = name
    bad, stop, _query = discovery_target(w, rest, end - rest, found.path.address, PATH_MAX)
    if bad or stop is None:
        discovery_refuse(w, shard, DISCOVERY_LOCATION.code | UrlFault.TARGET)
        return
    found.path_len, found.state = stop - found.path.address, DiscoveryState.RESOLVE
    tls_abort(w, shard)
