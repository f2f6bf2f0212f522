"""The TCP peer against Linux's own TCP, over a tap interface: the peer is no world of its own.

Real time passes here, because the kernel knows no other; nothing depends on how much.
"""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from emulator.simulation.clock import NS_PER_MS, NS_PER_S
from emulator.simulation.host import Host
from emulator.simulation.peers.tcp import Connection, TcpConfig
from emulator.simulation.wire import Segment as Wire
from emulator.simulation.world import World
from pxe.segment import Segment
from tests.support.tap import open_tap, pump

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.system

PEER = "10.77.0.9"
TIMEOUT_SECONDS = 60
CASES = {
    "clean": ("", 2_000_000, TcpConfig()),
    "lossy and reordered": ("drop p=0.02; reorder p=0.02 by=3ms", 500_000, TcpConfig()),
    "no options": ("drop p=0.02", 200_000, TcpConfig(mss=None, sack=False, scale=None)),
    "sequence wrap": ("drop p=0.02; duplicate p=0.05", 200_000, TcpConfig(isn=0xFFFFF000)),
    "small window": ("", 100_000, TcpConfig(receive_buffer=3000, mss=536)),
    "late acknowledgements": ("", 200_000, TcpConfig(delayed_ack_ns=40 * NS_PER_MS)),
}


@pytest.fixture(scope="module")
def segment() -> Iterator[Segment]:
    if os.geteuid() != 0:
        pytest.skip("a tap interface needs root; run the system tests as root")
    with Segment(taps=1) as made:
        yield made


class KernelClient(threading.Thread):
    """Connects with a kernel socket, sends everything, closes, and keeps what comes back."""

    def __init__(self, opened: socket.socket, data: bytes) -> None:
        super().__init__()
        self.socket = opened
        self.data = data
        self.echoed = bytearray()

    def run(self) -> None:
        with self.socket as opened:
            opened.settimeout(TIMEOUT_SECONDS)
            opened.connect((PEER, 80))
            sending = threading.Thread(target=self._send)
            sending.start()
            while piece := opened.recv(65536):
                self.echoed += piece
            sending.join()

    def _send(self) -> None:
        self.socket.sendall(self.data)
        self.socket.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("name", CASES)
def test_the_kernel_gets_back_what_it_sent(segment: Segment, name: str) -> None:
    plan, size, config = CASES[name]
    world = World(1)
    wire = Wire(world, latency_ns=1000)
    wire.set_faults(plan)
    peer = Host(wire, "peer", PEER)
    tap = open_tap(segment)

    def to_kernel(frame: bytes) -> None:
        os.write(tap, frame)

    port = wire.port("kernel", to_kernel)
    served: list[Connection] = []

    def accept(connection: Connection) -> None:
        served.append(connection)
        connection.on_data = connection.send
        connection.on_eof = connection.close

    peer.tcp.listen(80, accept, config)
    client = KernelClient(segment.open_socket(socket.SOCK_STREAM), random.Random(1).randbytes(size))
    client.start()
    start_ns = time.monotonic_ns()
    try:
        while client.is_alive() and time.monotonic_ns() - start_ns < TIMEOUT_SECONDS * NS_PER_S:
            world.run_until(time.monotonic_ns() - start_ns)
            pump(tap, world, port.inject)
    finally:
        os.close(tap)
        client.join(1)
    assert bytes(client.echoed) == client.data
    assert served[0].offered.sack_ok
    assert served[0].sacks == config.sack
