"""The node's TCP against Linux's own, over a tap interface, through a wire that damages frames.

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

from emulator.simulation.clock import NS_PER_S
from emulator.simulation.packet import ARP_REQUEST, ETHERTYPE_ARP, ZERO_MAC, Arp, Ethernet, ip
from emulator.simulation.wire import Segment as Wire
from emulator.simulation.world import World
from firmware.layouts.tcp import TcpState
from pxe.segment import HOST_ADDRESS, Segment
from tests.support.tap import open_tap, pump
from tests.support.tcp import NODE_MAC, TcpNode

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.system

TIMEOUT_SECONDS = 60
NODE = TcpNode(ip("10.77.0.9"))
CASES = {
    "clean": ("", 500_000),
    "lossy and reordered": ("drop p=0.02; reorder p=0.02 by=3ms; duplicate p=0.02", 100_000),
    "very lossy": ("drop p=0.15", 20_000),
}


@pytest.fixture(scope="module")
def segment() -> Iterator[Segment]:
    if os.geteuid() != 0:
        pytest.skip("a tap interface needs root; run the system tests as root")
    with Segment(taps=1) as made:
        yield made


class KernelServer(threading.Thread):
    """Accepts one connection, sends `data` while it receives, and closes after the node did."""

    def __init__(self, listener: socket.socket, data: bytes) -> None:
        super().__init__(daemon=True)
        self.listener, self.data = listener, data
        self.received = bytearray()

    def run(self) -> None:
        self.listener.settimeout(TIMEOUT_SECONDS)
        opened, _ = self.listener.accept()
        with opened:
            opened.settimeout(TIMEOUT_SECONDS)
            sending = threading.Thread(target=opened.sendall, args=(self.data,))
            sending.start()
            while piece := opened.recv(65536):
                self.received += piece
            sending.join()


def ask_for_the_kernel(inject) -> None:
    """Let the kernel tell its address: the node's wire has no neighbour table."""
    asked = Arp(ARP_REQUEST, NODE_MAC, NODE.address, ZERO_MAC, ip(HOST_ADDRESS))
    inject(Ethernet(b"\xff" * 6, NODE_MAC, ETHERTYPE_ARP, asked.encode()).encode().ljust(60, b"\0"))


@pytest.mark.parametrize("name", CASES)
def test_streams_cross_both_ways_and_close(segment: Segment, name: str) -> None:
    plan, size = CASES[name]
    NODE.restart()
    world = World(1)
    wire = Wire(world, latency_ns=1000)
    tap = open_tap(segment)

    def to_kernel(frame: bytes) -> None:
        os.write(tap, frame)

    kernel = wire.port("kernel", to_kernel)
    world.attach(NODE, wire.port("node"))
    random_bytes = random.Random(1)
    up, down = random_bytes.randbytes(size), random_bytes.randbytes(size)
    application = NODE.applications[0]
    listener = segment.open_socket(socket.SOCK_STREAM)
    listener.listen()
    server = KernelServer(listener, down)
    server.start()
    start_ns = time.monotonic_ns()

    def turn() -> bool:
        world.run_until(time.monotonic_ns() - start_ns)
        pump(tap, world, kernel.inject)
        return time.monotonic_ns() - start_ns < TIMEOUT_SECONDS * NS_PER_S

    try:
        # A new bridge port may swallow the first frames.
        while NODE.neighbour is None and turn():
            ask_for_the_kernel(to_kernel)
        wire.set_faults(plan)
        application.outgoing = up
        NODE.connect(ip(HOST_ADDRESS), listener.getsockname()[1])
        world.attachment("node").wake()
        while len(application.received) < size and turn():
            pass
        application.close_when_sent = True
        world.attachment("node").wake()
        while NODE.tcp().state != TcpState.TIME_WAIT and turn():
            pass
    finally:
        os.close(tap)
        listener.close()
        server.join(1)
    assert bytes(application.received) == down
    assert bytes(server.received) == up
    assert NODE.tcp().state == TcpState.TIME_WAIT
