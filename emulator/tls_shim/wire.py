"""The way to the runner."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emulator.tls_shim.settings import Settings

PATIENCE_S = 60.0
"""How long a runner may be silent; its own patience ends before."""
LINGER_S = 5.0
"""How long it may take to read our last words."""


def dial(settings: Settings) -> socket.socket:
    """Return a connection to the runner, which knows by the id what it is for."""
    place = ("::1" if settings.ipv6 else "127.0.0.1", settings.port)
    wire = socket.create_connection(place, PATIENCE_S)
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    wire.sendall(settings.shim_id.to_bytes(8, "little"))
    return wire
