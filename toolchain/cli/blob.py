"""A checked configuration as the page that the node reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from firmware.layouts.config import (
    CONFIG_MAGIC,
    HOST_MAX,
    IDENTIFY_FIELDS_MAX,
    PATH_MAX,
    USER_AGENT_MAX,
    ConfigBlob,
)
from firmware.layouts.discovery import DiscoveryMode
from firmware.layouts.log_line import Level
from firmware.layouts.policy import OnLimit, OnMalformed, Policy, SessionProvider
from firmware.layouts.profile import ProfileId
from firmware.layouts.tls import Hybrid
from toolchain.config.endpoint import service_of
from toolchain.config.load import DEFAULT_TOKEN_ENV, DEVELOPMENT_TOKEN
from toolchain.layout.pack import pack

if TYPE_CHECKING:
    from ipaddress import IPv4Address

    from toolchain.config import NodeConfig

VERSION = 1
RELEASED = 1_793_491_200
"""2026-11-01: no image was built before, so this is the time of one that nobody stated a time for."""
PROFILES = {profile.name.lower(): profile for profile in ProfileId}
ID_AT = ConfigBlob.build_id.offset
SECRET = slice(ConfigBlob.token.offset, ConfigBlob.control_key.offset + ConfigBlob.control_key.size)
"""Where in the page the token and the key of the control channel lie, one behind the other."""


def image_time(config: NodeConfig) -> int:
    """Return when the image says that it was built; 0 for nothing.

    With TLS it always says something: a node tells an impossible clock by it.
    """
    return config.build_time or (RELEASED if config.gateway.endpoint.secure else 0)


def _wire(address: IPv4Address | None) -> int:
    """Return an address as the node loads it from the wire; 0 for none."""
    return 0 if address is None else int.from_bytes(address.packed, "little")


def _provider(config: NodeConfig) -> SessionProvider:
    """Return who keeps sessions: in a fleet its store does."""
    if config.fleet.bot is not None:
        return SessionProvider.BUS
    return SessionProvider[config.sessions.provider.upper()]


def _policy(config: NodeConfig) -> dict[str, object]:
    """Return the fields of the retry policy."""
    startup, backoff = config.startup, config.backoff
    return {
        "policy": Policy[backoff.policy.upper()],
        "on_limit": OnLimit[startup.on_limit.upper()],
        "protocol_failures_max": backoff.protocol_failures,
        "identify_shards": config.plan.identify_shards,
        "on_malformed": OnMalformed[config.dispatch.on_malformed.upper()],
        "schedule_len": len(backoff.schedule_ms),
        "min_delay_ms": backoff.min_delay_ms,
        "max_delay_ms": backoff.max_delay_ms,
        "attempt_timeout_ms": backoff.attempt_timeout_ms,
        "healthy_reset_ms": backoff.healthy_reset_ms,
        "startup_timeout_ms": startup.timeout_ms,
        "startup_attempts": startup.max_attempts,
        "startup_min_ms": startup.min_delay_ms,
        "startup_max_ms": startup.max_delay_ms,
        "schedule_ms": [{"ms": ms} for ms in backoff.schedule_ms],
        "session_provider": _provider(config),
        "load_timeout_ms": config.sessions.load_timeout_ms,
        "plan_auto": config.plan.auto,
    }


def config_blob(config: NodeConfig) -> bytes:
    """Return the page, token and key included; the build id is still zero.

    Raises:
        click.ClickException: A text is longer than the node holds, or a real bot has no token.
    """
    endpoint, network = config.gateway.endpoint, config.network
    host, path = endpoint.host.encode(), endpoint.path.encode()
    token = config.token.get_secret_value().encode()
    if config.token.get_secret_value() == DEVELOPMENT_TOKEN and service_of(endpoint.host):
        raise click.ClickException(
            f"{endpoint.host} wants the bot's token and none is named. Set {DEFAULT_TOKEN_ENV}, or "
            "write token_env or token_file under [bot]"
        )
    key = config.control_key.get_secret_value()
    suffix = (config.gateway.resume_suffix or "").encode()
    agent = config.gateway.user_agent.encode()
    texts = (
        ("host", host, HOST_MAX),
        ("path", path, PATH_MAX),
        ("resume_suffix", suffix, HOST_MAX),
        ("user_agent", agent, USER_AGENT_MAX),
    )
    for what, text, most in texts:
        if len(text) > most:
            raise click.ClickException(
                f"the gateway's {what} has {len(text)} bytes; the node holds {most}. Write a "
                f"shorter [gateway] {what}"
            )
    fields = config.identify.fields(config.gateway.profile)
    if len(fields) > IDENTIFY_FIELDS_MAX:
        raise click.ClickException(
            f"the fields of Identify have {len(fields)} bytes; the node holds "
            f"{IDENTIFY_FIELDS_MAX}. Write a shorter presence, or fewer ignored_events, under "
            "[identify]"
        )
    return pack(
        ConfigBlob,
        {
            "magic": CONFIG_MAGIC,
            "version": VERSION,
            "build_time": image_time(config),
            "global_total": config.shards.total,
            "local_start": config.shards.start,
            "local_count": config.shards.count,
            "lease_ms": config.lease.duration_ms,
            "intents": config.bot.intents,
            "max_concurrency": config.gateway.max_concurrency,
            "identify_allowance": config.identify.allowance,
            "gateway_host_len": len(host),
            "gateway_path_len": len(path),
            "token_len": len(token),
            "gateway_port": endpoint.port,
            "gateway_secure": endpoint.secure,
            "tls_hybrid": Hybrid[config.tls.hybrid.upper()],
            "diagnostics_port": config.diagnostics.port,
            "profile": PROFILES[config.gateway.profile],
            "discovery": DiscoveryMode[config.gateway.discovery.upper()],
            "log_level": Level[config.log.level.upper()],
            "dhcp": config.network.dhcp,
            "serial": config.log.serial,
            "static_ip": _wire(network.address),
            "static_netmask": _wire(network.netmask),
            "static_router": _wire(network.router),
            "static_dns1": _wire(network.dns),
            **_policy(config),
            "gateway_host": host,
            "resume_suffix_len": len(suffix),
            "resume_suffix": suffix,
            "identify_fields_len": len(fields),
            "identify_fields": fields,
            "gateway_path": path,
            "user_agent_len": len(agent),
            "user_agent": agent,
            "token": token,
            "control_key_len": len(key),
            "control_key": key,
        },
    )
