"""A virtual Ethernet segment: ports, switch or hub, links that fail, taps and pcap files."""

from __future__ import annotations

import random
import struct
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

from emulator.simulation.clock import NS_PER_US
from emulator.simulation.faults import Delivery, FaultInjector, FaultPlan, Rule

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from emulator.simulation.world import World

MIN_FRAME = 60
MAX_FRAME = 1518
# Nanosecond pcap, https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-03.html section 4.
_PCAP_MAGIC = 0xA1B23C4D
_LINKTYPE_ETHERNET = 1
DEFAULT_LATENCY_NS = 50 * NS_PER_US


class Port:
    """One socket of a segment, with the cable that may be pulled out of it."""

    def __init__(self, segment: Segment, name: str) -> None:
        self.segment = segment
        self.name = name
        self.link_up = True
        self.receiver: Callable[[bytes], None] | None = None
        self.link_changed: list[Callable[[bool], None]] = []
        self.sent = 0
        self.received = 0
        self.lost = 0

    def send(self, frame: bytes) -> None:
        """Put a frame on the wire as a NIC does: padded to 60 bytes, lost when the link is down.

        Raises:
            ValueError: the frame is longer than Ethernet allows; use `inject` to send it anyway.
        """
        if len(frame) > MAX_FRAME:
            raise ValueError(
                f"port {self.name}: a frame of {len(frame)} bytes is longer than {MAX_FRAME}; "
                "use inject() to put a giant on the wire"
            )
        self.inject(frame if len(frame) >= MIN_FRAME else frame.ljust(MIN_FRAME, b"\x00"))

    def inject(self, frame: bytes) -> None:
        """Put bytes on the wire as they are, runts and giants included."""
        if not self.link_up:
            self.lost += 1
            return
        self.sent += 1
        self.segment.carry(self, frame)

    def set_link(self, *, up: bool) -> None:
        """Plug or pull the cable; frames on their way to a pulled cable are lost."""
        if up == self.link_up:
            return
        self.link_up = up
        self.segment.forget(self)
        for changed in self.link_changed:
            changed(up)

    def accept(self, frame: bytes) -> None:
        """Take a frame off the wire."""
        if not self.link_up or self.receiver is None:
            self.lost += 1
            return
        self.received += 1
        self.segment.world.record(f">{self.name}", frame)
        self.receiver(frame)


class Segment:
    """A broadcast domain.

    Args:
        world: gives time and randomness.
        name: appears in errors and captures.
        hub: repeat every frame to every port instead of learning where addresses live.
        latency_ns: time from one port to another.
    """

    def __init__(
        self,
        world: World,
        name: str = "lan",
        *,
        hub: bool = False,
        latency_ns: int = DEFAULT_LATENCY_NS,
    ) -> None:
        self.world = world
        self.name = name
        self.hub = hub
        self.latency_ns = latency_ns
        self.ports: list[Port] = []
        self.taps: list[Callable[[int, str, bytes], None]] = []
        self.injector: FaultInjector | None = None
        self.on_hit: Callable[[Rule, bytes], None] | None = None
        self._table: dict[bytes, Port] = {}
        world.segments.append(self)

    def port(self, name: str, receiver: Callable[[bytes], None] | None = None) -> Port:
        """Add a port; names are unique within the world because plans and events use them."""
        if any(port.name == name for segment in self.world.segments for port in segment.ports):
            raise ValueError(f"a port called {name!r} exists already; give each port its own name")
        port = Port(self, name)
        port.receiver = receiver
        self.ports.append(port)
        return port

    def set_faults(self, plan: FaultPlan | str | None) -> FaultInjector | None:
        """Start a fault plan on this segment, or end the running one with None."""
        if plan is None:
            self.injector = None
            return None
        if isinstance(plan, str):
            plan = FaultPlan.parse(plan)
        # One draw whatever the plan: a run with the script of another run has the same peers.
        self.injector = FaultInjector(plan, random.Random(self.world.random.getrandbits(64)))
        self.injector.on_hit = self.on_hit
        self.world.schedule(plan)
        return self.injector

    def capture(self, path: Path) -> Pcap:
        """Write every frame that enters the segment into a pcap file."""
        pcap = Pcap(path)
        self.taps.append(lambda now_ns, _port, frame: pcap.write(now_ns, frame))
        return pcap

    def forget(self, port: Port) -> None:
        """Drop what was learned about a port, as a switch does on a link change."""
        self._table = {address: known for address, known in self._table.items() if known != port}

    def carry(self, source: Port, frame: bytes) -> None:
        """Take a frame from `source`, damage it by the plan, and deliver it."""
        world = self.world
        world.record(source.name, frame)
        for tap in self.taps:
            tap(world.now_ns, source.name, frame)
        if self.injector is None:
            world.events.after(self.latency_ns, lambda: self._deliver(source, frame))
            return
        for delivery in self.injector.enter(frame, world.now_ns, source.name):
            self._later(source, delivery)

    def _later(self, source: Port, delivery: Delivery) -> None:
        self.world.events.after(
            self.latency_ns + delivery.delay_ns, lambda: self._deliver(source, delivery.frame)
        )

    def _deliver(self, source: Port, frame: bytes) -> None:
        if len(frame) >= 12 and not frame[6] & 1:
            self._table[frame[6:12]] = source
        group = len(frame) < 6 or frame[0] & 1
        known = None if self.hub or group else self._table.get(frame[:6])
        for port in self.ports if known is None else [known]:
            if port is not source:
                self._exit(source, port, frame)

    def _exit(self, source: Port, port: Port, frame: bytes) -> None:
        if self.injector is None:
            port.accept(frame)
            return
        now_ns = self.world.now_ns
        for delivery in self.injector.leave(frame, now_ns, source.name, port.name):
            if delivery.delay_ns:
                self.world.events.after(delivery.delay_ns, partial(port.accept, delivery.frame))
            else:
                port.accept(delivery.frame)


class Pcap:
    """A capture file that wireshark and tshark read."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("wb")
        self._file.write(
            struct.pack("<IHHiIII", _PCAP_MAGIC, 2, 4, 0, 0, 65535, _LINKTYPE_ETHERNET)
        )

    def write(self, now_ns: int, frame: bytes) -> None:
        """Append one frame at a time in nanoseconds."""
        seconds, rest = divmod(now_ns, 1_000_000_000)
        self._file.write(struct.pack("<IIII", seconds, rest, len(frame), len(frame)) + frame)

    def close(self) -> None:
        """Finish the file."""
        self._file.close()

    def __enter__(self) -> Pcap:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
