"""What happened in a run, line by line: what the node logged, what the gateway saw, what went wrong."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from emulator.simulation.clock import NS_PER_S
from emulator.simulation.node import parse_line
from emulator.simulation.packet import (
    ETHERTYPE_ARP,
    ETHERTYPE_IPV4,
    PROTOCOL_TCP,
    PROTOCOL_UDP,
    Ethernet,
    Ipv4,
    PacketError,
    Tcp,
    Udp,
    ip_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.simulation.faults import Event, Rule
    from emulator.simulation.internet import Internet
    from emulator.simulation.leased import LeasedFleet, Member
    from emulator.simulation.nats.stream import Message, Stream
    from emulator.simulation.node import ImageNode
    from emulator.simulation.rig import Rig
    from emulator.simulation.wire import Segment
    from emulator.simulation.world import Attachment, World
    from pxe.gateway import GatewayEvent

RECORD_SHOWN = 120
"""Characters of a record or an event."""


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened.

    Attributes:
        at_ns: virtual time.
        source: node, gateway, nats, fault, plan or verdict.
        shard: which shard, or None.
        text: what.
    """

    at_ns: int
    source: str
    shard: int | None
    text: str

    def __str__(self) -> str:
        shard = "" if self.shard is None else str(self.shard)
        return f"{self.at_ns / NS_PER_S:12.6f} {self.source:8}{shard:>4}  {self.text}"


class Teller:
    """Tells what nodes log, what their gateway sees, and what a plan does to them.

    Args:
        world: whose clock dates the lines.
        segment: whose faults are told.
        tell: called with each line, in order of time.
    """

    def __init__(self, world: World, segment: Segment, tell: Callable[[Line], None]) -> None:
        self._world, self._segment, self._tell = world, segment, tell

    def _listen(self, internet: Internet) -> None:
        self._world.on_event.append(self._take_event)
        self._segment.on_hit = self._take_hit
        for gateway in internet.gateways.values():
            events, core = gateway.events, gateway.core
            core.observer = partial(self._take_gateway, events)

    def _add(self, source: str, shard: int | None, text: str) -> None:
        self._tell(Line(self._world.now_ns, source, shard, text))

    def _say(self, lines: list[str], name: str = "") -> None:
        """Tell lines of a node's log."""
        for line in lines:
            words = parse_line(line)
            shard = int(words.pop("shard")) if "shard" in words else None
            level, code = words.pop("level", ""), words.pop("code", "")
            words.pop("t", None)
            said = words.pop("text", "")
            rest = " ".join(f"{key}={value}" for key, value in words.items())
            self._add("node", shard, " ".join(filter(None, (name, level, code, rest, said))))

    def _take_gateway(self, events: list[GatewayEvent], event: GatewayEvent) -> None:
        events.append(event)
        rest = " ".join(f"{key}={value}" for key, value in event.fields.items())
        shown = f"{event.name} conn={event.connection} {rest}".rstrip()
        self._add("gateway", event.shard, shown)

    def _take_event(self, event: Event) -> None:
        self._add("plan", None, f"{event.name} {event.argument}".rstrip())

    def _take_hit(self, rule: Rule, frame: bytes) -> None:
        shard, text = self._frame(frame)
        self._add("fault", shard, f"{rule.action} {text}")

    def _frame(self, frame: bytes) -> tuple[int | None, str]:
        """Return the shard that a frame belongs to, if one is known by its port, and what it is."""
        try:
            ether = Ethernet.decode(frame)
            if ether.ethertype == ETHERTYPE_ARP:
                return None, "arp"
            if ether.ethertype != ETHERTYPE_IPV4:
                return None, f"type 0x{ether.ethertype:04x}"
            packet = Ipv4.decode(ether.payload)
            between = f"{ip_text(packet.src)} to {ip_text(packet.dst)}"
            if packet.protocol == PROTOCOL_TCP:
                segment = Tcp.decode(packet.payload, packet.src, packet.dst)
                return self._shard_of(packet, segment), f"tcp {segment}"
            if packet.protocol == PROTOCOL_UDP:
                udp = Udp.decode(packet.payload, packet.src, packet.dst)
                return None, f"udp {between} port {udp.src_port}>{udp.dst_port}"
        except PacketError as error:
            return None, f"of {len(frame)} bytes: {error}"
        return None, f"ip {between} protocol {packet.protocol}"

    def _shard_of(self, packet: Ipv4, segment: Tcp) -> int | None:
        """Return whose connection a segment belongs to."""
        raise NotImplementedError


class Timeline(Teller):
    """Tells what happens to a rig, once it listens.

    Args:
        rig: not yet run.
        tell: called with each line, in order of time.
    """

    def __init__(self, rig: Rig, tell: Callable[[Line], None]) -> None:
        super().__init__(rig.world, rig.segment, tell)
        self._rig = rig
        self._seen = 0
        self._node = rig.node

    def listen(self) -> None:
        """Tell everything from now on, after what the node is configured for."""
        self._add("plan", None, f"node {self._rig.facts.told()}")
        self._rig.after_turn.append(self._take_log)
        self._listen(self._rig.internet)

    def _take_log(self, _attachment: Attachment) -> None:
        node = self._rig.node
        lines = node.serial.lines
        if node is not self._node:
            self._node, self._seen = node, 0
        self._say(lines[self._seen :])
        self._seen = len(lines)

    def _shard_of(self, _packet: Ipv4, segment: Tcp) -> int | None:
        ports = {segment.src_port, segment.dst_port}
        rows = self._rig.invariants.rows
        return next((r.shard_id for r in rows if r.tcp_local_port in ports), None)


class FleetTimeline(Teller):
    """Tells what happens to a leased fleet: every node's log, and every record that became true.

    Args:
        fleet: not yet run.
        tell: called with each line, in order of time.
    """

    def __init__(self, fleet: LeasedFleet, tell: Callable[[Line], None]) -> None:
        super().__init__(fleet.world, fleet.segment, tell)
        self._fleet = fleet
        self._seen: dict[str, tuple[ImageNode, int]] = {}

    def listen(self) -> None:
        """Tell everything from now on, after the shape of the fleet."""
        self._add("plan", None, f"fleet {self._fleet.shape}")
        for station in self._fleet.stations:
            station.after_turn.append(partial(self._take_log, station))
        self._fleet.nats.cluster.on_commit.append(self._take_record)
        if self._fleet.desk is not None:
            self._fleet.desk.told.append(partial(self._add, "nats", None))
        self._listen(self._fleet.internet)

    def _take_log(self, station: Member, _attachment: Attachment) -> None:
        node, lines = station.node, station.node.serial.lines
        last, seen = self._seen.get(station.name, (node, 0))
        self._say(lines[seen if last is node else 0 :], station.name)
        self._seen[station.name] = node, len(lines)

    def _take_record(self, _stream: Stream, message: Message) -> None:
        shard = message.subject.split(".")[-2 if ".ev." in message.subject else -1]
        about = shard if not message.subject.count(".ctl.") else ""
        body = message.body[:RECORD_SHOWN].decode("latin-1")
        text = f"{message.seq} {message.subject} {body}"
        self._add("nats", int(about) if about.isdecimal() else None, text)

    def _shard_of(self, packet: Ipv4, segment: Tcp) -> int | None:
        for station in self._fleet.stations:
            if station.node.own_ip() in (packet.src, packet.dst):
                for port in (segment.src_port, segment.dst_port):
                    if port in station.ports:
                        return station.ports[port][0]
        return None
