"""Owners of a shard after each other: replicas behind, answers lost, late writes of those who are gone."""

import random

import pytest

from tests.support.handover_world import Owner, Store, connect

HOLD_MS = 60_000
SEEDS = range(8)


class Line:
    """Owners one after the other; what each leaves is compared with what the next one finds."""

    def __init__(self, monkeypatch, seed, *, blind_fence=False):
        self.random = random.Random(seed)
        self.store = Store(self.random, blind_fence=blind_fence)
        self.by_memory: dict[int, Owner] = {}
        connect(monkeypatch, self.by_memory)
        self.owners, self.problems = [], []

    def run(self, *, leaves):
        """One owner up to its end; the message of those before may still arrive."""
        owner = Owner(self.store, len(self.owners) + 1, HOLD_MS)
        self.by_memory[id(owner.memory)] = owner
        self.owners.append(owner)
        end = self.store.now + self.random.randrange(8_000, 30_000)
        give_up = end + 20_000
        while owner.alive and self.store.now < give_up:
            self.store.step()
            owner.turn()
            if self.store.now >= end:
                if not leaves:
                    break
                owner.leave()
                if owner.shard.saved:
                    break
        return owner

    def judge(self, before, owner):
        """What may an owner resume from: what the one before wrote last, never more than was acknowledged.

        And it must, unless it waited for as long as anybody waits.
        """
        name, acknowledged = before.session
        if before.shard.saved and owner.taken is not None and owner.taken != before.session:
            self.problems.append(f"saved {before.session}, resumed {owner.taken}")
        if before.shard.saved and owner.taken is None and not owner.waited:
            self.problems.append(f"saved {before.session}, identified")
        if owner.taken is not None and owner.taken[0] == name and owner.taken[1] > acknowledged:
            self.problems.append(f"acknowledged {acknowledged}, resumed {owner.taken[1]}")
        if owner.taken is not None and owner.taken[0] != name and before.shard.saved:
            self.problems.append("resumed a session that had been replaced")


def generations(store):
    return [int(value.split()[1]) for _, value in store.log]


def play(monkeypatch, seed, *, blind_fence=False):
    line = Line(monkeypatch, seed, blind_fence=blind_fence)
    before = None
    for _ in range(6):
        owner = line.run(leaves=line.random.random() < 0.7)
        # Who had none itself says nothing of the next one's.
        if before is not None and before.shard.session.valid and owner.started:
            line.judge(before, owner)
        before = owner
    return line


@pytest.mark.parametrize("seed", SEEDS)
def test_a_session_passes_on_as_it_was_acknowledged_and_nobody_writes_behind_another(
    monkeypatch, seed
):
    line = play(monkeypatch, seed)
    assert line.problems == []
    assert generations(line.store) == sorted(generations(line.store))


def test_sessions_do_pass_on(monkeypatch):
    """Most of those who could resume did."""
    lines = [play(monkeypatch, seed) for seed in SEEDS]
    taken = sum(owner.taken is not None for line in lines for owner in line.owners)
    assert taken > 20


def test_without_the_fence_an_old_session_would_be_resumed(monkeypatch):
    lines = [play(monkeypatch, seed, blind_fence=True) for seed in SEEDS]
    assert any(line.problems for line in lines)
