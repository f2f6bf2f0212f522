"""What `shardfw run` changes in a configuration: gateway, log lines, key, sessions."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import SecretBytes, SecretStr

from toolchain.config.control_key import KEY_BYTES_MIN
from toolchain.config.endpoint import QEMU_HOST
from toolchain.config.fleet import FleetConfig
from toolchain.config.load import DEVELOPMENT_TOKEN
from toolchain.config.schema import DISCOVERY_PATH, ShardsConfig

if TYPE_CHECKING:
    from toolchain.config import NodeConfig

LOCAL_CA = "local gateway"
"""What the image calls the local gateway's CA in the version of its anchors."""


def with_gateway(config: NodeConfig, port: int, root: bytes | None = None) -> NodeConfig:
    """Return the configuration with this machine's gateway, as a node on QEMU's network sees it.

    A node that discovers its gateway asks it there for itself.

    Args:
        config: The node's.
        port: Where the gateway listens.
        root: Its CA's certificate when it serves TLS; joins the anchors.
    """
    gateway, s = config.gateway, "" if root is None else "s"
    if gateway.discovery == "static":
        where = {"url": f"ws{s}://{QEMU_HOST}:{port}{gateway.endpoint.path}"}
    else:
        path = DISCOVERY_PATH[gateway.profile]
        where = {"discovery_url": f"http{s}://{QEMU_HOST}:{port}{path}"}
    nothing = dict.fromkeys(("host", "port", "path"))
    own = () if root is None else ((LOCAL_CA, root),)
    # Pins are of the keys of the gateway that is replaced.
    return replace(
        config,
        gateway=config.gateway.model_copy(update=where | nothing),
        tls=config.tls.model_copy(update={"pins": []}),
        extra_anchors=(*config.extra_anchors, *own),
    )


def with_lines(config: NodeConfig) -> NodeConfig:
    """Return the configuration with the log lines that the runner reads: info, on COM1."""
    level = config.log.level if config.log.level in ("debug", "trace") else "info"
    return replace(config, log=config.log.model_copy(update={"serial": True, "level": level}))


def with_fleet(
    config: NodeConfig,
    bot: str,
    port: int,
    login: tuple[str, str],
    cap: int,
    *,
    publishes: bool | None = None,
) -> NodeConfig:
    """Return the configuration of a node of a fleet whose NATS is this machine's.

    The node takes its name from its network card, so that all nodes boot one image. What a fleet
    excludes is taken out. One that has no token, because it would be given it, has the development token.

    Args:
        config: A node's.
        bot: The fleet.
        port: Where NATS listens.
        login: User and password of all nodes.
        cap: Slots that a node may hold.
        publishes: Whether it publishes events; None = as the configuration says.
    """
    fleet = FleetConfig.model_validate(
        {
            "bot": bot,
            "servers": [f"{QEMU_HOST}:{port}"],
            "auth": "user",
            "user": login[0],
            "cap": cap,
            "publish": config.fleet.publish if publishes is None else publishes,
            "enrol": False,
        }
    )
    return replace(
        config,
        token=SecretStr(config.token.get_secret_value() or DEVELOPMENT_TOKEN),
        fleet=fleet,
        fleet_password=SecretStr(login[1]),
        fleet_nkey=None,
        shards=ShardsConfig.of_fleet(),
        lease=config.lease.model_copy(update={"duration_ms": 0}),
        plan=config.plan.model_copy(update={"auto": False}),
        sessions=config.sessions.model_copy(update={"provider": "none"}),
    )


def with_control_key(config: NodeConfig) -> NodeConfig:
    """Return the configuration with a key for commands: its own, else one for this run alone."""
    if config.control_key.get_secret_value():
        return config
    return replace(config, control_key=SecretBytes(secrets.token_bytes(KEY_BYTES_MIN)))


def with_sessions(config: NodeConfig, *, kept: bool) -> NodeConfig:
    """Return the configuration with this runner as the keeper of sessions.

    Args:
        config: The node's.
        kept: Whether there are some; else nobody waits for them.
    """
    update: dict[str, object] = {"provider": "host"}
    if not kept:
        update["load_timeout_ms"] = 0
    return replace(config, sessions=config.sessions.model_copy(update=update))
