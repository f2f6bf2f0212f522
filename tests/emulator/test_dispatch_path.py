"""The release image's dispatch path outside Unicorn: what the benchmark times does what it should."""

import pytest

from tests.support.dispatch_path import (
    EVENT_BYTES,
    EVENTS,
    FIRST_SEQUENCE,
    DispatchPath,
    dispatches,
    frames,
    instructions,
    ready_node,
)


@pytest.mark.parametrize("how", [{}, {"plain": False}, {"d_first": True}])
@pytest.mark.parametrize("heard", [False, True])
def test_dispatch_path_every_shard_takes_every_event(how, heard):
    """`run` compares dispatches and sequence of each shard, and what the listener was sent."""
    path = DispatchPath(ready_node(3, heard=heard), frames(dispatches(**how)), 3)
    assert len(path.run(2, 2)) == 2


def test_dispatch_path_an_event_that_does_not_count_is_noticed():
    unknown = [(before, behind.replace(b'"op":0', b'"op":6')) for before, behind in dispatches()]
    with pytest.raises(AssertionError, match="0 events of 20"):
        DispatchPath(ready_node(1), frames(unknown), 1).run(1, 1)


def test_dispatch_path_instructions_are_counted():
    node, heard = (ready_node(1, trace=True, heard=heard) for heard in (False, True))
    plain, d_first = (instructions(node, frames(dispatches(d_first=d))) for d in (False, True))
    assert EVENT_BYTES < plain < d_first
    assert plain < instructions(heard, frames(dispatches()))
    assert node.shard(0).sequence == FIRST_SEQUENCE + EVENTS - 1


def test_dispatch_path_events_have_their_length():
    with pytest.raises(ValueError, match="not all of 1000"):
        frames([(b'{"s":', b"}")])
    with pytest.raises(ValueError, match="40160 bytes of frames for a ring of 20480"):
        frames(dispatches() * 2)
