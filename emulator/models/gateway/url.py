"""Scheme, host and port of a URL."""

import re

from emulator.effects import World, model
from firmware.layouts.config import CONFIG
from firmware.layouts.gateway import UrlFault

_HOST = re.compile(rb"[A-Za-z0-9._-]*")
_REST = re.compile(rb"(?::(?P<port>[0-9]+))?(?P<target>(?:[/?].*)?)", re.DOTALL)


def split_authority(text: bytes, default: int) -> tuple[bytes, int, bytes] | UrlFault:
    """Return host, port and what follows, or the fault."""
    found = _HOST.match(text)
    host = found[0] if found else b""
    if not 1 <= len(host) <= 128:
        return UrlFault.HOST
    rest = _REST.fullmatch(text[len(host) :])
    port = int(rest["port"] or b"%d" % default) if rest is not None else 0
    if rest is None or not 1 <= port <= 65535:
        return UrlFault.PORT
    return host, port, rest["target"]


def scheme_of(text: bytes, plain: bytes, secure: bool) -> tuple[UrlFault | None, int, int]:
    """Return the fault, the bytes of the scheme and its port; `plain` is the scheme without TLS."""
    for encrypted, scheme, port in ((False, plain, 80), (True, plain + b"s", 443)):
        if text.startswith(scheme + b"://"):
            fault = None if encrypted == secure else UrlFault.SECURITY
            return fault, len(scheme) + 3, port
    return UrlFault.SCHEME, 0, 0


@model
def url_scheme(w: World, text: int, kind: int) -> tuple[int, int | None, int | None]:
    """Ws or http as long as the configured URL has no TLS, else wss or https."""
    secure = bool(w.g(CONFIG).gateway_secure)
    fault, size, port = scheme_of(w.read(text, 8), (b"ws", b"http")[kind], secure)
    if fault is not None:
        return fault, None, None
    return 0, port, text + size


@model
def url_authority(
    w: World, text: int, end: int, default: int
) -> tuple[int, int | None, int | None, int | None]:
    """Split and judge; the outputs of a refused one mean nothing."""
    found = split_authority(w.read(text, end - text), default)
    if isinstance(found, UrlFault):
        return found, None, None, None
    host, port, target = found
    return 0, len(host), port, end - len(target)
