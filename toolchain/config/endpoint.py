"""Where a node may connect: hosts, request paths, and the services that take TLS alone."""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address
from urllib.parse import urlsplit

from pydantic_core import PydanticCustomError

MAX_PATH_BYTES = 256
MAX_AGENT_BYTES = 64
DEFAULT_AGENT = "DiscordBot (shardfw, 0.1)"
MAX_NAME_BYTES = 253  # RFC 1035 2.3.4, written form without the root
# This machine as a QEMU node on its user network sees it.
QEMU_HOST = "10.0.2.2"


def refuse(message: str, key: str = "") -> PydanticCustomError:
    """Return the error for a value of the right type that cannot be used.

    Args:
        message: what is wrong and what to write instead; no braces.
        key: the key to blame, when the check belongs to a whole section.
    """
    return PydanticCustomError("refused", "{message}", {"message": message, "key": key})


def to_address(value: object) -> object:
    """Turn a dotted quad into an address; pass anything else through to the type check."""
    if not isinstance(value, str):
        return value
    try:
        return IPv4Address(value)
    except ValueError:
        raise refuse(f"{value!r} is not an IPv4 address. Write four numbers: 192.0.2.7") from None


@dataclass(frozen=True)
class Service:
    """A service on the open network: it is reached over TLS alone.

    Attributes:
        profile: Whose rules it follows.
        domains: Each of its hosts is one of them, or below one.
        gateway: Where its gateway is.
        discovery: Who tells that.
        agent: Pattern of the User-Agent that it wants.
        agent_form: That in words.
    """

    profile: str
    domains: tuple[str, ...]
    gateway: str
    discovery: str
    agent: str = ".*"
    agent_form: str = ""


SERVICES = (
    Service(
        "discord",
        ("discord.gg", "discord.com"),
        "wss://gateway.discord.gg/",
        "https://discord.com/api/v10/gateway/bot",
        r"DiscordBot \([^(),]+, [^(),]+\)( .+)?",
        "DiscordBot (url, version)",
    ),
    Service(
        "fluxer",
        ("fluxer.app",),
        "wss://gateway.fluxer.app/",
        "https://api.fluxer.app/.well-known/fluxer",
    ),
)


def service_of(host: str) -> Service | None:
    """Return the service whose host this is; None for a gateway of one's own."""
    for service in SERVICES:
        if any(host == domain or host.endswith("." + domain) for domain in service.domains):
            return service
    return None


@dataclass(frozen=True)
class Endpoint:
    """Where the shards connect.

    Attributes:
        host: a dotted quad or a DNS name in lower case, no trailing dot.
        port: TCP port.
        path: path and query of the request, at most 256 bytes of printable ASCII.
        scheme: "ws" or "wss" for a gateway, "http" or "https" for who is asked where the gateway is.
        address: the host as an address, None when it is a name to resolve.
    """

    host: str
    port: int
    path: str
    scheme: str = "ws"

    @property
    def address(self) -> IPv4Address | None:
        """Return the host as an address, None when it is a name."""
        return IPv4Address(self.host) if re.fullmatch(r"[0-9.]+", self.host) else None

    @property
    def secure(self) -> bool:
        """Return whether it is reached over TLS."""
        return self.scheme in ("wss", "https")

    @property
    def url(self) -> str:
        """Return the endpoint as one URL."""
        return f"{self.scheme}://{self.host}:{self.port}{self.path}"


def check_host(host: str) -> str:
    """Return a gateway host in lower case.

    Raises:
        PydanticCustomError: not a host, or this node itself.
    """
    host = host.lower().removesuffix(".")
    if ":" in host:
        raise refuse(f"{host!r} is an IPv6 address, and the node speaks IPv4 only. Write a.b.c.d")
    if re.fullmatch(r"[0-9.]+", host):
        address = to_address(host)
        if isinstance(address, IPv4Address) and (
            address.is_multicast or address.is_unspecified or address.is_loopback
        ):
            raise refuse(_unreachable(host))
        return host
    if host == "localhost" or host.endswith(".localhost"):
        raise refuse(_unreachable(host))
    label = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
    if len(host) > MAX_NAME_BYTES or not re.fullmatch(rf"{label}(\.{label})*", host):
        raise refuse(f"{host!r} is not a host. Write a DNS name or four numbers: 192.0.2.7")
    return host


def check_user_agent(text: str) -> str:
    """Return what a node may call itself in a header field.

    Raises:
        PydanticCustomError: too long, or more than printable ASCII.
    """
    if not re.fullmatch(rf"(?! )[ -~]{{1,{MAX_AGENT_BYTES}}}(?<! )", text):
        raise refuse(
            f"a User-Agent is printable ASCII of 1 to {MAX_AGENT_BYTES} bytes, without a blank at "
            'either end. Write one such as "DiscordBot (https://bot.example, 1.0)"'
        )
    return text


def _unreachable(host: str) -> str:
    return (
        f"{host} is not another machine: there it means the node itself. Write the gateway's "
        f"address; {QEMU_HOST} is this machine as a QEMU node sees it"
    )


def check_path(path: str) -> str:
    """Return a request path that can stand in an HTTP request line.

    Raises:
        PydanticCustomError: not a path, or too long.
    """
    if not re.fullmatch(r"/[!-~]*", path) or "#" in path:
        raise refuse(
            f"{path!r} is not a request path. Write one that begins with /, no spaces, no #"
        )
    if len(path) > MAX_PATH_BYTES:
        raise refuse(f"the path has {len(path)} bytes. Write at most {MAX_PATH_BYTES}")
    return path


def check_url(value: str, scheme: str, example: str) -> str:
    """Return a URL of a scheme, or of the same over TLS, whose host and path can be used.

    Raises:
        PydanticCustomError: another scheme, a user, or a host, port or path that cannot be used.
    """
    try:
        parts = urlsplit(value)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise refuse(f"{error}. Write a URL such as {example}") from None
    if parts.scheme not in (scheme, scheme + "s") or not host:
        kind = {"ws": "a WebSocket", "http": "an HTTP"}[scheme]
        raise refuse(f"this is not {kind} URL. Write one such as {example}")
    if parts.username or parts.password:
        raise refuse("a URL with a user or password. Write it without; the token is [bot]'s")
    if port == 0:
        raise refuse("port 0 is no port to connect to. Write the gateway's port, 1 to 65535")
    check_host(host)
    check_path(path_of(value))
    return value


def path_of(url: str) -> str:
    """Return path, query and fragment of a URL as they would go into the request line."""
    parts = urlsplit(url)
    query = f"?{parts.query}" if parts.query else ""
    fragment = f"#{parts.fragment}" if parts.fragment else ""
    return (parts.path or "/") + query + fragment
