"""What a fleet's node is told of its fleet: the page that `shardfw build` fills, for simulated nodes."""

from __future__ import annotations

from dataclasses import dataclass

from firmware.layouts.fleet_config import FLEET_MAGIC, BusAuth, FleetConfig
from toolchain.layout.pack import pack


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFacts:
    """A node's place in a fleet.

    Attributes:
        bot: name of the bot in subjects.
        node: name of the node in subjects and records.
        servers: host and port of each NATS server, in the order in which they are tried.
        auth: how the node logs in.
        user: with USER.
        password: with USER.
        nkey_seed: with NKEY, the private key.
        nkey_public: with NKEY, the public key as text.
        handshake_first: whether TLS begins before INFO.
        cap: slots held at once.
        publish: whether dispatches are published.
    """

    bot: str = "b1"
    node: str
    servers: tuple[tuple[str, int], ...]
    auth: BusAuth = BusAuth.NONE
    user: str = ""
    password: str = ""
    nkey_seed: bytes = b""
    nkey_public: str = ""
    handshake_first: bool = False
    cap: int = 1
    publish: bool = True

    def page(self) -> bytes:
        """Return the page."""
        texts = {"bot": self.bot, "node": self.node, "user": self.user, "password": self.password}
        return pack(
            FleetConfig,
            {
                "magic": FLEET_MAGIC,
                "auth": self.auth,
                "handshake_first": self.handshake_first,
                "cap": self.cap,
                "publish": self.publish,
                **{name: text.encode() for name, text in texts.items()},
                **{f"{name}_len": len(text) for name, text in texts.items()},
                "nkey_seed": self.nkey_seed,
                "nkey_public": self.nkey_public.encode(),
                "servers_used": len(self.servers),
                "servers": [
                    {"host": host.encode(), "host_len": len(host), "port": port}
                    for host, port in self.servers
                ],
            },
        )
