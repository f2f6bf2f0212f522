"""`shard_fail` keeps the first cause."""

import pytest

from firmware.failure import shard_fail
from firmware.layouts.shard import End, FailureFlag, ShardContext
from tests.support.lab import Lab

LAB = Lab(shard_fail)


@pytest.mark.parametrize("earlier", [End.NONE, End.TIMEOUT])
def test_shard_fail_keeps_the_first_cause(earlier):
    shard = LAB.shard()
    context = LAB.view(ShardContext, shard)
    context.failure = earlier
    LAB.call(
        shard_fail,
        shard=shard,
        end=End.PROTOCOL,
        flags=FailureFlag.RESET_SESSION,
        close=4000,
        error=0x07010002,
    )
    assert context.failure == (earlier or End.PROTOCOL)
    assert context.failure_close == (0 if earlier else 4000)
    assert context.last_error == (0 if earlier else 0x07010002)
