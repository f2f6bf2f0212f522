"""What the nodes of a local fleet need: NATS with plan and records, a gateway, a configuration for all."""

from __future__ import annotations

import contextlib
import secrets
import shlex
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pxe.gateway.certificates import make_chain
from pxe.gateway.cli_support import LOCAL_NAMES
from pxe.gateway.load import LoadOptions
from pxe.gateway.options import GatewayOptions
from pxe.gateway.protocol import PROFILES
from pxe.gateway.server import GatewayServer
from pxe.nats import NatsOptions, NatsServer, NatsUser, node_permissions
from pxe.node import NicModel
from toolchain.cli.fleet.change import Change, Changer, complete
from toolchain.cli.fleet.connect import (
    BOT_ENV,
    USER_ENV,
    Login,
    connected,
)
from toolchain.cli.fleet.records import split
from toolchain.cli.fleet.status import server_time
from toolchain.cli.fleet.streams import EVENT_BYTES, make_streams
from toolchain.cli.fleet.watch import View
from toolchain.cli.fleet.words import CA_ENV, PASSWORD_ENV, URL_ENV
from toolchain.cli.run_config import with_control_key, with_fleet, with_gateway, with_lines

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from toolchain.config import NodeConfig

BOT = "local"
OPERATOR, NODE_USER = "operator", "node"
ALLOWANCE = 1000


@dataclass(frozen=True)
class FleetRunOptions:
    """What to run.

    Attributes:
        config: All nodes'; gateway and fleet are replaced by the local ones.
        nodes: How many.
        total: Shards of the bot.
        slots: Slots of the plan.
        cap: Slots that a node may hold.
        lease_ms: How long a lease lasts.
        target: A key of `images.TARGETS`.
        memory_mb: RAM of each node in MiB.
        nic: The device of each.
        tls: Whether gateway and NATS serve TLS, with a CA that the image trusts.
        load: Dispatches a second of the gateway.
        publishes: Whether nodes publish their events; None = as the configuration says.
        name: Nodes are called this, a dash and their number.
    """

    config: NodeConfig
    nodes: int
    total: int
    slots: int
    cap: int
    lease_ms: int
    target: str = "bios"
    memory_mb: int = 32
    nic: NicModel = NicModel.TRANSITIONAL
    tls: bool = True
    load: float = 0.0
    publishes: bool | None = None
    name: str = "node"


@dataclass(frozen=True)
class FleetServices:
    """What runs beside the nodes.

    Attributes:
        nats: The server.
        gateway: The gateway.
        view: The records.
        clock_offset: The server's clock less `time.monotonic()`.
        config: The configuration of every node.
        environment: A file of shell variables with which `shardfw fleet` reaches this fleet.
    """

    nats: NatsServer
    gateway: GatewayServer
    view: View
    clock_offset: float
    config: NodeConfig
    environment: Path


def _write_environment(folder: Path, url: str, password: str, ca: Path | None) -> Path:
    """Write the variables with which an operator's commands log in; only this user may read them."""
    values = {BOT_ENV: BOT, URL_ENV: url, USER_ENV: OPERATOR, PASSWORD_ENV: password}
    if ca is not None:
        values[CA_ENV] = str(ca)
    file = folder / "fleet.env"
    file.touch(mode=0o600)
    file.write_text(
        "".join(f"export {name}={shlex.quote(value)}\n" for name, value in values.items())
    )
    return file


def _gateway_options(options: FleetRunOptions) -> GatewayOptions:
    return GatewayOptions(
        shards=options.total,
        max_concurrency=options.config.gateway.max_concurrency,
        profile=PROFILES[options.config.gateway.profile],
        load=LoadOptions(rate=options.load) if options.load else None,
    )


@contextlib.asynccontextmanager
async def fleet_services(options: FleetRunOptions, folder: Path) -> AsyncIterator[FleetServices]:
    """Start NATS and gateway, write plan and records; end both at the end.

    Args:
        options: What shall run.
        folder: Private; the CA and the environment go there.

    Raises:
        NodeError: nats-server did not start.
        FleetError: NATS does not do what it should.
        RecordError: The plan cannot be.
    """
    cut = split(options.total, options.slots)
    concurrency = options.config.gateway.max_concurrency
    change = Change(options.total, cut, concurrency, options.lease_ms)
    chain = make_chain(LOCAL_NAMES) if options.tls else None
    passwords = {user: secrets.token_hex(16) for user in (OPERATOR, NODE_USER)}
    permissions = {NODE_USER: node_permissions(BOT, "*")}
    users = tuple(NatsUser(u, p, "", permissions.get(u)) for u, p in passwords.items())
    ca = None if chain is None else folder / "ca.pem"
    if chain is not None and ca is not None:
        ca.write_bytes(chain.root)
    context = None if chain is None else chain.context()
    async with (
        NatsServer(NatsOptions(users, chain)) as nats,
        GatewayServer(_gateway_options(options), ssl_context=context) as gateway,
        connected(Login((nats.url,), OPERATOR, passwords[OPERATOR], ca=ca), BOT) as fleet,
    ):
        await make_streams(fleet, 1, EVENT_BYTES)
        view = View(fleet)
        await view.sync()
        await Changer(view, lambda _: None).change(change, wait_ms=0)
        await complete(view, lambda _: None, ALLOWANCE)
        root = None if chain is None else chain.root
        config = with_gateway(with_control_key(options.config), gateway.port, root)
        login = NODE_USER, passwords[NODE_USER]
        yield FleetServices(
            nats,
            gateway,
            view,
            await server_time(fleet) - time.monotonic(),
            with_lines(
                with_fleet(config, BOT, nats.port, login, options.cap, publishes=options.publishes)
            ),
            _write_environment(folder, nats.url, passwords[OPERATOR], ca),
        )
