"""What a link waits for before its login, and what it does without an answer."""

import pytest

from emulator.simulation.packet import ACK, RST
from firmware.layouts.bus import LinkState
from firmware.layouts.bus_sites import NO_ADDRESS, NO_CONNECTION, TIMEOUT
from firmware.layouts.clock import NEVER
from firmware.layouts.config import CONFIG
from firmware.layouts.crypto import DRBG
from firmware.layouts.fleet_config import FLEET_CONFIG
from firmware.layouts.node import CLOCK, NETWORK
from firmware.layouts.tls_pool import TLS_POOL
from firmware.layouts.tls_sites import NO_ARENA
from firmware.layouts.variants import VARIANTS
from tests.support.bus import INFO
from tests.support.bus_link import BENCH, connected, server, tick
from tests.support.segments import NOW, PEER_IP, loaded, ms


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()


def prepare_tls():
    """Let the node want TLS, and have all of it but arenas."""
    BENCH.lab.g(CONFIG).gateway_secure = 1
    BENCH.lab.g(VARIANTS).usable = 1
    BENCH.lab.g(CLOCK).unix_time = BENCH.lab.g(CONFIG).build_time = 1_800_000_000
    BENCH.lab.g(CLOCK).unix_tsc = NOW


class TestDown:
    def test_it_waits_for_its_time(self):
        BENCH.link.next_try = ms(5)
        assert tick() == ms(5)
        assert BENCH.link.state == LinkState.DOWN
        BENCH.at(5)
        tick()
        assert BENCH.link.state == LinkState.CONNECT

    def test_it_waits_for_an_address_of_its_own(self):
        BENCH.lab.g(NETWORK).configured = 0
        assert tick() == ms(100)
        assert BENCH.link.state == LinkState.DOWN

    def test_without_a_clock_nothing_is_dialled(self):
        BENCH.lab.g(CLOCK).tsc_cycles_per_ms = 0
        assert tick() == NEVER
        assert BENCH.link.state == LinkState.DOWN

    def test_a_name_without_an_address(self):
        BENCH.lab.g(FLEET_CONFIG).servers[0].host[0:3] = b"a.b"
        BENCH.lab.g(FLEET_CONFIG).servers[0].host_len = 3
        tick()
        assert (BENCH.link.state, BENCH.link.error) == (LinkState.DOWN, NO_ADDRESS.code)

    def test_a_name_is_waited_for_until_the_attempt_is_over(self):
        config = BENCH.lab.g(FLEET_CONFIG)
        config.servers[0].host[0:3], config.servers[0].host_len = b"a.b", 3
        BENCH.lab.g(NETWORK).dns1 = loaded(PEER_IP)
        assert tick() == ms(15_000)
        assert BENCH.link.state == LinkState.RESOLVE
        BENCH.at(15_000)
        tick()
        assert (BENCH.link.state, BENCH.link.error) == (LinkState.DOWN, TIMEOUT.code)

    def test_a_handshake_waits_for_an_arena(self):
        prepare_tls()
        pool = BENCH.lab.g(TLS_POOL)
        pool.slots[0].address, pool.slots[0].owner = 0x6B00_0000, BENCH.shards[1]
        assert tick() == ms(15_000)
        # It stands in no queue: a node of a fleet looks ten times a second.
        assert (BENCH.link.state, pool.waiting) == (LinkState.RESOLVE, 0)

    def test_without_arenas_there_is_no_tls(self):
        prepare_tls()
        tick()
        assert (BENCH.link.state, BENCH.link.error) == (LinkState.DOWN, NO_ARENA.code)
        assert BENCH.context.failure == 0

    def test_no_entropy_no_connection(self):
        BENCH.lab.g(DRBG).seeded = 0
        tick()
        assert (BENCH.link.state, BENCH.link.error) == (LinkState.DOWN, NO_CONNECTION.code)

    def test_the_servers_are_tried_in_turn_and_the_waits_grow(self):
        BENCH.servers(3)
        waits, ports, now = [], [], 0
        for _ in range(8):
            tick()
            (syn,) = BENCH.sent()
            ports.append(syn.dst_port)
            BENCH.feed(RST | ACK, seq=0, ack=syn.seq + 1, ports=(syn.dst_port, syn.src_port))
            due = tick()
            waits.append((due - ms(now)) // 1000)
            now += waits[-1]
            BENCH.at(now)
        assert ports == [4222, 4223, 4224, 4222, 4223, 4224, 4222, 4223]
        for n, wait in enumerate(waits):
            assert min(50 << min(n, 4), 2000) <= wait <= min(250 << min(n, 4), 2000)
        assert len(set(waits[:4])) == 4
        assert [line.split()[0] for line in BENCH.lines()] == ["bus.down"] + ["bus.retry"] * 7

    @pytest.mark.parametrize("state", [LinkState.CONNECT, LinkState.INFO])
    def test_a_server_that_says_nothing_is_left_soon(self, state):
        """One that stands still: its kernel takes the connection."""
        if state == LinkState.CONNECT:
            tick()
        else:
            connected()
        BENCH.at(2_999)
        tick()
        assert BENCH.link.state == state
        BENCH.at(3_000)
        tick()
        assert (BENCH.link.state, BENCH.link.error) == (LinkState.DOWN, TIMEOUT.code)

    def test_the_attempt_has_an_end(self):
        connected()
        tick()
        server(payload=INFO[:40])
        BENCH.at(14_999)
        tick()
        assert BENCH.link.state == LinkState.INFO
        BENCH.at(15_000)
        tick()
        assert (BENCH.link.state, BENCH.link.error) == (LinkState.DOWN, TIMEOUT.code)

    def test_what_the_name_took_does_not_count(self):
        config = BENCH.lab.g(FLEET_CONFIG)
        whole = bytes(config.servers[0].host), config.servers[0].host_len
        config.servers[0].host[0:3], config.servers[0].host_len = b"a.b", 3
        BENCH.lab.g(NETWORK).dns1 = loaded(PEER_IP)
        tick()
        config.servers[0].host[:], config.servers[0].host_len = whole
        BENCH.at(13_000)
        assert tick() == ms(15_000)
        assert BENCH.link.state == LinkState.CONNECT
