"""The sections of `node.toml`: keys, bounds, defaults.

Each field's description completes the sentence "Write ..." in the message of a refusal, so it says
what a right value is. Checks that need two keys name, in `key`, the one to blame.
"""

import ipaddress
import re
from functools import reduce
from ipaddress import IPv4Address, IPv4Network
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, field_validator, model_validator

from toolchain.config.endpoint import (
    DEFAULT_AGENT,
    QEMU_HOST,
    Endpoint,
    check_host,
    check_path,
    check_url,
    check_user_agent,
    path_of,
    refuse,
    service_of,
    to_address,
)
from toolchain.config.fleet import FleetConfig
from toolchain.config.identify import IdentifyConfig
from toolchain.config.policy import (
    BackoffConfig,
    DispatchConfig,
    PlanConfig,
    SessionsConfig,
    StartupConfig,
)
from toolchain.config.secret import check_variable
from toolchain.config.section import Section
from toolchain.config.tls import TlsConfig

# A node's workspaces, slot table and diagnostics answer are sized for this many.
MAX_LOCAL_SHARDS = 256
MAX_CONCURRENCY = 256
DHCP_CLIENT_PORT = 68
DEFAULT_PORTS = {"ws": 80, "http": 80, "wss": 443, "https": 443}

# What a client asks a gateway for when the path names no query of its own.
PROFILE_QUERY = {"discord": "v=10&encoding=json", "fluxer": "v=1&encoding=json"}
# What a discovery URL without a path asks for.
DISCOVERY_PATH = {"discord": "/gateway/bot", "fluxer": "/.well-known/fluxer"}

# Discord, developer documentation, "Gateway", section "List of Intents": name to bit.
INTENT_BITS = {
    "guilds": 0,
    "guild_members": 1,
    "guild_moderation": 2,
    "guild_expressions": 3,
    "guild_integrations": 4,
    "guild_webhooks": 5,
    "guild_invites": 6,
    "guild_voice_states": 7,
    "guild_presences": 8,
    "guild_messages": 9,
    "guild_message_reactions": 10,
    "guild_message_typing": 11,
    "direct_messages": 12,
    "direct_message_reactions": 13,
    "direct_message_typing": 14,
    "message_content": 15,
    "guild_scheduled_events": 16,
    "auto_moderation_configuration": 20,
    "auto_moderation_execution": 21,
    "guild_message_polls": 24,
    "direct_message_polls": 25,
}


def sum_intents(value: object) -> object:
    """Turn a list of intent names into the number that Identify carries; pass a number through."""
    if not isinstance(value, list):
        return value
    unknown = [name for name in value if name not in INTENT_BITS]
    if unknown:
        raise refuse(f"{unknown[0]!r} is not an intent. Write names from: {', '.join(INTENT_BITS)}")
    return reduce(lambda total, name: total | 1 << INTENT_BITS[name], value, 0)


Address = Annotated[IPv4Address, BeforeValidator(to_address)]


class BotConfig(Section):
    """`[bot]`: who the shards are. The token itself is never a key."""

    token_env: str | None = Field(None, description="the name of an environment variable")
    token_file: str | None = Field(None, description="the path of a file that holds the token")
    intents: Annotated[int, BeforeValidator(sum_intents)] = Field(
        1 << INTENT_BITS["guilds"] | 1 << INTENT_BITS["guild_messages"],
        ge=0,
        le=0xFFFF_FFFF,
        description='names such as ["guilds", "guild_messages"], or their sum',
    )

    @field_validator("token_env")
    @classmethod
    def _is_variable_name(cls, value: str | None) -> str | None:
        return check_variable(value, "SHARDFW_TOKEN", "token")

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if self.token_env is not None and self.token_file is not None:
            raise refuse("token_env is given too. Write one of the two", "token_file")
        return self


