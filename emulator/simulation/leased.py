"""A fleet whose nodes share the shards by leases in NATS, and whoever judges it.

    fleet = LeasedFleet(seed=1, shape=Shape(nodes=3, slots=3, total=6))
    fleet.until_owned()
    fleet.stations[1].power_off()
    fleet.run(40)

Each node has its own clock: another rate, another start. Every segment that a node sends to the gateway
is judged by who owns the shard in NATS's log at that instant; every turn by the node's invariants.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from emulator.simulation.clock import NS_PER_MS, NS_PER_S
from emulator.simulation.desk import Desk
from emulator.simulation.event_reader import EventReader
from emulator.simulation.fleet import Station
from emulator.simulation.fleet_facts import FleetFacts
from emulator.simulation.fleet_shape import (
    BOT,
    ENROL_LOGIN,
    NODE_LOGIN,
    OPERATOR_LOGIN,
    USERS,
    Shape,
)
from emulator.simulation.internet import Internet
from emulator.simulation.invariants import InvariantError
from emulator.simulation.nats.faults import plan_actions
from emulator.simulation.nats.server import ServerOptions
from emulator.simulation.node import TSC_AT_ZERO
from emulator.simulation.node_facts import MAC, NodeFacts
from emulator.simulation.operator import Operator
from emulator.simulation.orders import Orders
from emulator.simulation.ownership import Ownership
from emulator.simulation.packet import ETHERTYPE_IPV4, PROTOCOL_TCP, RST, ip
from emulator.simulation.peers.nats import NATS_PORT, NatsPeer
from emulator.simulation.rig import GATEWAY_ADDRESS
from emulator.simulation.wire import Segment
from emulator.simulation.world import NotReachedError, World
from firmware.layouts.bus import BUS, Bus
from firmware.layouts.fleet_config import BusAuth
from firmware.layouts.node import SLOT_ACTIVE
from firmware.layouts.policy import SessionProvider
from firmware.layouts.shard import ShardState
from pxe.gateway import GatewayOptions
from toolchain.cli.fleet.enrolment import NodeLogin

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.simulation.shard_row import ShardRow

NATS_ADDRESSES = ("198.51.100.1", "198.51.100.2", "198.51.100.3")
SPACING_NS = 5 * NS_PER_S
"""Between two Identifies of one key (decision 20)."""
NETWORK_HEADER, PROTOCOL_AT, DESTINATION_AT = 14, 23, 30


class Member(Station):
    """A node of a leased fleet, with the names that NATS and the wire know it by.

    Args:
        world: of the fleet.
        segment: where it is plugged in.
        name: of its port, of its node, and in records.
        facts: of the node.
        settings: of the station.

    Attributes:
        ports: by TCP port, shard and total of the connections that it has.
        identifies: by slot, whose life its row lives and its Identifies.
    """

    def __init__(
        self,
        world: World,
        segment: Segment,
        name: str,
        facts: NodeFacts,
        **settings: Any,  # noqa: ANN401 - those of Station
    ) -> None:
        self.name = name
        self.ports: dict[int, tuple[int, int]] = {}
        self.identifies: dict[int, tuple[tuple[int, int, int], int]] = {}
        self.judged: list[ShardRow] = []
        self._shards: tuple[object, ...] = ()
        self._held: list[ShardRow] = []
        super().__init__(world, segment, name, facts, **settings)

    def power_on(self) -> None:
        """Boot the node anew; nothing of its memory is left."""
        if not self.attachment.powered:
            self.ports, self.identifies = {}, {}
        super().power_on()

    @property
    def shards(self) -> list[ShardRow]:
        """The rows that hold a shard after the last turn."""
        invariants = self.invariants
        flags = bytes(invariants.flags)
        seen = invariants, invariants.changes, flags
        if seen != self._shards:
            self._shards = seen
            self._held = [row for row, n in zip(self.rows, flags, strict=True) if n & SLOT_ACTIVE]
        return self._held

    @property
    def holder(self) -> tuple[str, str]:
        """Node and boot, as records write them."""
        text = self.node.window(BUS)[Bus.boot_text.offset :][: Bus.boot_text.size]
        return self.name, bytes(text).decode("latin-1")


class LeasedFleet:
    """A world around such a fleet.

    Args:
        seed: decides everything.
        shape: of the fleet.
        facts: of all nodes; shards, keys, provider, mac and fleet are
            the fleet's own.
        watch: judge every store into a workspace.
        spacing_ns: least time between two Identifies of one key, whichever nodes send them.
        options: settings of the gateway.
    """

    def __init__(
        self,
        seed: int = 1,
        shape: Shape | None = None,
        *,
        facts: NodeFacts | None = None,
        watch: bool = False,
        spacing_ns: int = SPACING_NS,
        **options: Any,  # noqa: ANN401 - those of GatewayOptions
    ) -> None:
        self.shape = shape = shape or Shape()
        self._spacing_ns = spacing_ns
        self.world = World(seed)
        self.segment = Segment(self.world)
        self.internet = Internet(self.world, self.segment)
        facts = replace(
            facts or NodeFacts(),
            max_concurrency=shape.max_concurrency,
            session_provider=SessionProvider.BUS,
        )
        settings: dict[str, Any] = {
            "shards": shape.total, "max_concurrency": shape.max_concurrency, "token": facts.token,
        }  # fmt: skip
        self.gateway = self.internet.gateway(
            address=GATEWAY_ADDRESS, options=GatewayOptions(**(settings | options))
        )
        addresses = NATS_ADDRESSES[: shape.servers]
        users = USERS if shape.login else ()
        self.nats = NatsPeer(
            self.internet.router, addresses, random.Random(self.world.random.getrandbits(64)),
            options=ServerOptions(users=users),
        )  # fmt: skip
        for number, address in enumerate(addresses, 1):
            self.internet.dns.add(f"n{number}.test", address)
        self.operator = Operator(self.nats.cluster, BOT, shape.plan())
        self.ownership = Ownership(self.operator.stream, BOT, self.world.events)
        self.orders = Orders(self.operator)
        self.desk = self._desk(facts.token) if shape.enrol else None
        if shape.enrol:
            facts = replace(facts, token="")
        events = self.nats.cluster.streams["SHARDFW_EV"]
        self.events = EventReader(self.gateway.shared, events)
        self._identified: dict[int, int] = {}
        self.stations = [self._member(number, facts, watch=watch) for number in range(shape.nodes)]
        self.world.actions |= plan_actions(self.nats.cluster) | self._actions()

    def _desk(self, token: str) -> Desk:
        shape = self.shape
        return Desk(
            self.nats.cluster, BOT, token, random.Random(f"desk {self.world.seed}"),
            login=NodeLogin(*NODE_LOGIN) if shape.login else None, refused=shape.refused,
            user=OPERATOR_LOGIN if shape.login else ("", ""),
        )  # fmt: skip

    def _member(self, number: int, facts: NodeFacts, *, watch: bool) -> Member:
        shape = self.shape
        hosts = [
            f"n{n}.test" if shape.named else address
            for n, address in enumerate(NATS_ADDRESSES[: shape.servers], 1)
        ]
        first = number % len(hosts)
        servers = tuple((host, NATS_PORT) for host in hosts[first:] + hosts[:first])
        name = f"node{number}"
        user, password = ENROL_LOGIN if shape.login else ("", "")
        page = FleetFacts(
            bot=BOT, node=name, servers=servers, cap=shape.cap, publish=shape.publish,
            auth=BusAuth.USER if user else BusAuth.NONE, user=user, password=password,
        ).page()  # fmt: skip
        own = replace(
            facts, shards=shape.rows, mac=MAC[:5] + bytes((number + 1,)), fleet=page,
            link_port=NATS_PORT,
        )  # fmt: skip
        ppm = shape.clocks_ppm[number] if shape.clocks_ppm else 0
        tsc = shape.clocks_ns[number] if shape.clocks_ns else TSC_AT_ZERO
        member = Member(
            self.world, self.segment, name, own, watch=watch, clock_ppm=ppm, tsc_at_zero=tsc
        )
        member.after_turn.append(lambda _attachment: self._judge(member))
        return member

    def _actions(self) -> dict[str, Callable[[str], None]]:
        by_name = {station.name: station for station in self.stations}

        def replan(slots: str) -> None:
            self.operator.replan(self.shape.total, int(slots))

        def only(argument: str) -> None:
            name, server = argument.split()
            self.nats.restrict(by_name[name].node.own_ip(), int(server))

        def move(argument: str) -> None:
            slot, name = argument.split()
            self.orders.move(int(slot), name)

        return {
            "power-off": lambda name: by_name[name].power_off(),
            "power-on": lambda name: by_name[name].power_on(),
            "replan": replan,
            "drain": self.orders.drain,
            "undrain": self.orders.undrain,
            "move": move,
            "nats-only": only,
            "nats-any": lambda _argument: self.nats.release(),
        }

    # -- judging ----------------------------------------------------------------------------------
    def _judge(self, member: Member) -> None:
        """Judge what a node sent in its turn.

        Raises:
            InvariantError: somebody else owned the shard, or an Identify came too early.
        """
        before, shards = member.ports, member.shards
        if shards is member.judged and not member.node.turn_frames:
            return  # no row is another than after the last turn, and nothing left
        member.judged = shards
        member.ports = {
            row.tcp_local_port: (row.shard_id, row.shard_total)
            for row in shards
            if row.tcp_local_port
        }
        if shards and self.desk is not None and member.holder not in self.desk.approved:
            self.desk.judge_rows(member.holder, shards)
        for frame in member.node.turn_frames:
            port = _port_to_gateway(frame)
            if port is None:
                continue
            if self.desk is not None:
                self.desk.speaks(member.holder, f"sends to the gateway from port {port}")
            speaks = member.ports.get(port) or before.get(port)
            if speaks is None:
                raise InvariantError(
                    f"rule 'one owner': {member.name} sends to the gateway from port {port}, "
                    "which no shard of it has"
                )
            self.ownership.speaks(member.holder, *speaks, f"a segment from port {port}")
        for row in shards:
            life, before_now = member.identifies.get(row.slot, ((0, 0, 0), 0))
            member.identifies[row.slot] = row.life, row.identifies
            if row.identifies > (before_now if life == row.life else 0):
                self.identified(row.shard_id)

    def identified(self, shard: int) -> None:
        """Judge that a node has just sent an Identify.

        Raises:
            InvariantError: another one of its key left less than five seconds before.
        """
        key, now_ns = shard % self.shape.max_concurrency, self.world.now_ns
        last_ns = self._identified.get(key)
        self._identified[key] = now_ns
        if last_ns is not None and now_ns - last_ns < self._spacing_ns:
            raise InvariantError(
                f"rule 'identify spacing': shard {shard} identifies "
                f"{(now_ns - last_ns) / NS_PER_MS:g} ms after another one of key {key}"
            )

    # -- state ------------------------------------------------------------------------------------
    def rows_of(self, shard: int) -> list[tuple[Member, ShardRow]]:
        """Return who has a row for a shard, READY or not."""
        return [
            (member, row)
            for member in self.stations
            if member.attachment.powered
            for row in member.shards
            if row.shard_id == shard
        ]

    def owned(self) -> bool:
        """Say whether every shard is READY at the node that owns it, with the gateway's sequence."""
        if self.operator.busy:
            return False
        for shard, stats in enumerate(self.stats.shards):
            grant = self.ownership.owner(shard)
            if grant is None or not stats.connected:
                return False
            good = [
                row
                for member, row in self.rows_of(shard)
                if member.holder == grant.record.holder and row.state == ShardState.READY
            ]
            if not good or good[0].sequence != stats.sequence:
                return False
        return True

    def awake(self) -> bool:
        """Say whether no node is halted."""
        return not any(member.attachment.halted for member in self.stations)

    def joined(self) -> bool:
        """Say whether every node works as a member of the fleet, but those that are refused."""
        return self.desk is None or self.desk.all_joined(member.holder for member in self.stations)

    def published(self) -> bool:
        """Say whether a reader has everything of the sessions that go on."""
        newest = self._newest()
        going_on = {shard: (session.id, session.sequence) for shard, session in newest.items()}
        return len(newest) == self.shape.total and self.events.complete(going_on)

    def judge_events(self) -> None:
        """Judge what was published, at rest.

        Raises:
            InvariantError: an event is missing or doubled for a reader.
        """
        saved: dict[str, int] = {}
        for message in self.operator.stream.log:
            if message.subject.startswith(f"$KV.shardfw.{BOT}.sess."):
                _, _, _, sequence, session, _ = message.body.decode().split(" ")
                saved[session] = max(saved.get(session, 0), int(sequence))
        self.events.judge({session.id for session in self._newest().values()}, saved)

    def _newest(self) -> dict[int, Any]:
        """Return the newest session of each shard that has one at the gateway."""
        roster = self.gateway.core.roster
        return {shard: roster.of_shard(shard)[-1] for shard in roster.shards_with_session()}

    def until_published(self, within_s: float = 60) -> None:
        """Run until a reader has everything, and judge what it has.

        Raises:
            InvariantError: an event is missing or doubled for a reader.
        """
        try:
            self.world.run_until(self.published, within_ns=round(within_s * NS_PER_S))
        except NotReachedError:
            self.judge_events()  # a hole has a name
            raise
        self.judge_events()

    def until_owned(self, within_s: float = 120) -> None:
        """Run until every shard is."""
        self.world.run_until(self.owned, within_ns=round(within_s * NS_PER_S))

    def run(self, seconds: float) -> None:
        """Run for some virtual seconds."""
        self.world.run_for(round(seconds * NS_PER_S))

    @property
    def stats(self) -> Any:  # noqa: ANN401 - GatewayStats, whose package has no stubs here
        """What the gateway counted."""
        return self.gateway.core.stats()


_GATEWAY = ip(GATEWAY_ADDRESS)


def _port_to_gateway(frame: bytes) -> int | None:
    """Return the source port of a segment to the gateway; None for other frames and bare resets."""
    ethertype = int.from_bytes(frame[12:14], "big")
    if ethertype != ETHERTYPE_IPV4 or frame[PROTOCOL_AT] != PROTOCOL_TCP:
        return None
    if frame[DESTINATION_AT : DESTINATION_AT + 4] != _GATEWAY:
        return None
    at = NETWORK_HEADER + (frame[NETWORK_HEADER] & 15) * 4
    end = NETWORK_HEADER + int.from_bytes(frame[NETWORK_HEADER + 2 : NETWORK_HEADER + 4], "big")
    payload = end - at - (frame[at + 12] >> 4) * 4
    if frame[at + 13] & RST and not payload:
        return None
    return int.from_bytes(frame[at : at + 2], "big")
