"""Seed B's six names, derived from our states; the node is Connected only when every shard is."""

import pytest

from firmware.layouts.observe import ConnectionState as C
from firmware.layouts.observe import node_latency, node_state, shard_state
from firmware.layouts.shard import Hold, ShardFlag, ShardState

ESTABLISHED = ShardFlag.ESTABLISHED


@pytest.mark.parametrize(
    ("state", "hold", "flags", "closing", "wanted"),
    [
        (ShardState.ASSIGNED, Hold.NEW, 0, False, C.DISCONNECTED),
        (ShardState.ASSIGNED, Hold.LEASE_EXPIRED, ESTABLISHED, False, C.DISCONNECTED),
        (ShardState.ASSIGNED, Hold.STOPPED, ESTABLISHED, True, C.CLOSING),
        (ShardState.ASSIGNED, Hold.STOPPED, ESTABLISHED, False, C.CLOSED),
        (ShardState.STARTING, Hold.NONE, 0, False, C.CONNECTING),
        (ShardState.STARTING, Hold.NONE, ESTABLISHED, False, C.RECOVERING),
        (ShardState.BACKOFF, Hold.NONE, 0, True, C.CONNECTING),
        (ShardState.BACKOFF, Hold.NONE, ESTABLISHED, False, C.RECOVERING),
        (ShardState.READY, Hold.NONE, ESTABLISHED, False, C.CONNECTED),
        (ShardState.FATAL, Hold.NONE, 0, True, C.CLOSED),
    ],
)
def test_shard_state_has_one_of_six_names(state, hold, flags, closing, wanted):
    assert shard_state(state, hold, flags, closing=closing) is wanted


@pytest.mark.parametrize(
    ("shards", "wanted"),
    [
        ([], C.DISCONNECTED),
        ([C.CONNECTED, C.CONNECTED], C.CONNECTED),
        ([C.CONNECTED, C.CONNECTING], C.CONNECTING),
        ([C.CONNECTED, C.RECOVERING, C.CONNECTING], C.RECOVERING),
        ([C.CONNECTED, C.CLOSING], C.CLOSING),
        ([C.CLOSED, C.CLOSED], C.CLOSED),
        ([C.CONNECTED, C.CLOSED], C.RECOVERING),
        ([C.CLOSED, C.CONNECTING], C.CONNECTING),
        ([C.DISCONNECTED, C.CONNECTED], C.DISCONNECTED),
    ],
)
def test_node_state_is_connected_only_when_every_shard_is(shards, wanted):
    assert node_state(shards) is wanted


@pytest.mark.parametrize(
    ("shards", "wanted"),
    [
        ([], None),
        ([(C.CONNECTED, 3), (C.CONNECTED, 9), (C.CONNECTED, 4)], 9),
        ([(C.CONNECTED, 0)], 0),
        ([(C.CONNECTED, 3), (C.CONNECTED, None)], None),
        ([(C.CONNECTED, None)], None),
        *([[(C.CONNECTED, 3), (state, 9)], None] for state in C if state is not C.CONNECTED),
    ],
)
def test_node_latency_is_the_slowest_once_all_are_ready(shards, wanted):
    assert node_latency(shards) == wanted
