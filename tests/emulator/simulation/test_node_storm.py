"""A few seeds of the simulation; `make sim SEEDS=500` and `shardfw sim` run more of them."""

from __future__ import annotations

import os

import pytest

from emulator.simulation.campaign import campaign
from emulator.simulation.storm import storm

SEEDS = int(os.environ.get("SHARDFW_SIM_SEEDS", "4"))
FIRST = int(os.environ.get("SHARDFW_SIM_FIRST", "0"))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_after_any_storm_every_shard_comes_back_with_nothing_lost(seed):
    assert campaign(storm, [seed], most_reruns=30) == 1
