"""Sessions that change nodes: the store in between, and one move's work on them."""

import os

import pytest

from firmware.layouts.control import ControlResult, ControlVerb
from firmware.layouts.sessions import AGE_MAX_MS, ANY_SHARD
from tests.support.control import KEY
from tests.support.fake_control import FakeControl
from toolchain.cli import handover
from toolchain.cli.control import Place
from toolchain.cli.handover import HandOver, HandoverStore, bot_digest, handed_over
from toolchain.cli.sessions import Saved, now_ms
from toolchain.config import load_config

R, V = ControlResult, ControlVerb
BOT, OTHER = bot_digest("one"), bot_digest("other")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(handover, "REPLY_S", 0.2)


@pytest.fixture
def store():
    return HandoverStore.of(BOT, 8)


def saved(text=b"two"):
    return Saved(text, now_ms() - 500)


def age(store, shard, ms):
    """Make a file look `ms` old."""
    (path,) = store.folder.glob(f"*-{shard}.json")
    os.utime(path, ns=(0, (now_ms() - ms) * 1_000_000))
    return path


class TestStore:
    def test_whoever_claims_a_session_is_the_only_one(self, store):
        kept = saved()
        store.put(2, kept)
        (path,) = store.folder.iterdir()
        assert path.stat().st_mode & 0o777 == 0o600
        assert store.folder.stat().st_mode & 0o777 == 0o700
        assert store.holds([1, 2])
        assert store.claim(2) == kept
        assert store.claim(2) is None
        assert not store.holds([1, 2])
        assert list(store.folder.iterdir()) == []

    def test_it_is_found_by_bot_total_and_shard(self, store):
        store.put(2, saved())
        assert HandoverStore.of(OTHER, 8).claim(2) is None
        assert HandoverStore.of(BOT, 9).claim(2) is None
        assert store.claim(3) is None
        assert HandoverStore.of(BOT, 8).claim(2) is not None

    def test_what_no_node_would_take_over_is_gone(self, store):
        store.put(2, saved())
        path = age(store, 2, AGE_MAX_MS + 100)
        assert not store.holds([2])
        assert store.claim(2) is None
        store.put(3, saved())
        assert not path.exists()
        assert store.claim(3) is not None

    @pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"snapshot": "zz", "ended_ms": 1}'])
    def test_a_damaged_file_holds_nothing(self, store, text):
        store.put(2, saved())
        next(store.folder.iterdir()).write_text(text)
        assert store.claim(2) is None
        assert list(store.folder.iterdir()) == []

    def test_a_node_that_starts_gets_those_of_its_shards(self):
        store = HandoverStore.of(bot_digest("local-development"), 8)
        for shard in (1, 2, 5):
            store.put(shard, saved(b"%d" % shard))
        shards = load_config(
            None, {}, {"shards.total": 8, "shards.start": 2, "shards.count": 2}
        ).shards
        assert {n: s.snapshot for n, s in handed_over("local-development", shards).items()} == {
            2: b"2"
        }
        assert store.holds([1])
        assert not store.holds([2])


class Node:
    """A node with sessions to take, and shards that wait for offers.

    Attributes:
        live: How often each shard still says that its session may be used.
        placeless: How often each shard has no place yet.
        silent: Whether nothing is heard of it once it took a session over.
    """

    def __init__(self, sessions=None, live=0, placeless=0, unwanted=(), *, silent=False):
        self.sessions, self.live, self.placeless = sessions or {}, live, placeless
        self.silent = silent
        self.unwanted, self.heard, self.asked = unwanted, {}, {}
        self.channel = FakeControl(self.act)

    def act(self, verb, argument, payload):
        slot = self.channel.slot
        times = self.asked[slot] = self.asked.get(slot, 0) + 1
        if verb == V.SESSION_TAKE:
            if times <= self.live:
                return R.SESSION_LIVE, 0, b""
            if slot not in self.sessions:
                return R.ARGUMENT, 0, b""
            return R.DONE, 700, self.sessions[slot]
        assert verb == V.SESSION_OFFER
        if slot != ANY_SHARD and times <= self.placeless:
            return R.ARGUMENT, 0, b""
        if slot in self.unwanted:
            return R.SESSION_UNWANTED, 0, b""
        self.heard[slot] = (payload, argument)
        if self.silent:
            self.channel.lose_answers = 10**6
        return R.DONE, 0, b""

    def run(self, store, leaving=(), coming=()):
        with self.channel as channel:
            work = HandOver(Place("127.0.0.1", channel.port, KEY), store)
            work.run(leaving, coming)
        return work


def test_each_session_is_taken_when_its_shard_is_released(store):
    node = Node({2: b"two", 3: b"", 4: b"four"}, live=2)
    work = node.run(store, leaving=[2, 3, 4, 5])
    assert (work.taken, work.given) == (2, 0)
    taken = store.claim(2)
    assert taken.snapshot == b"two"
    assert 600 < now_ms() - taken.ended_ms < 10_000
    assert store.claim(3) is None
    assert store.claim(4).snapshot == b"four"
    assert node.heard == {}


def test_each_shard_that_comes_gets_its_session_or_hears_that_there_is_none(store):
    store.put(2, saved())
    node = Node(placeless=2)
    work = node.run(store, coming=[2, 3])
    assert (work.taken, work.given) == (0, 1)
    payload, argument = node.heard[2]
    assert payload == b"two"
    assert 500 <= argument < 10_000
    assert node.heard[3] == (b"", 0)
    assert node.heard[ANY_SHARD] == (b"", 0)
    assert not store.holds([2])


def test_a_shard_that_started_without_its_session_ends_it(store):
    store.put(2, saved())
    work = Node(unwanted=(2,)).run(store, coming=[2])
    assert work.given == 0
    assert not store.holds([2])


def test_a_shard_that_gets_no_place_leaves_its_session_to_others(store, monkeypatch):
    monkeypatch.setattr(handover, "TAKE_PATIENCE_S", 0.3)
    kept = saved()
    store.put(2, kept)
    work = Node(placeless=10**6).run(store, coming=[2])
    assert work.given == 0
    assert store.claim(2) == kept


def test_what_the_node_may_have_taken_over_is_offered_to_no_other(store, monkeypatch):
    monkeypatch.setattr(handover, "TAKE_PATIENCE_S", 0.5)
    store.put(2, saved())
    node = Node(silent=True)
    node.run(store, coming=[2])
    assert node.heard[2][0] == b"two"
    assert not store.holds([2])


def test_a_node_that_loses_answers_gives_its_sessions_all_the_same(store):
    node = Node({2: b"two"})
    node.channel.lose_answers = 2
    assert node.run(store, leaving=[2]).taken == 1
