"""Whole transfers of the TCP peer with itself, over a good wire and a bad one."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emulator.simulation.clock import NS_PER_MS, NS_PER_S
from emulator.simulation.peers.tcp import TcpConfig

DAMAGE = (
    "drop p=0.05; reorder p=0.05 by=3ms jitter=5ms; duplicate p=0.03; corrupt p=0.01; "
    "truncate p=0.01"
)
CONFIGS = {
    "usual": TcpConfig(),
    "no options": TcpConfig(mss=None, scale=None, sack=False),
    "small segments, small buffer": TcpConfig(segment_size=100, receive_buffer=1500),
    "delayed acknowledgements": TcpConfig(delayed_ack_ns=40 * NS_PER_MS, sack=False),
    "sequence wrap": TcpConfig(isn=0xFFFFFF00, scale=14),
}


def patient(segment_size: int = 0) -> TcpConfig:
    """Return settings that outlast a very bad wire."""
    return TcpConfig(segment_size=segment_size, retries=40, syn_retries=20)


def transfer(pair, size: int, config: TcpConfig, served: TcpConfig | None = None) -> None:
    """Send random bytes, get them back, close from the client, see both sides end."""
    data = pair.world.random.randbytes(size)
    pair.listen(served or config, echo=True)
    client = pair.connect(config)

    def start() -> None:
        client.send(data)
        client.close()

    client.on_open = start
    pair.world.run_until(
        lambda: client.close_reason != "" and all(c.close_reason for c in pair.served),
        within_ns=3600 * NS_PER_S,
    )
    assert bytes(pair.received) == data
    assert bytes(pair.echoed) == data
    assert pair.peer.tcp.connections == {}
    assert pair.node.tcp.connections == {}


class TestTransfer:
    @pytest.mark.parametrize("name", CONFIGS)
    def test_bytes_cross_a_good_wire_without_any_retransmission(self, pair, name):
        transfer(pair, 200_000, CONFIGS[name])
        assert pair.served[0].close_reason == "closed"
        stats = pair.served[0].stats
        assert (stats.retransmitted, stats.timeouts, stats.unacceptable) == (0, 0, 0)

    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize("name", CONFIGS)
    def test_bytes_cross_a_bad_wire_exactly(self, pair_of, name, seed):
        pair = pair_of(seed, DAMAGE)
        transfer(pair, 60_000, CONFIGS[name])
        assert pair.segment.injector.hits["drop"] > 0

    @pytest.mark.parametrize("seed", range(3))
    def test_bytes_cross_a_wire_that_loses_a_third(self, pair_of, seed):
        transfer(pair_of(seed, "drop p=0.33 match=tcp"), 30_000, patient())

    def test_different_settings_on_both_sides_get_along(self, pair_of):
        names = list(CONFIGS)
        for seed, name in enumerate(names):
            other = CONFIGS[names[seed - 1]]
            transfer(pair_of(seed, DAMAGE), 20_000, CONFIGS[name], other)

    def test_equal_seeds_give_equal_wires(self, pair_of):
        def digest() -> str:
            pair = pair_of(9, DAMAGE)
            transfer(pair, 20_000, TcpConfig())
            return str(pair.world.digest())

        assert digest() == digest()

    @settings(
        max_examples=20,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],  # it only returns a function
    )
    @given(st.integers(0, 10_000), st.integers(0, 5_000), st.integers(20, 1460))
    def test_any_size_in_any_segments(self, pair_of, seed, size, segment):
        transfer(pair_of(seed, "drop p=0.1"), size, patient(segment))
