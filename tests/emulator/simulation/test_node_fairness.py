"""One shard in trouble is the trouble of one shard: the others get the permit, too."""

from __future__ import annotations

import contextlib

from firmware.layouts.shard import ShardState

S = ShardState


def test_a_shard_whose_session_always_ends_keeps_no_other_from_identifying(rig_of, facts):
    rig = rig_of(1, facts(shards=4, max_concurrency=1))
    for _ in range(15000):
        rig.run(0.002)
        with contextlib.suppress(LookupError):
            rig.gateway.core.kick(0, 4009)  # the session timed out: Identify again
            rig.gateway.flush()
        if rig.states[1:] == [S.READY] * 3:
            break
    # Its turn, five seconds, the next one's turn: every other shard had one by then.
    assert rig.now_s() < 25
    assert rig.states[1:] == [S.READY] * 3
    assert rig.stats.identify_gate_refusals == 0
