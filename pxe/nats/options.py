"""How a nats-server is set up: who may log in and do what, TLS, what it bears."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pxe.gateway.certificates import ServerChain

MAX_PAYLOAD_BYTES: Final = 8 << 20
MEMORY_BYTES: Final = 256 << 20


@dataclass(frozen=True)
class Place:
    """Where a server runs.

    Attributes:
        host: The address on which it listens. A QEMU node on its user network finds 127.0.0.1 at
            10.0.2.2.
        prefix: A command to put in front, such as `ip netns exec NAME`.
        route_port: Where the other servers of a cluster reach it; 0 = a port that is free here.
    """

    host: str = "127.0.0.1"
    prefix: tuple[str, ...] = ()
    route_port: int = 0


HERE: Final = Place()


@dataclass(frozen=True)
class NatsUser:
    """Who may log in.

    Attributes:
        user: Name; empty with `nkey`.
        password: Password; empty with `nkey`.
        nkey: Public key as text, U...; whoever signs with its seed is let in.
        permissions: NATS's `permissions`; None = everything.
    """

    user: str = ""
    password: str = field(default="", repr=False)
    nkey: str = ""
    permissions: Mapping[str, object] | None = None

    def render(self) -> dict[str, object]:
        """Return the entry of `authorization.users`."""
        who: dict[str, object] = (
            {"nkey": self.nkey} if self.nkey else {"user": self.user, "password": self.password}
        )
        return who if self.permissions is None else who | {"permissions": self.permissions}


@dataclass(frozen=True)
class NatsOptions:
    """How a server is set up.

    Attributes:
        users: Who may log in; empty = everybody.
        tls: The certificates that it shows; None = no TLS.
        handshake_first: Whether TLS begins before INFO.
        sync_always: Whether a write is on the disk before it is acknowledged.
        max_payload: Bytes of a message's headers and body.
        memory_bytes: What all streams in memory may need.
        extra: More of NATS's configuration, on the top level.
        program: Path of another nats-server; empty = the one that is installed.
    """

    users: tuple[NatsUser, ...] = ()
    tls: ServerChain | None = None
    handshake_first: bool = False
    sync_always: bool = True
    max_payload: int = MAX_PAYLOAD_BYTES
    memory_bytes: int = MEMORY_BYTES
    extra: Mapping[str, object] = field(default_factory=dict)
    program: str = ""


def node_permissions(bot: str, node: str) -> dict[str, object]:
    """Return the least that a node's user must be allowed.

    Args:
        bot: The fleet's bot.
        node: The node's name; `*` for a user that all nodes share.
    """
    return {
        "publish": [
            f"$KV.shardfw.{bot}.ctl.lease.*",
            f"$KV.shardfw.{bot}.ctl.ident.*",
            f"$KV.shardfw.{bot}.ctl.budget",
            f"$KV.shardfw.{bot}.sess.*",
            f"$JS.API.CONSUMER.CREATE.KV_shardfw.*.$KV.shardfw.{bot}.ctl.>",
            f"$JS.API.DIRECT.GET.KV_shardfw.$KV.shardfw.{bot}.sess.*",
            f"shardfw.{bot}.ev.>",
            f"shardfw.{bot}.log.{node}",
            f"shardfw.{bot}.diag.{node}",
            f"shardfw.{bot}.enrol.{node}",
        ],
        "subscribe": [
            f"_I.{node}.>",
            f"_W.{node}.>",
            f"shardfw.{bot}.cmd.>",
            f"shardfw.{bot}.diag.{node}",
            f"_E.{node}.*.*.*",
        ],
        "allow_responses": True,
    }


def operator_permissions(bot: str) -> dict[str, object]:
    """Return the least that the user of `shardfw fleet` must be allowed.

    Args:
        bot: The fleet's bot.
    """
    return {
        "publish": [
            "$JS.API.STREAM.INFO.*",
            "$JS.API.STREAM.CREATE.*",
            f"$JS.API.CONSUMER.CREATE.KV_shardfw.*.$KV.shardfw.{bot}.>",
            f"$JS.API.CONSUMER.CREATE.SHARDFW_EV.*.shardfw.{bot}.ev.>",
            f"$KV.shardfw.{bot}.ctl.>",
            "_E.>",
        ],
        "subscribe": ["_INBOX.>", f"shardfw.{bot}.enrol.*", f"shardfw.{bot}.diag.*"],
    }


def reader_permissions(bot: str) -> dict[str, object]:
    """Return what a program of the bot may do: read events and logs, and give commands to shards.

    Args:
        bot: The fleet's bot.
    """
    return {
        "publish": [
            "$JS.API.STREAM.INFO.SHARDFW_EV",
            "$JS.API.CONSUMER.INFO.SHARDFW_EV.*",
            f"$JS.API.CONSUMER.CREATE.SHARDFW_EV.*.shardfw.{bot}.ev.>",
            "$JS.API.CONSUMER.MSG.NEXT.SHARDFW_EV.*",
            "$JS.ACK.SHARDFW_EV.>",
            f"shardfw.{bot}.cmd.*",
        ],
        "subscribe": ["_INBOX.>", f"shardfw.{bot}.log.*"],
    }


def enrol_permissions(bot: str) -> dict[str, object]:
    """Return what the user may do that an image without a token holds: announce itself, and listen.

    Args:
        bot: The fleet's bot.
    """
    return {"publish": [f"shardfw.{bot}.enrol.*"], "subscribe": ["_E.*.*.*.*"]}
