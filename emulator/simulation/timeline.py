"""What happened in a run, line by line: what the node logged, what the gateway saw, what went wrong."""

from __future__ import annotations

from dataclasses import dataclass
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
    from emulator.simulation.rig import Rig
    from emulator.simulation.world import Attachment
    from pxe.gateway import GatewayEvent


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened.

    Attributes:
        at_ns: virtual time.
        source: node, gateway, fault, plan or verdict.
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


class Timeline:
    """Tells what happens to a rig, once it listens.

    Args:
        rig: not yet run.
        tell: called with each line, in order of time.
    """

    def __init__(self, rig: Rig, tell: Callable[[Line], None]) -> None:
        self._rig = rig
        self._tell = tell
        self._seen = 0
        self._node = rig.node

    def listen(self) -> None:
        """Tell everything from now on, after what the node is configured for."""
        rig = self._rig
        self._add("plan", None, f"node {rig.facts.told()}")
        rig.after_turn.append(self._take_log)
        rig.world.on_event.append(self._take_event)
        rig.segment.on_hit = self._take_hit
        for gateway in rig.internet.gateways.values():
            gateway.core.observer = self._take_gateway

    def _add(self, source: str, shard: int | None, text: str) -> None:
        self._tell(Line(self._rig.world.now_ns, source, shard, text))

    def _take_log(self, _attachment: Attachment) -> None:
        node = self._rig.node
        lines = node.serial.lines
        if node is not self._node:
            self._node, self._seen = node, 0
        for line in lines[self._seen :]:
            words = parse_line(line)
            shard = int(words.pop("shard")) if "shard" in words else None
            level, code = words.pop("level", ""), words.pop("code", "")
            words.pop("t", None)
            said = words.pop("text", "")
            rest = " ".join(f"{key}={value}" for key, value in words.items())
            self._add("node", shard, " ".join(filter(None, (level, code, rest, said))))
        self._seen = len(lines)

    def _take_gateway(self, event: GatewayEvent) -> None:
        self._rig.gateway.events.append(event)
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
                ports = {segment.src_port, segment.dst_port}
                rows = self._rig.invariants.rows
                shard = next((r.shard_id for r in rows if r.tcp_local_port in ports), None)
                return shard, f"tcp {segment}"
            if packet.protocol == PROTOCOL_UDP:
                udp = Udp.decode(packet.payload, packet.src, packet.dst)
                return None, f"udp {between} port {udp.src_port}>{udp.dst_port}"
        except PacketError as error:
            return None, f"of {len(frame)} bytes: {error}"
        return None, f"ip {between} protocol {packet.protocol}"
