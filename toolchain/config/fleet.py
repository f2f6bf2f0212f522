"""The section `[fleet]`: the node takes its shards from a plan that many nodes share over NATS."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from toolchain.config.endpoint import check_host, refuse
from toolchain.config.nkey import NKEY_ENV, parse_nkey
from toolchain.config.secret import PASSWORD_ENV, SecretError, check_variable, read_secret
from toolchain.config.section import Section

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from toolchain.config.nkey import Nkey

# What the node's page holds; tests/toolchain/test_config_fleet.py compares them with its layout.
NAME_MAX, CREDENTIAL_MAX = 32, 64
SERVERS_MAX, SERVER_HOST_MAX = 8, 64
HELD_MAX = 8
STARTS_MAX = 1_000_000
NATS_PORT = 4222
NAME = re.compile(rf"(?!-$)[A-Za-z0-9_-]{{1,{NAME_MAX}}}")
"""One token of a subject; `-` alone stands for nobody."""
CREDENTIAL = re.compile(rf"[!#-\[\]-~]{{1,{CREDENTIAL_MAX}}}")
"""Printable, and in a JSON string as it is: no quote, no backslash."""
OWN_KEYS = {
    "none": (),
    "user": ("user", "password_env", "password_file"),
    "nkey": ("nkey_env", "nkey_file"),
}
"""Which keys a way to log in knows."""
MISSING_BOT = "missing. Write the bot's name in the fleet's subjects: bot = \"bot1\""
NO_SHARDS = (
    "[fleet] is given, and there the plan says which shards a node holds. Leave [shards] out, and "
    "write the plan with: shardfw fleet init, shardfw fleet plan"
)
GIVEN_LATER = (
    "[fleet] is given, and there shardfw fleet approve gives a node its token: an image that is served "
    "to whoever asks holds none. Leave this key out, or write enrol = false under [fleet]"
)
NOT_IN_A_FLEET = (
    (
        "gateway.max_concurrency",
        1,
        "[fleet] is given, and there the plan says how many shards identify at once. Leave this key "
        "out, and give --max-concurrency to: shardfw fleet init, shardfw fleet plan",
    ),
    (
        "lease.duration_ms",
        0,
        "[fleet] is given, and there the plan says how long a lease lasts. Leave this key out",
    ),
    (
        "plan.auto",
        False,
        "[fleet] is given, and there only an operator changes the total. Leave this key out",
    ),
    (
        "sessions.provider",
        "none",
        "[fleet] is given, and there NATS keeps the sessions. Leave this key out",
    ),
)
"""Key, the value that changes nothing, and what is said of any other."""
EXAMPLE = '["nats.lan:4222"]'


@dataclass(frozen=True)
class NatsPlace:
    """Where a server listens.

    Attributes:
        host: A DNS name in lower case or a dotted quad.
        port: TCP port.
        tls: Whether it was written as tls://.
    """

    host: str
    port: int
    tls: bool = False


def parse_place(text: str) -> NatsPlace:
    """Return a server of the list: host, host:port, nats://host:port or tls://host:port.

    Raises:
        PydanticCustomError: It is none of these.
    """
    form = f'Write each as host or host:port, such as "{EXAMPLE[2:-2]}"'
    try:
        parts = urlsplit(text if "://" in text else f"nats://{text}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    if parts.scheme not in ("nats", "tls") or not host or parts.path not in ("", "/") or port == 0:
        raise refuse(f"{_shown(text)} is no server. {form}")
    if parts.username is not None:
        raise refuse(
            "a server with a user or password. Write it without; auth, user and password_env say "
            "who the node is"
        )
    host = check_host(host)
    if len(host) > SERVER_HOST_MAX:
        raise refuse(f"{host} has {len(host)} bytes. The node holds {SERVER_HOST_MAX}")
    return NatsPlace(host, NATS_PORT if port is None else port, parts.scheme == "tls")


def _shown(text: str) -> str:
    """Return a text for a message; a URL may hold a password."""
    return "this" if "@" in text else repr(text)


class FleetConfig(Section):
    """`[fleet]`: who the node is, where NATS listens, how it logs in."""

    bot: str | None = Field(None, description="the bot's name in the fleet, such as bot1")
    node: str = Field("", description="this node's name, such as n7")
    servers: list[str] = Field([], description=f"the servers of NATS, such as {EXAMPLE}")
    auth: Literal["none", "user", "nkey"] = Field("none", description='"none", "user" or "nkey"')
    user: str | None = Field(None, description="the node's user at NATS")
    password_env: str | None = Field(None, description="the name of an environment variable")
    password_file: str | None = Field(
        None, description="the path of a file that holds the password"
    )
    nkey_env: str | None = Field(None, description="the name of an environment variable")
    nkey_file: str | None = Field(None, description="the path of a file that holds the seed")
    handshake_first: bool = Field(
        False, description="true when the servers have handshake_first: true, or false"
    )
    cap: int = Field(
        1, ge=1, le=HELD_MAX, description="how many slots of the plan the node may hold at once"
    )
    reserve: int = Field(
        0,
        ge=0,
        le=STARTS_MAX,
        description="how many session starts of the bot its nodes leave for you",
    )
    publish: bool = Field(True, description="true to publish the events of its shards, or false")
    enrol: bool = Field(
        True, description="true when `shardfw fleet approve` gives the node its token, or false"
    )

    @field_validator("bot", "node")
    @classmethod
    def _is_name(cls, value: str | None) -> str | None:
        if value and not NAME.fullmatch(value):
            raise refuse(f"{value!r} is not a name. Write 1 to {NAME_MAX} letters, digits, _ or -")
        return value

    @field_validator("servers")
    @classmethod
    def _are_servers(cls, value: list[str]) -> list[str]:
        places = [parse_place(text) for text in value]
        if len(places) > SERVERS_MAX:
            raise refuse(f"{len(places)} servers. The node holds {SERVERS_MAX}; write fewer")
        if len(set(places)) < len(places):
            raise refuse("a server stands twice. Write each once")
        return value

    @field_validator("user")
    @classmethod
    def _is_user(cls, value: str | None) -> str | None:
        if value is not None and not CREDENTIAL.fullmatch(value):
            raise refuse(_credential("the user"))
        return value

    @field_validator("password_env")
    @classmethod
    def _names_password(cls, value: str | None) -> str | None:
        return check_variable(value, PASSWORD_ENV, "password")

    @field_validator("nkey_env")
    @classmethod
    def _names_nkey(cls, value: str | None) -> str | None:
        return check_variable(value, NKEY_ENV, "seed")

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.bot is None:
            if self.model_fields_set:
                raise refuse(MISSING_BOT, "bot")
            return self
        if not self.bot:
            raise refuse(MISSING_BOT, "bot")
        if not self.servers:
            raise refuse(f"missing. Write where NATS listens: servers = {EXAMPLE}", "servers")
        for way, keys in OWN_KEYS.items():
            for key in keys:
                if way != self.auth and getattr(self, key) is not None:
                    raise refuse(
                        f'auth is "{self.auth}". Write auth = "{way}", or leave this key out', key
                    )
        if self.auth == "user" and self.user is None:
            raise refuse('missing with auth = "user". Write the node\'s user at NATS', "user")
        for stem in ("password", "nkey"):
            if (
                getattr(self, f"{stem}_env") is not None
                and getattr(self, f"{stem}_file") is not None
            ):
                raise refuse(f"{stem}_env is given too. Write one of the two", f"{stem}_file")
        return self

    @property
    def enabled(self) -> bool:
        """Return whether the node is part of a fleet."""
        return self.bot is not None

    @property
    def enrols(self) -> bool:
        """Return whether the image holds no token and the node asks for it."""
        return self.enabled and self.enrol

    @property
    def places(self) -> tuple[NatsPlace, ...]:
        """Return where the servers listen."""
        return tuple(parse_place(text) for text in self.servers)

    def problems(self, data: Mapping[str, object], *, secure: bool) -> Iterator[tuple[str, str]]:
        """Yield dotted key and message of what does not fit the rest of the file.

        Args:
            data: All tables as they were read.
            secure: Whether the gateway is reached over TLS.
        """
        if not self.enabled:
            yield "fleet.bot", MISSING_BOT
        bot = data.get("bot")
        for key in ("token_env", "token_file"):
            if self.enrol and isinstance(bot, dict) and key in bot:
                yield f"bot.{key}", GIVEN_LATER
        if data.get("shards"):
            yield "shards", NO_SHARDS
        for dotted, harmless, message in NOT_IN_A_FLEET:
            section, _, key = dotted.partition(".")
            table = data.get(section)
            if isinstance(table, dict) and table.get(key, harmless) != harmless:
                yield dotted, message
        if secure:
            return
        either = "the node speaks TLS to the gateway and to NATS, or to neither. Write a wss:// URL"
        if self.handshake_first:
            yield "fleet.handshake_first", f"{either} under [gateway], or leave this key out"
        if any(place.tls for place in self.places):
            yield "fleet.servers", f"{either} under [gateway], or the servers without tls://"


def _credential(what: str) -> str:
    return (
        f"{what} must be 1 to {CREDENTIAL_MAX} printable characters without a space, a quote or a "
        "backslash"
    )


def read_credentials(
    fleet: FleetConfig, environ: Mapping[str, str], base: Path
) -> tuple[str, Nkey | None]:
    """Return the password, or the key, that the node logs in with.

    Args:
        fleet: The checked section.
        environ: The environment.
        base: Where relative paths begin.

    Raises:
        SecretError: It cannot be read, or is none.
    """
    if not fleet.enabled or fleet.auth == "none":
        return "", None
    stem, what, default = {
        "user": ("password", "password", PASSWORD_ENV),
        "nkey": ("nkey", "seed", NKEY_ENV),
    }[fleet.auth]
    text = read_secret(fleet, stem, what, default, environ, base)
    named = f"{stem}_file" if getattr(fleet, f"{stem}_file") is not None else f"{stem}_env"
    if text is None:
        raise SecretError(
            named,
            f'auth = "{fleet.auth}" needs the {what}. Set {default}, or write {stem}_env or '
            f"{stem}_file",
        )
    if fleet.auth == "user":
        if not CREDENTIAL.fullmatch(text):
            raise SecretError(named, _credential("the password"))
        return text, None
    try:
        return "", parse_nkey(text)
    except ValueError as error:
        raise SecretError(named, str(error)) from None
