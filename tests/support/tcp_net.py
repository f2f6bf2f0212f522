"""One node that speaks TCP and one independent peer on a virtual wire, for connection tests."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from emulator.simulation.clock import NS_PER_MS, NS_PER_S
from emulator.simulation.host import Host
from emulator.simulation.packet import Tcp, ip
from emulator.simulation.peers.tcp import Connection, State, TcpConfig
from emulator.simulation.wire import Segment
from emulator.simulation.world import World
from firmware.layouts.tcp import (
    TcpState,
)
from firmware.limits import SEND_PAYLOAD_MAX
from tests.support.tcp import Application, TcpNode

DAMAGE = (
    "drop p=0.05; reorder p=0.05 by=3ms jitter=5ms; duplicate p=0.03; corrupt p=0.01; "
    "truncate p=0.01"
)


def patient(**changes: Any) -> TcpConfig:
    """Return settings of a peer that outlasts a very bad wire."""
    return replace(TcpConfig(retries=40, syn_retries=20), **changes)


CONFIGS = {
    "usual": patient(),
    "no options": patient(mss=None, scale=None, sack=False),
    "small segments, small buffer": patient(segment_size=100, receive_buffer=1500),
    "delayed acknowledgements": patient(delayed_ack_ns=40 * NS_PER_MS, sack=False),
    "sequence wrap": patient(isn=0xFFFFFF00, scale=14),
    "one-byte segments": patient(segment_size=1),
}
PORT = 443


@dataclass
class Net:
    """A node under test and a peer on one switch."""

    world: World
    segment: Segment
    peer: Host
    node: TcpNode
    served: list[Connection] = field(default_factory=list)
    received: bytearray = field(default_factory=bytearray)
    outgoing: bytes = b""
    echo: bool = False

    @property
    def application(self) -> Application:
        return self.node.applications[0]

    @property
    def state(self) -> TcpState:
        return TcpState(self.node.tcp().state)

    def listen(self, config: TcpConfig | None = None) -> None:
        def accept(connection):
            self.served.append(connection)

            def take(data):
                self.received.extend(data)
                if self.echo:
                    connection.send(data)

            def opened():
                if self.outgoing:
                    connection.send(self.outgoing)

            connection.on_data, connection.on_open = take, opened
            connection.on_eof = connection.close

        self.listener = self.peer.tcp.listen(PORT, accept, config)

    def dial(self) -> None:
        self.node.connect(self.peer.address, PORT)
        self.wake()

    def wake(self) -> None:
        self.world.attachment("node").wake()

    def until(self, goal, seconds=3600) -> None:
        self.world.run_until(goal, within_ns=seconds * NS_PER_S)

    def open(self, config: TcpConfig | None = None):
        self.listen(config)
        self.dial()
        self.until(lambda: bool(self.served) and self.served[-1].state is State.ESTABLISHED)
        return self.served[-1]

    def drops(self) -> int:
        """Return how many frames the fault plan has dropped."""
        injector = self.segment.injector
        return 0 if injector is None else injector.hits["drop"]

    def between(self) -> list[Tcp]:
        """Return what the node sent since the last call."""
        sent, self.node.sent = self.node.sent, []
        return sent


NODE = TcpNode(ip("10.0.0.2"))


def network(seed: int = 1, faults: str = "", iss: int | None = None) -> Net:
    NODE.restart(iss)
    world = World(seed)
    segment = Segment(world)
    peer = Host(segment, "peer", "10.0.0.1")
    if faults:
        segment.set_faults(faults)
    world.attach(NODE, segment.port("node"))
    return Net(world, segment, peer, NODE)


def transfer(net: Net, size: int, config: TcpConfig, *, close: str = "node") -> None:
    """Move random bytes both ways, then close from one side and see both ends."""
    up, down = net.world.random.randbytes(size), net.world.random.randbytes(size)
    net.outgoing, net.application.outgoing = down, up
    net.listen(config)
    net.dial()
    net.until(lambda: len(net.received) == size and len(net.application.received) == size)
    assert bytes(net.received) == up
    assert bytes(net.application.received) == down
    if close == "node":
        net.application.close_when_sent = True
        net.wake()
        net.until(lambda: net.state in (TcpState.TIME_WAIT, TcpState.CLOSED))
    else:
        net.served[0].close()
        net.until(lambda: net.state == TcpState.CLOSE_WAIT)
        net.application.close_when_sent = True
        net.wake()
        net.until(lambda: net.state == TcpState.CLOSED)
    assert max(len(s.payload) for s in net.node.sent) <= SEND_PAYLOAD_MAX
    assert net.peer.bad_packets == [] or net.segment.injector is not None
