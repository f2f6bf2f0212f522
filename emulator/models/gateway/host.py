"""Which hosts may hear the token."""

import re

from emulator.effects import World, model
from emulator.models.websocket.request import ws_base
from firmware.layouts.config import CONFIG

_ADDRESS = re.compile(rb"[0-9.-]*")


def is_under(host: bytes, domain: bytes) -> bool:
    """The domain itself or a name below it, in any case; an address has none below it."""
    host, domain = host.lower(), domain.lower()
    below = not _ADDRESS.fullmatch(domain) and host.endswith(b"." + domain)
    return bool(domain) and (host == domain or below)


@model
def host_is_under(w: World, host: int, size: int, domain: int, length: int) -> int:
    """Another host sets CF."""
    return int(not is_under(w.read(host, size), w.read(domain, length)))


@model
def gateway_host_allowed(w: World, host: int, size: int) -> int:
    """The gateway's host, or the configured suffix, or a parent that is more than a top-level name."""
    config = w.g(CONFIG)
    base, length, _port, _path, _size = ws_base(w)
    if not host_is_under(w, host, size, base, length):
        return 0
    if config.resume_suffix_len:
        suffix = config.offset_of("resume_suffix")
        return host_is_under(w, host, size, suffix, config.resume_suffix_len)
    base, length, _port, _path, _size = ws_base(w)
    parent = w.read(base, length).partition(b".")[2]
    if b"." not in parent or _ADDRESS.fullmatch(parent):
        return 1
    return host_is_under(w, host, size, base + length - len(parent), len(parent))
