"""A link of a node, from the dial to UP."""

from emulator.simulation.packet import ACK, SYN
from firmware.bus.tick import bus_link_tick
from firmware.bus.turn import bus_flush, bus_next, bus_tick
from firmware.layouts.bus import BUS, LinkState
from firmware.layouts.fleet_config import BusAuth
from tests.support.bus import INFO, BusBench

BENCH = BusBench(bus_link_tick, bus_tick, bus_flush, bus_next, semantics=False)


def tick() -> int:
    """Let the link look, and return when it wants to look again."""
    return BENCH.bus(bus_link_tick)["rax"]


def flush() -> int:
    """Let both links send; DATA is left out."""
    BENCH.lab.g(BUS).links[1].context = 0
    return BENCH.call(bus_flush)["rax"]


def left() -> list[tuple[int, bytes]]:
    """Return what control bits and payloads left."""
    return [(t.flags, t.payload) for t in BENCH.sent()]


def server(control: int = ACK, payload: bytes = b"") -> None:
    """Let a segment of the server come."""
    tcp = BENCH.tcp
    BENCH.feed(control, payload=payload, ports=(4222, tcp.local_port))


def connected() -> None:
    """Bring the link as far as INFO is waited for."""
    BENCH.login(BusAuth.USER)
    tick()
    assert BENCH.link.state == LinkState.CONNECT
    (syn,) = BENCH.sent()
    assert (syn.flags, syn.dst_port) == (SYN, 4222)
    BENCH.feed(SYN | ACK, seq=4999, ack=syn.seq + 1, ports=(4222, BENCH.tcp.local_port))


def logged_in() -> None:
    """Bring the link UP."""
    connected()
    server(payload=INFO)
    tick()
    assert BENCH.link.state == LinkState.HELLO
    flush()
    BENCH.sent()
    server(payload=b"PONG\r\n")
    tick()
    assert BENCH.link.state == LinkState.UP
