"""Host and port of a URL."""

import re

from emulator.effects import World, model
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
