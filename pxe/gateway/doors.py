"""Where READY sends a shard for its Resume: by default to the host that it dialled.

A door is one more port, for one shard alone. READY names it, so every Resume comes there and the
shard is known from the connect on: trouble can begin before the client has said who it is.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pxe.gateway.options import GatewayOptions


class Doors:
    """The resume URLs.

    Attributes:
        ports: Shard to the port of its door; the transport fills it in.

    Args:
        options: For `resume_urls` and `public_url`.
        scheme: ``ws`` or ``wss``.
    """

    def __init__(self, options: "GatewayOptions", scheme: str) -> None:
        self.ports: dict[int, int] = {}
        self._options = options
        self._scheme = scheme

    def shard_at(self, port: int) -> int | None:
        """Return the shard whose door a port is, or None."""
        return next((shard for shard, door in self.ports.items() if door == port), None)

    def resume_url(self, shard: int, host: str) -> str:
        """Return what READY names: the shard's own URL, its door, or whatever was dialled.

        Args:
            shard: Shard id.
            host: The Host header of the connection.
        """
        if shard in self._options.resume_urls:
            return self._options.resume_urls[shard]
        if shard in self.ports:
            return f"{self._scheme}://{host.partition(':')[0]}:{self.ports[shard]}"
        return self._options.public_url or f"{self._scheme}://{host}"
