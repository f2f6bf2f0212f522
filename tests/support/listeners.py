"""Listeners of raw dispatches on a bench: a card, places, and what each is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.simulation.packet import PROTOCOL_UDP, Ethernet, Ipv4, Udp
from firmware.events.send import events_notice
from firmware.events.subscribers import events_subscribe, events_unsubscribe
from firmware.layouts.config import CONFIG
from firmware.layouts.events import EVENT_SHARDS_ALL, EVENTS, EventHeader
from firmware.layouts.net import NET
from firmware.layouts.node import CORE
from tests.support.net import MAC, NEEDED, NetBench, ip32
from toolchain.cli.event_stream import EventStream
from toolchain.layout.pack import unpack

if TYPE_CHECKING:
    from tests.support.lab import Lab

ROUTINES = (*NEEDED, events_subscribe, events_unsubscribe, events_notice)
"""What every lab of these benches links."""
NODE_PORT = 4747
LISTENERS = tuple((f"10.0.0.{20 + n}", 40_000 + n) for n in range(6))


def hardware(ip: str) -> bytes:
    """Return the Ethernet address of a listener."""
    return b"\x02\x00" + bytes(map(int, ip.split(".")))


class Listeners(NetBench):
    """A node with a card and some listeners, whose datagrams are put together as the CLI does it."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self.streams = {number: EventStream() for number in range(len(LISTENERS))}
        self.datagrams: dict[int, list[bytes]] = {}
        lab.g(CONFIG).diagnostics_port = NODE_PORT

    def with_shards(self, count: int) -> None:
        """Fill rows of the slot table."""
        core = self.lab.g(CORE)
        core.slots_used = count
        for n in range(count):
            core.slots[n].context = self.lab.shard(n)

    def subscribe(
        self, number: int, *, lease_ms: int = 30_000, first: int = 0, count: int = EVENT_SHARDS_ALL
    ) -> int:
        """Let a listener ask for events; return 1 when it is refused."""
        ip, port = LISTENERS[number]
        self.lab.g(NET).rx_frame = self.put(MAC + hardware(ip) + b"\x08\x00")
        given = {"ip": ip32(ip), "port": port, "lease_ms": lease_ms, "first": first, "count": count}
        return self.call(events_subscribe, **given).outputs["cf"]

    def unsubscribe(self, number: int) -> int:
        """Let a listener go."""
        ip, port = LISTENERS[number]
        return self.call(events_unsubscribe, ip=ip32(ip), port=port).outputs["cf"]

    @property
    def events(self) -> Any:
        """The live table."""
        return self.lab.g(EVENTS)

    def place(self, number: int) -> Any:
        """Return the live place of a listener."""
        ip, port = LISTENERS[number]
        rows = [self.events.subscribers[n] for n in range(4)]
        return next(r for r in rows if r.expires and (r.ip, r.port) == (ip32(ip), port))

    def heard(self, number: int = 0) -> list[Any]:
        """Return the events that were sent to a listener since the last time."""
        self.collect()
        got = self.datagrams.pop(number, [])
        return [event for datagram in got for event in self.streams[number].feed(datagram)]

    def heads(self, number: int = 0) -> list[dict[str, Any]]:
        """Return the headers of the datagrams that were sent to a listener since the last time."""
        self.collect()
        got = self.datagrams.pop(number, [])
        return [unpack(EventHeader, datagram[: EventHeader.SIZE]) for datagram in got]

    def collect(self) -> None:
        """Let the card send, and sort the datagrams by listener."""
        for frame in self.sent():
            ether = Ethernet.decode(frame)
            packet = Ipv4.decode(ether.payload)
            assert packet.protocol == PROTOCOL_UDP
            udp = Udp.decode(packet.payload, packet.src, packet.dst)
            ip = ".".join(map(str, packet.dst))
            assert (ether.dst, udp.src_port) == (hardware(ip), NODE_PORT)
            number = LISTENERS.index((ip, udp.dst_port))
            self.datagrams.setdefault(number, []).append(udp.payload)
