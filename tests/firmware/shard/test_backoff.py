"""`schedule_backoff`: seed A's order, on any state, any clock."""

from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.environment import Environment
from firmware.layouts.node import CLOCK
from firmware.layouts.shard import ShardContext, ShardState
from firmware.shard.backoff import schedule_backoff
from tests.support.lab import Lab

LAB = Lab(schedule_backoff)
WORDS = st.one_of(st.sampled_from([0, 1, 2**32 - 1, 2**63, 2**64 - 1]), st.integers(0, 2**64 - 1))


@settings(max_examples=60, deadline=None)
@given(reconnects=WORDS, cycles=WORDS, now=WORDS)
def test_schedule_backoff_any_state_matches_model(reconnects, cycles, now):
    shard = LAB.shard()
    context = LAB.view(ShardContext, shard)
    context.reconnects = reconnects
    LAB.g(CLOCK).tsc_cycles_per_ms = cycles
    LAB.call(schedule_backoff, Environment(tsc=[now]), shard=shard)
    assert context.state == ShardState.BACKOFF
    assert context.reconnects == (reconnects + 1) % 2**64
    wanted = (now + cycles * 5000) % 2**64 if cycles else 0
    assert context.reconnect_deadline == wanted


def test_schedule_backoff_bytes_follow_the_seed():
    placed = LAB.image.symbols["schedule_backoff"]
    code = LAB.machine.read(placed.address, placed.size)
    assert code.startswith(bytes.fromhex("c70303000000 48ff4310 488b05"))
    assert code.endswith(bytes.fromhex("48c7431800000000 c3"))
