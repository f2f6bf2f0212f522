"""Two hosts on one segment, and helpers that drive one against the other."""

from __future__ import annotations

import functools
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from emulator.simulation.clock import NS_PER_S
from emulator.simulation.host import Host
from emulator.simulation.node_facts import NodeFacts
from emulator.simulation.rig import Rig
from emulator.simulation.wire import Segment
from emulator.simulation.world import World
from firmware.layouts.log import CODES
from firmware.layouts.policy import Policy
from pxe.gateway import LoadOptions

if TYPE_CHECKING:
    from emulator.simulation.peers.tcp import Connection, TcpConfig


LOG_LINE = re.compile(
    r"t=(?P<t>[0-9]+) level=(trace|debug|info|warn|error)( shard=[0-9]+)? "
    r"code=(?P<code>[A-Za-z_.0-9]+)(?P<rest>( [A-Za-z_0-9]+=[^ =\"]+)*)( text=\"[^\"]+\")?"
)


@dataclass
class Pair:
    """A client host `node` and a server host `peer` on one switch."""

    world: World
    segment: Segment
    node: Host
    peer: Host
    served: list[Connection] = field(default_factory=list)
    received: bytearray = field(default_factory=bytearray)
    echoed: bytearray = field(default_factory=bytearray)

    def listen(self, config: TcpConfig | None = None, *, echo: bool = False, port: int = 80):
        def accept(connection: Connection) -> None:
            self.served.append(connection)

            def take(data: bytes) -> None:
                self.received.extend(data)
                if echo:
                    connection.send(data)

            connection.on_data = take
            connection.on_eof = connection.close

        return self.peer.tcp.listen(port, accept, config)

    def connect(self, config: TcpConfig | None = None, port: int = 80) -> Connection:
        connection = self.node.tcp.connect(self.node.address, self.peer.address, port, config)
        connection.on_data = self.echoed.extend
        return connection

    def open(
        self,
        config: TcpConfig | None = None,
        served: TcpConfig | None = None,
        *,
        echo: bool = False,
    ) -> tuple[Connection, Connection]:
        """Return client and server connection, both ESTABLISHED."""
        self.listen(served, echo=echo)
        client = self.connect(config)
        self.world.run_until(
            lambda: (
                client.state == "ESTABLISHED"
                and bool(self.served)
                and self.served[-1].state == "ESTABLISHED"
            ),
            within_ns=120 * NS_PER_S,
        )
        return client, self.served[-1]


def make_pair(seed: int = 1, faults: str = "") -> Pair:
    world = World(seed)
    segment = Segment(world)
    node = Host(segment, "node", "10.0.0.2", gateway="10.0.0.1")
    peer = Host(segment, "peer", "10.0.0.1")
    if faults:
        segment.set_faults(faults)
    return Pair(world, segment, node, peer)


@pytest.fixture
def pair_of():
    """Return the maker, for tests that need several seeds or faults."""
    return make_pair


@pytest.fixture
def pair() -> Pair:
    return make_pair()


def check_log(lines: list[str]) -> None:
    """Every line has the declared form, a known code with its keys, and a time that never goes back."""
    keys = {code.name: [key for key, _ in code.fields] for code in CODES}
    last = 0
    for line in lines:
        found = LOG_LINE.fullmatch(line)
        assert found, line
        assert [word.split("=")[0] for word in found["rest"].split()] == keys[found["code"]], line
        assert int(found["t"]) >= last, line
        last = int(found["t"])


@pytest.fixture
def rig_of():
    """Return the maker of rigs; at the end what they ran counts for coverage."""
    made: list[Rig] = []

    def make(*args, **options) -> Rig:
        options.setdefault("trace", "SHARDFW_CHECK_DIR" in os.environ)
        made.append(Rig(*args, **options))
        return made[-1]

    yield make
    for rig in made:
        rig.save_coverage()
        assert rig.monitor.malformed == []
        assert rig.node.bus.strays == []
        check_log(rig.node.serial.lines)


@pytest.fixture
def facts():
    """Return the facts of a node; its options are those of `NodeFacts`."""
    return NodeFacts


@pytest.fixture
def load():
    """Return the options of a load of dispatches."""
    return LoadOptions


@pytest.fixture
def fixed():
    """Return the maker of facts of a node whose failed shards wait 5 s, always (seed A)."""
    return functools.partial(NodeFacts, policy=Policy.FIXED)
