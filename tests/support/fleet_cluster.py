"""Three nodes in QEMU, a gateway, and three NATS servers on hosts of their own, all on one segment."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import nats.errors
import nats.js.errors

from pxe.dnsmasq import BootServer, Dnsmasq
from pxe.gateway.certificates import make_chain
from pxe.gateway.load import LoadOptions
from pxe.gateway.server import GatewayServer
from pxe.nats import NatsCluster, NatsOptions, NatsUser, Place, is_wanted, node_permissions
from pxe.node import DirectBoot, Node, NodeOptions
from pxe.segment import HOST_ADDRESS
from tests.support.fleet_cli import BOT, fleet
from tests.support.site import quiet
from toolchain.cli import images
from toolchain.cli.fleet.change import LEASE
from toolchain.cli.fleet.connect import EVENTS, STREAM, USER_ENV, Login, connected
from toolchain.cli.fleet.records import Lease
from toolchain.cli.fleet.words import CA_ENV, PASSWORD_ENV
from toolchain.cli.fleet_events import EventAccount, follow
from toolchain.cli.run_config import LOCAL_CA, with_lines
from toolchain.config import load_config
from toolchain.config.secret import PASSWORD_ENV as IMAGE_PASSWORD_ENV

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path
    from types import TracebackType

    from pxe.hosts import Hosts
    from pxe.nats import NatsServer
    from pxe.segment import Segment

NODES, SHARDS, SLOTS, CAP = 3, 12, 6, 3
"""Two nodes together have room for all."""
EVEN = SLOTS // NODES
RATE = 60.0
HEARTBEAT_MS = 10_000
"""A node that went on too long is heard within this time."""
GRACE_MS = 60_000
OPERATOR, NODE_USER = "operator", "node"
MAC = "52:54:00:c1:05:{:02x}"
ROUTE_PORT = 6222
PATIENCE_S = 240.0
"""Longest wait for anything here; a loaded machine of two cores needs a fraction of it."""
POLL_S = 0.05
ANSWER_S = 2


@dataclass(frozen=True)
class Outcome:
    """What happened meanwhile.

    Attributes:
        overlaps: Times in which two connections spoke for one shard.
        resumed: Sessions that were resumed.
        identified: Sessions that began.
        claimed: Slots that were claimed anew.
        sent: Dispatches of the gateway.
        lost: Those that the reader never got.
        doubled: Those that it got again.
    """

    overlaps: int
    resumed: int
    identified: int
    claimed: int
    sent: int
    lost: int
    doubled: int


class FleetCluster:
    """The site; use it as `async with`, inside segment and hosts.

    Attributes:
        hosts: Where the servers run.
        cluster: The servers.
        gateway: The gateway.
        nodes: Name in the fleet to node.
        addresses: Name in the fleet to IPv4 address.
        account: What the gateway published and a reader got.
    """

    def __init__(self, segment: Segment, hosts: Hosts, folder: Path) -> None:
        self.hosts = hosts
        self.nodes: dict[str, Node] = {}
        self.addresses: dict[str, str] = {}
        self.account = EventAccount()
        self._leases: dict[int, tuple[Lease, int]] = {}
        self._segment, self._folder = segment, folder
        self._stack = contextlib.AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self._passwords = {user: secrets.token_hex(16) for user in (OPERATOR, NODE_USER)}
        self._chain = make_chain((HOST_ADDRESS, *hosts.addresses))

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def _start(self) -> None:
        permissions = {NODE_USER: node_permissions(BOT, "*")}
        users = tuple(
            NatsUser(user, password, permissions=permissions.get(user))
            for user, password in self._passwords.items()
        )
        hosts = zip(self.hosts.addresses, self.hosts.prefixes, strict=True)
        places = [Place(address, prefix, ROUTE_PORT) for address, prefix in hosts]
        cluster = NatsCluster(NatsOptions(users, self._chain), places)
        self.cluster = await self._stack.enter_async_context(cluster)
        options = quiet(
            shards=SHARDS,
            max_concurrency=SHARDS,
            guilds_per_shard=1,
            heartbeat_interval_ms=HEARTBEAT_MS,
            heartbeat_grace_ms=GRACE_MS,
            load=LoadOptions(rate=RATE),
        )
        gateway = GatewayServer(options, host=HOST_ADDRESS, ssl_context=self._chain.context())
        gateway.core.roster.on_keep = self.account.published
        self.gateway = await self._stack.enter_async_context(gateway)
        (self._folder / "ca.pem").write_bytes(self._chain.root)
        cut = ["--total", str(SHARDS), "--slots", str(SLOTS), "--max-concurrency", str(SHARDS)]
        await self.ask("init", *cut, "--new")
        watching = await self._stack.enter_async_context(connected(self._login, BOT))
        reading = await self._stack.enter_async_context(connected(self._login, BOT))
        self._fleet = watching
        self._beside(self._poll())
        self._beside(follow(reading, self.account))
        await self._boot()

    @property
    def _login(self) -> Login:
        ca, password = self._folder / "ca.pem", self._passwords[OPERATOR]
        return Login(tuple(self.cluster.urls), OPERATOR, password, ca=ca)

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Do some work until the end; `until` raises what it raises."""
        task = asyncio.ensure_future(work)
        self._tasks.append(task)

        async def stop() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self._stack.push_async_callback(stop)

    async def _poll(self) -> None:
        """Ask the leader for every lease, again and again.

        A watch would not do: on a server that lost the others it goes on, and shows what is past.
        """
        client = self._fleet.client
        stream = client.jetstream(timeout=ANSWER_S)
        while is_wanted():
            for slot in range(SLOTS):
                try:
                    found = await stream.get_last_msg(STREAM, f"$KV.shardfw.{BOT}.{LEASE}{slot}")
                except (nats.errors.Error, TimeoutError):
                    await client.force_reconnect()
                    continue
                finally:
                    await asyncio.sleep(POLL_S / SLOTS)
                value = (found.data or b"").decode()
                self._leases[slot] = Lease.parse(value), found.seq or 0

    def _image(self) -> Path:
        """Write the one image that all nodes boot: each takes its name from its card."""
        settings = {
            "gateway.url": f"wss://{HOST_ADDRESS}:{self.gateway.port}/",
            "fleet.bot": BOT,
            "fleet.servers": [f"{s.place.host}:{s.port}" for s in self.cluster.servers],
            "fleet.auth": "user",
            "fleet.user": NODE_USER,
            "fleet.cap": CAP,
            "fleet.publish": True,
            "fleet.enrol": False,
        }
        secret = {"SHARDFW_TOKEN": "test-token", IMAGE_PASSWORD_ENV: self._passwords[NODE_USER]}
        config = load_config(None, dict(os.environ) | secret, settings)
        config = replace(config, extra_anchors=((LOCAL_CA, self._chain.root),))
        file = self._folder / "node.bin"
        template = images.cached_template("direct") or images.fresh_template("direct")
        file.write_bytes(images.complete(template, with_lines(config)))
        return file

    async def _boot(self) -> None:
        boot = DirectBoot(await asyncio.to_thread(self._image))
        dhcp = Dnsmasq(self._segment, BootServer(self._folder, "none"))
        server = await self._stack.enter_async_context(dhcp)
        for number, tap in enumerate(self._segment.taps, 1):
            mac = MAC.format(number)
            name = f"n{mac.replace(':', '')}"
            self.nodes[name] = Node(NodeOptions(tap, boot=boot, mac=mac), name=name)
            await self._stack.enter_async_context(self.nodes[name])
        for name, node in self.nodes.items():
            await node.wait_line(r"code=bus\.up link=control", PATIENCE_S)
            self.addresses[name] = server.address_of(node.options.mac)
        await self.until(self.is_whole, "every slot held and every shard connected")
        await self._spread()

    async def _spread(self) -> None:
        """Let each node have as many slots as the others."""
        while len(self.slots_of(most := max(self.nodes, key=self._load))) > EVEN:
            await self.move(self.slots_of(most)[0], min(self.nodes, key=self._load))

    def _load(self, name: str) -> int:
        return len(self.slots_of(name))

    # What a test asks.

    async def ask(self, *words: str) -> Any:
        """Do what an operator does; return what the command prints as JSON."""
        environ = {
            USER_ENV: OPERATOR,
            PASSWORD_ENV: self._passwords[OPERATOR],
            CA_ENV: str(self._folder / "ca.pem"),
        }
        result = await fleet(",".join(self.cluster.urls), *words, "--json", **environ)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    async def move(self, slot: int, name: str) -> None:
        """Let a node have a slot, and wait until it has its shards."""
        await self.ask("move", str(slot), name)
        await self.until(
            lambda: slot in self.slots_of(name) and self.is_whole(), f"slot {slot} at {name}"
        )

    def held(self) -> dict[int, Lease]:
        """Return the leases that are held, by slot."""
        return {slot: lease for slot, (lease, _) in sorted(self._leases.items()) if lease.held}

    def slots_of(self, name: str) -> list[int]:
        """Return the slots that a node holds."""
        return [slot for slot, lease in self.held().items() if lease.node == name]

    def is_whole(self) -> bool:
        """Return whether every slot is held, and its holder has each of its shards connected."""
        held, shards = self.held(), self.gateway.stats().shards
        return len(held) == SLOTS and all(
            shards[number].connected and self._speaker(number) == self.addresses[lease.node]
            for lease in held.values()
            for number in range(lease.slot.start, lease.slot.end)
        )

    def _speaker(self, shard: int) -> str:
        """Return the address from which a shard spoke last."""
        tenures = self.gateway.core.ownership.tenures(shard)
        return tenures[-1].peer.partition(":")[0] if tenures else ""

    async def renewed(self) -> None:
        """Wait until every lease was written again: the store takes what it is given."""
        before = {slot: revision for slot, (_, revision) in self._leases.items()}

        def all_newer() -> bool:
            return all(revision > before[slot] for slot, (_, revision) in self._leases.items())

        await self.until(all_newer, "every lease renewed")

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until something holds."""
        end = time.monotonic() + PATIENCE_S
        while not holds():
            for task in self._tasks:
                if task.done():
                    task.result()
            assert time.monotonic() < end, f"not {what} after {PATIENCE_S:g} s. {self.tail()}"
            await asyncio.sleep(POLL_S)

    async def leader(self, *, without: NatsServer | None = None) -> NatsServer:
        """Return the server that leads the records."""
        return await self.cluster.leader_of(STREAM, without=without)

    async def leader_of_both(self) -> NatsServer:
        """Let the leader of the records lead the events, too, once all three are well; return it."""
        await self.cluster.settled(PATIENCE_S)
        leader = await self.leader()
        wish = json.dumps({"placement": {"preferred": leader.name}}).encode()
        while await self.cluster.leader_of(EVENTS) is not leader:
            with contextlib.suppress(
                nats.js.errors.APIError
            ):  # it is no replica that is up to date yet
                await self._fleet.api(f"STREAM.LEADER.STEPDOWN.{EVENTS}", wish)
            await asyncio.sleep(POLL_S)
        return leader

    @contextlib.asynccontextmanager
    async def judged(self) -> Any:
        """Judge what happens meanwhile, once the fleet is whole and the reader has got everything.

        Gives a list into which the outcome comes at the end.
        """
        core, account = self.gateway.core, self.account
        before, sent, doubled = core.stats(), len(account.sent), account.doubled
        overlaps = len(core.ownership.overlaps)
        generations = {slot: lease.generation for slot, lease in self.held().items()}
        found: list[Outcome] = []
        yield found
        await self.until(self.is_whole, "the fleet whole again")
        wanted = frozenset(account.missing)
        with contextlib.suppress(AssertionError):
            await self.until(lambda: not wanted & account.missing, "every event read")
        now = core.stats()
        found.append(
            Outcome(
                len(core.ownership.overlaps) - overlaps,
                now.total("resumes") - before.total("resumes"),
                now.total("identifies") - before.total("identifies"),
                sum(lease.generation - generations[slot] for slot, lease in self.held().items()),
                len(account.sent) - sent,
                len(wanted & account.missing),
                account.doubled - doubled,
            )
        )

    def tail(self) -> str:
        """Return the last lines of every node, for an error message."""
        parts = []
        for name, node in self.nodes.items():
            lines = "".join(f"\n    {x.seconds:8.3f} {x.text}" for x in node.lines[-30:])
            parts.append(f"\n  {name} holds {self.slots_of(name)}:{lines}")
        return "".join(parts)
