"""A listener of raw dispatches on the virtual wire: takes datagrams and puts events together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.simulation.host import Host
from emulator.simulation.internet import SUBNET
from firmware.layouts.events import EVENT_SHARDS_ALL, EVENTS
from firmware.layouts.node import CORE

if TYPE_CHECKING:
    from emulator.simulation.host import Datagram
    from emulator.simulation.rig import Rig

LISTENER_PORT = 40_000


class Listener:
    """One host that listens.

    Args:
        rig: the world.
        number: tells listeners apart; also its place in the node's table.

    Attributes:
        datagrams: payloads in the order of their arrival.
    """

    def __init__(self, rig: Rig, number: int = 0) -> None:
        self.rig, self.number = rig, number
        self.host = Host(rig.segment, f"listener{number}", f"{SUBNET}{30 + number}")
        self.host.bind_udp(LISTENER_PORT, self._take)
        self.datagrams: list[bytes] = []

    def _take(self, datagram: Datagram) -> None:
        self.datagrams.append(datagram.payload)

    @property
    def place(self) -> Any:  # noqa: ANN401 - a View by field
        """The live row of the node's table."""
        return self.rig.node.g(EVENTS).subscribers[self.number]

    def sit(self, lease_s: float = 300, first: int = 0, count: int = EVENT_SHARDS_ALL) -> None:
        """Take the place as if the node had granted it."""
        place, events = self.place, self.rig.node.g(EVENTS)
        if not place.expires:
            events.listeners = events.listeners + 1
        place.expires = self.rig.node.g(CORE).now + round(lease_s * 1_000_000_000)
        place.stream = 0x1234 + self.number
        place.ip = int.from_bytes(self.host.address, "little")
        place.port = LISTENER_PORT
        place.first, place.count = first, count
        place.mac[:] = self.host.mac