class GatewayConfig(Section):
    """`[gateway]`: where to connect and how fast to identify."""

    url: str | None = Field(None, description="a URL such as wss://gateway.lan/")
    host: str | None = Field(None, description="a DNS name or an IPv4 address")
    port: int | None = Field(None, ge=1, le=65535, description="the gateway's TCP port")
    path: str | None = Field(None, description="the request path, / by default")
    profile: Literal["discord", "fluxer"] = Field("discord", description='"discord" or "fluxer"')
    discovery: Literal["static", "http"] = Field("static", description='"static" or "http"')
    discovery_url: str | None = Field(
        None, description="a URL such as https://gateway.lan/gateway/bot"
    )
    resume_suffix: str | None = Field(
        None, description="a domain such as gateway.lan; each host in it may hear the token"
    )
    user_agent: str = Field(
        DEFAULT_AGENT, description='who runs the bot, as "DiscordBot (https://bot.example, 1.0)"'
    )
    max_concurrency: int = Field(
        1,
        ge=1,
        le=MAX_CONCURRENCY,
        description="session_start_limit.max_concurrency of your bot, 1 for most",
    )

    @field_validator("url")
    @classmethod
    def _is_ws_url(cls, value: str | None) -> str | None:
        return None if value is None else check_url(value, "ws", f"ws://{QEMU_HOST}:8080/")

    @field_validator("discovery_url")
    @classmethod
    def _is_http_url(cls, value: str | None) -> str | None:
        return None if value is None else check_url(value, "http", f"http://{QEMU_HOST}:8080/")

    @field_validator("host", "resume_suffix")
    @classmethod
    def _is_host(cls, value: str | None) -> str | None:
        return None if value is None else check_host(value)

    @field_validator("user_agent")
    @classmethod
    def _is_agent(cls, value: str) -> str:
        return check_user_agent(value)

    @field_validator("path")
    @classmethod
    def _is_path(cls, value: str | None) -> str | None:
        return None if value is None else check_path(value)

    @model_validator(mode="after")
    def _has_one_place(self) -> Self:
        if self.discovery == "static" and self.discovery_url is not None:
            raise refuse(
                'discovery is "static". Write discovery = "http", or leave this key out',
                "discovery_url",
            )
        if self.discovery == "http" and self.url is not None:
            raise refuse(
                "the gateway is asked for. Write discovery_url, or host, port and path, of who "
                'answers, or discovery = "static"',
                "url",
            )
        for key in ("host", "port", "path"):
            for whole in ("url", "discovery_url"):
                if getattr(self, whole) is not None and getattr(self, key) is not None:
                    raise refuse(
                        f"{whole} is given too. Write either {whole}, or host, port and path", key
                    )
        return self

    @model_validator(mode="after")
    def _suits_its_service(self) -> Self:
        """Refuse a service on the open network without TLS, or by the rules of another one."""
        where = self.endpoint
        place = next((key for key in ("url", "discovery_url") if getattr(self, key)), "host")
        for key, host in ((place, where.host), ("resume_suffix", self.resume_suffix or "")):
            service = service_of(host)
            if service is None:
                continue
            if not where.secure:
                write = f'url = "{service.gateway}"'
                if self.discovery == "http":
                    write = f'discovery_url = "{service.discovery}"'
                raise refuse(
                    f"{host} is reached over TLS alone; without it the token could be read on the "
                    f"way. Write {write}",
                    key,
                )
            if not re.fullmatch(service.agent, self.user_agent):
                raise refuse(f'{host} asks for "{service.agent_form}". Write that', "user_agent")
            if self.profile != service.profile:
                raise refuse(
                    f'{host} does not speak {self.profile}. Write profile = "{service.profile}"',
                    "profile",
                )
        return self

    @property
    def endpoint(self) -> Endpoint:
        """Return where to connect, or with discovery = "http" who is asked for that.

        The profile's query is added to a gateway's path that has none.
        """
        scheme = "ws" if self.discovery == "static" else "http"
        place = self.url or self.discovery_url
        if place is None:
            host = self.host or QEMU_HOST
            port, path = self.port or DEFAULT_PORTS[scheme], self.path or "/"
        else:
            parts = urlsplit(place)
            scheme, host = parts.scheme, (parts.hostname or "").removesuffix(".")
            port, path = parts.port or DEFAULT_PORTS[scheme], path_of(place)
        if self.discovery == "http":
            service = service_of(host)
            usual = path_of(service.discovery) if service else DISCOVERY_PATH[self.profile]
            path = usual if path == "/" else path
        elif "?" not in path:
            path = f"{path}?{PROFILE_QUERY[self.profile]}"
        return Endpoint(host, port, path, scheme)


class ShardsConfig(Section):
    """`[shards]`: global total, local start and local count are three different numbers."""

    total: int = Field(
        16, ge=1, le=65535, description="how many shards the whole bot has, over all nodes"
    )
    start: int = Field(0, ge=0, le=65534, description="the id of this node's first shard")
    count: int = Field(
        16,
        ge=1,
        le=MAX_LOCAL_SHARDS,
        description=f"how many shards this node holds, at most {MAX_LOCAL_SHARDS}",
    )

    @classmethod
    def of_fleet(cls) -> Self:
        """Return what a node begins with that takes its shards from a fleet's plan: none."""
        return cls.model_construct(total=0, start=0, count=0)

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, data: object) -> object:
        # One node that holds all its shards need not say so twice.
        if isinstance(data, dict) and not {"total", "start"} & data.keys():
            count = data.get("count")
            if isinstance(count, int) and 1 <= count <= MAX_LOCAL_SHARDS:
                return {**data, "total": count}
        return data

    @model_validator(mode="after")
    def _lies_in_total(self) -> Self:
        if self.start + self.count > self.total:
            raise refuse(
                f"shards {self.start} to {self.start + self.count - 1} do not exist among a total "
                f"of {self.total}. Write a start of at most {max(self.total - self.count, 0)}, "
                "a smaller count or a larger total",
                "start" if self.start else "count",
            )
        return self


