"""The table `[fleet]` as the page that a fleet's node reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmware.layouts.fleet_config import FLEET_MAGIC, BusAuth, FleetConfig
from toolchain.layout.pack import pack

if TYPE_CHECKING:
    from toolchain.config import NodeConfig

FLEET_SECRET = slice(
    FleetConfig.password.offset, FleetConfig.nkey_seed.offset + FleetConfig.nkey_seed.size
)
"""Where in the page the password and the seed lie, one behind the other."""


def fleet_blob(config: NodeConfig) -> bytes:
    """Return the page, secrets included; zeros for a node that is part of no fleet."""
    fleet = config.fleet
    if fleet.bot is None:
        return bytes(FleetConfig.SIZE)
    key = config.fleet_nkey
    texts = {
        "bot": fleet.bot.encode(),
        "node": fleet.node.encode(),
        "user": (fleet.user or "").encode(),
        "password": config.fleet_password.get_secret_value().encode(),
    }
    return pack(
        FleetConfig,
        {
            "magic": FLEET_MAGIC,
            "auth": BusAuth[fleet.auth.upper()],
            "handshake_first": fleet.handshake_first,
            "cap": fleet.cap,
            "publish": fleet.publish,
            "reserve": fleet.reserve,
            **texts,
            **{f"{name}_len": len(text) for name, text in texts.items()},
            "nkey_seed": b"" if key is None else key.seed,
            "nkey_public": b"" if key is None else key.public.encode(),
            "servers_used": len(fleet.places),
            "servers": [
                {"host": place.host.encode(), "host_len": len(place.host), "port": place.port}
                for place in fleet.places
            ],
        },
    )
