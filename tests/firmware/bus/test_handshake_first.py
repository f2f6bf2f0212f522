"""TLS before INFO with a server that stands still: the link leaves it, and the next one of the list is dialled."""

import pytest

from emulator.memory import Region
from emulator.simulation.packet import ACK, SYN
from firmware.bus.tick import bus_link_tick
from firmware.bus.turn import bus_flush
from firmware.layouts.bus import BUS, WORD_MS, LinkState
from firmware.layouts.bus_sites import TIMEOUT
from firmware.layouts.config import CONFIG
from firmware.layouts.fleet_config import FLEET_CONFIG
from firmware.layouts.node import CLOCK
from firmware.layouts.tcp import TcpState
from firmware.layouts.tls import TlsState
from firmware.layouts.tls_arena import TlsArena
from firmware.layouts.tls_pool import TLS_POOL
from firmware.layouts.variants import Variant
from tests.support.bus import BusBench
from tests.support.segments import NOW, ms
from tests.support.variants import choose

ARENA = 0x6B00_0000
HANDSHAKE = 22
BENCH = BusBench(
    bus_link_tick, bus_flush, semantics=False,
    extra=(Region("arena", ARENA, TlsArena.SIZE, foreign=True),),
)  # fmt: skip


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()
    BENCH.servers(2)
    g = BENCH.lab.g
    BENCH.lab.machine.write(ARENA, bytes(TlsArena.SIZE))
    choose(BENCH.lab, Variant.FAST)
    g(CONFIG).gateway_secure = g(FLEET_CONFIG).handshake_first = 1
    g(CLOCK).unix_time = g(CONFIG).build_time = 1_800_000_000
    g(CLOCK).unix_tsc = NOW
    g(TLS_POOL).slots[0].address = ARENA
    g(BUS).links[1].context = 0


def tick():
    return BENCH.bus(bus_link_tick)["rax"]


def greeted(port):
    """Dial; the server's kernel takes the connection and the ClientHello, the server is not heard.

    No model judges this part: a key share takes a million instructions.
    """
    at = {"link": BENCH.link.address_, "shard": BENCH.shard}
    BENCH.lab.free(bus_link_tick, **at)
    (syn,) = BENCH.sent()
    assert (syn.flags, syn.dst_port) == (SYN, port)
    ports = (port, syn.src_port)
    BENCH.feed(SYN | ACK, seq=4999, ack=syn.seq + 1, ports=ports)
    due = BENCH.lab.free(bus_link_tick, **at)["rax"]
    BENCH.call(bus_flush)
    hello = [segment.payload for segment in BENCH.sent() if segment.payload]
    assert [payload[0] for payload in hello] == [HANDSHAKE]
    BENCH.feed(ports=ports)
    assert BENCH.tcp.snd_una == BENCH.tcp.snd_max
    return due, ports


def test_a_server_that_stays_silent_is_left_for_the_next_one():
    due, _ = greeted(4222)
    assert (BENCH.link.state, due) == (LinkState.TLS, ms(WORD_MS))
    BENCH.at(WORD_MS - 1)
    assert tick() == ms(WORD_MS)
    assert (BENCH.link.state, BENCH.link.server) == (LinkState.TLS, 0)

    BENCH.at(WORD_MS)
    again = tick()
    link = BENCH.link
    assert (link.state, link.error, link.server) == (LinkState.DOWN, TIMEOUT.code, 1)
    assert BENCH.tcp.state == TcpState.CLOSED
    assert BENCH.context.tls.state == TlsState.IDLE
    assert BENCH.lab.g(TLS_POOL).slots[0].owner == 0
    (line,) = BENCH.lines()
    assert line.startswith(f"bus.down link=control error={TIMEOUT.code:#x} server=0 ")
    BENCH.sent()

    BENCH.at((again - NOW) // 1000)
    due, _ = greeted(4223)
    assert (BENCH.link.state, due) == (LinkState.TLS, again + ms(WORD_MS) - NOW)


def test_a_server_that_began_to_speak_has_the_whole_time():
    _, ports = greeted(4222)
    BENCH.feed(payload=bytes((HANDSHAKE, 3)), ports=ports)
    BENCH.at(WORD_MS)
    assert tick() > ms(WORD_MS)
    assert BENCH.link.state == LinkState.TLS
