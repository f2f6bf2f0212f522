"""`restore_resume_state`: both conditions, any values."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.layouts.shard import SEQUENCE_NONE, ShardContext, ShardFlag
from firmware.shard.resume import restore_resume_state
from tests.support.lab import Lab

LAB = Lab(restore_resume_state)
DWORD = st.one_of(st.sampled_from([0, 1, 2, 2**31, 2**32 - 1]), st.integers(0, 2**32 - 1))


@settings(max_examples=80, deadline=None)
@given(
    present=st.booleans(),
    valid=DWORD,
    saved=DWORD,
    saved_flags=DWORD,
    flags=DWORD,
)
def test_restore_resume_state_needs_session_and_sequence(present, valid, saved, saved_flags, flags):
    shard = LAB.shard()
    context = LAB.view(ShardContext, shard)
    context.session_ptr = context.session.address_ if present else 0
    context.session.valid = valid
    context.flags = flags
    LAB.call(restore_resume_state, shard=shard, saved_sequence=saved, saved_flags=saved_flags)
    resumed = present and valid == 1 and saved_flags & 1
    assert context.sequence == (saved if resumed else SEQUENCE_NONE)
    assert context.flags == (flags | 1 if resumed else flags)


@pytest.mark.parametrize(
    ("present", "valid", "saved_flags", "sequence"),
    [
        (True, 1, ShardFlag.SEQ_VALID, 77),
        (False, 1, ShardFlag.SEQ_VALID, SEQUENCE_NONE),
        (True, 2, ShardFlag.SEQ_VALID, SEQUENCE_NONE),
        (True, 1, ShardFlag.ESTABLISHED, SEQUENCE_NONE),
    ],
)
def test_restore_resume_state_takes_each_way(present, valid, saved_flags, sequence):
    context = LAB.view(ShardContext, LAB.shard())
    context.session_ptr = context.session.address_ if present else 0
    context.session.valid = valid
    LAB.call(
        restore_resume_state, shard=context.address_, saved_sequence=77, saved_flags=saved_flags
    )
    assert context.sequence == sequence