class LeaseConfig(Section):
    """`[lease]`: how long a grant lasts; 0 means that no lease is enforced."""

    duration_ms: int = Field(
        0, ge=0, le=86_400_000, description="milliseconds, 0 for off, at most one day"
    )


class NetworkConfig(Section):
    """`[network]`: DHCP, or an address of the node's own."""

    dhcp: bool = Field(True, description="true or false")
    address: Address | None = Field(None, description="the node's IPv4 address")
    netmask: Address | None = Field(None, description="a mask such as 255.255.255.0")
    router: Address | None = Field(None, description="the default router's IPv4 address")
    dns: Address | None = Field(None, description="the DNS server's IPv4 address")

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        given = {"address": self.address, "netmask": self.netmask, "router": self.router}
        given["dns"] = self.dns
        if self.dhcp:
            for key, value in given.items():
                if value is not None:
                    raise refuse("dhcp is on. Write dhcp = false, or leave this key out", key)
            return self
        if self.address is None or self.netmask is None:
            raise refuse("without DHCP the node needs address and netmask. Write both", "dhcp")
        try:
            network = IPv4Network(f"{self.address}/{self.netmask}", strict=False)
        except ipaddress.NetmaskValueError:
            network = None
        # "0.0.0.255" would be taken for a wildcard mask, so the result is compared.
        if network is None or network.netmask != self.netmask or network.prefixlen > 30:
            raise refuse(
                f"{self.netmask} is not a netmask. Write one such as 255.255.255.0", "netmask"
            )
        if self.address in (network.network_address, network.broadcast_address) or (
            self.address.is_multicast or self.address.is_loopback or self.address.is_unspecified
        ):
            raise refuse(
                f"{self.address} is no address for a node. Write a free one of {network}", "address"
            )
        if self.router is not None and self.router not in network:
            raise refuse(
                f"{self.router} is not in {network}. Write a router of that network", "router"
            )
        return self


class DiagnosticsConfig(Section):
    """`[diagnostics]`: the UDP port that `shardfw status` asks."""

    port: int = Field(4747, ge=1, le=65535, description="a UDP port")

    @field_validator("port")
    @classmethod
    def _is_not_dhcp(cls, value: int) -> int:
        if value == DHCP_CLIENT_PORT:
            raise refuse("68 is the DHCP client's port. Write another, such as 4747")
        return value


class ControlConfig(Section):
    """`[control]`: who may command the node. The key itself is never a key of this file."""

    key_env: str | None = Field(None, description="the name of an environment variable")
    key_file: str | None = Field(None, description="the path of a file that holds the key")

    @field_validator("key_env")
    @classmethod
    def _is_variable_name(cls, value: str | None) -> str | None:
        return check_variable(value, "SHARDFW_CONTROL_KEY", "key")

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if self.key_env is not None and self.key_file is not None:
            raise refuse("key_env is given too. Write one of the two", "key_file")
        return self


class LogConfig(Section):
    """`[log]`: what the node says about itself."""

    level: Literal["error", "warn", "info", "debug", "trace"] = Field(
        "info", description='"error", "warn", "info", "debug" or "trace"'
    )
    serial: bool = Field(True, description="true or false: whether lines go to COM1")


class BuildConfig(Section):
    """`[build]`: what would otherwise differ between two builds of the same inputs."""

    time: int | None = Field(
        None, ge=0, le=0xFFFF_FFFF, description="seconds since 1970-01-01 UTC, as an integer"
    )


SECTIONS: dict[str, type[Section]] = {
    "bot": BotConfig,
    "gateway": GatewayConfig,
    "tls": TlsConfig,
    "shards": ShardsConfig,
    "fleet": FleetConfig,
    "identify": IdentifyConfig,
    "lease": LeaseConfig,
    "plan": PlanConfig,
    "startup": StartupConfig,
    "backoff": BackoffConfig,
    "sessions": SessionsConfig,
    "dispatch": DispatchConfig,
    "network": NetworkConfig,
    "diagnostics": DiagnosticsConfig,
    "control": ControlConfig,
    "log": LogConfig,
    "build": BuildConfig,
}
