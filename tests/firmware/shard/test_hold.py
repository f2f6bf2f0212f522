"""A held shard: silent, its session kept, and the reason why it waits."""

from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.environment import Environment
from firmware.layouts.node import CORE, LEASE
from firmware.layouts.shard import End, Hold, ShardFlag, ShardState
from firmware.layouts.tcp import TcpState
from firmware.shard.hold import shard_hold
from tests.support.lab import Lab
from tests.support.states import NOW, layer_states, session_fields, shard_fields, shard_in

LAB = Lab(shard_hold, slots=2)


@settings(max_examples=60, deadline=None)
@given(
    fields=shard_fields(),
    layers=layer_states(),
    session=session_fields(),
    hold=st.sampled_from(Hold),
)
def test_shard_hold_any_state_matches_model(fields, layers, session, hold):
    shard, context = shard_in(LAB, fields, layers, session)
    LAB.g(LEASE).expired = 1
    before = context.state
    LAB.call(shard_hold, Environment(tsc=lambda: NOW), shard=shard, hold=hold)
    if before == ShardState.FATAL:
        assert context.state == ShardState.FATAL
    else:
        assert (context.state, context.hold) == (ShardState.ASSIGNED, hold)


def test_shard_hold_keeps_a_resumable_session():
    shard, context = shard_in(
        LAB,
        {
            "state": ShardState.READY,
            "flags": ShardFlag.SEQ_VALID,
            "sequence": 12,
            "connected_at": 5,
        },
        {"tcp": TcpState.ESTABLISHED},
        {"valid": 1, "session_id_len": 32},
    )
    LAB.g(LEASE).expired = 1
    LAB.call(shard_hold, Environment(tsc=lambda: NOW), shard=shard, hold=Hold.LEASE_EXPIRED)
    assert context.sequence == 12
    assert context.flags & ShardFlag.SEQ_VALID
    assert context.evidence.end == End.LEASE_EXPIRED
    assert (context.disconnected_at, context.gap_from) == (LAB.g(CORE).now, 12)
