"""The sessions that `shardfw run` keeps: the store, the offers, and what is taken at a stop."""

import json

import pytest

from firmware.layouts.control import ControlResult, ControlVerb
from firmware.layouts.plan import PlanReport
from firmware.layouts.sessions import ANY_SHARD
from tests.support.control import KEY
from tests.support.fake_control import FakeControl
from toolchain.cli import sessions
from toolchain.cli.control import Place
from toolchain.cli.sessions import Saved, SessionKeeper, SessionStore, now_ms, state_folder
from toolchain.layout.pack import pack

NOW = 1_790_000_000_000
SHARDS = range(4)


@pytest.fixture
def store(tmp_path):
    return SessionStore(tmp_path / "node.sessions.json")


@pytest.fixture
def keeper(store):
    return SessionKeeper(store, clock=lambda: NOW)


def place(node):
    return Place("127.0.0.1", node.port, KEY)


def test_the_folder_is_the_users_own(tmp_path):
    folder = state_folder({"XDG_STATE_HOME": str(tmp_path / "state")})
    assert folder == tmp_path / "state" / "shardfw"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_without_a_variable_the_folder_lies_in_the_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state_folder({}) == tmp_path / ".local" / "state" / "shardfw"


def test_a_store_gives_what_it_was_given_once(store):
    kept = {3: Saved(b"three", NOW), 0: Saved(b"zero", NOW - 5)}
    store.save(kept)
    assert store.path.stat().st_mode & 0o777 == 0o600
    assert store.take() == kept
    assert store.take() == {}
    assert not store.path.exists()


def test_a_store_without_sessions_has_no_file(store):
    store.save({1: Saved(b"x", NOW)})
    store.save({})
    assert not store.path.exists()


def test_what_another_node_has_given_up_is_offered_as_well(store, keeper):
    store.save({1: Saved(b"one", NOW - 900), 2: Saved(b"two", NOW - 900)})
    moved = {2: Saved(b"newer", NOW - 5), 1: Saved(b"older", NOW - 1_000), 3: Saved(b"three", NOW)}
    assert keeper.load(moved)
    assert {n: s.snapshot for n, s in keeper.saved.items()} == {1: b"one", 2: b"newer", 3: b"three"}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", '{"a": {}}', '{"0": 5}', '{"0": {"ended_ms": 1, "snapshot": "z"}}']
)
def test_a_damaged_store_holds_nothing_and_is_forgotten(store, text):
    store.path.write_text(text)
    assert store.take() == {}
    assert not store.path.exists()


def test_a_snapshot_is_not_shown():
    assert "secret" not in repr(Saved(b"secret", NOW))


def test_each_session_is_offered_with_its_age_and_the_rest_may_start(store, keeper):
    store.save({1: Saved(b"one", NOW - 7_000), 3: Saved(b"three", NOW + 9), 9: Saved(b"nine", NOW)})
    assert keeper.load()
    heard = []

    def act(verb, argument, payload):
        heard.append((verb, argument, payload))
        return ControlResult.DONE, 5 if payload == b"three" else 0, b""

    with FakeControl(act) as node:
        assert keeper.offer(place(node), SHARDS) == 1
    offer = ControlVerb.SESSION_OFFER
    assert heard == [(offer, 7_000, b"one"), (offer, 2**64 - 9, b"three"), (offer, 0, b"")]
    assert not store.path.exists()


def test_without_sessions_nothing_is_offered(keeper):
    assert not keeper.load()
    with FakeControl() as node:
        assert keeper.offer(place(node), SHARDS) == 0
        assert node.done == []


def test_a_node_that_boots_again_hears_that_there_is_nothing_any_more(store, keeper):
    store.save({1: Saved(b"one", NOW)})
    keeper.load()
    heard = []

    def act(_verb, _argument, payload):
        heard.append(payload)
        return ControlResult.DONE, 0, b""

    with FakeControl(act) as node:
        assert keeper.offer(place(node), SHARDS) == 1
        assert keeper.offer(place(node), SHARDS) == 0
    assert heard == [b"one", b"", b""]


def test_a_node_that_has_no_address_yet_is_asked_again(store, keeper, monkeypatch):
    monkeypatch.setattr(sessions, "REPLY_S", 0.05)
    store.save({1: Saved(b"one", NOW)})
    keeper.load()
    with FakeControl() as node:
        node.lose_requests = 3
        assert keeper.offer(place(node), SHARDS) == 1


def test_a_shard_that_wants_none_does_not_hold_up_the_others(store, keeper):
    store.save({n: Saved(b"%d" % n, NOW) for n in SHARDS})
    keeper.load()

    def act(_verb, _argument, payload):
        unwanted = payload == b"1"
        return ControlResult.SESSION_UNWANTED if unwanted else ControlResult.DONE, 0, b""

    with FakeControl(act) as node:
        assert keeper.offer(place(node), SHARDS) == 3


def test_who_ends_offers_nothing_more(store, keeper):
    store.save({1: Saved(b"one", NOW)})
    keeper.load()
    keeper.ended.set()
    with FakeControl() as node:
        assert keeper.offer(place(node), SHARDS) == 0
        assert node.done == []


def test_a_stop_is_asked_until_each_shard_is_released(store, keeper):
    asked = []

    def act(verb, _argument, _payload):
        if verb == ControlVerb.PLAN:
            return ControlResult.VERB, 0, b""
        asked.append(verb)
        if len(asked) <= 2:
            return ControlResult.SESSION_LIVE, 0, b""
        if len(asked) == 3:
            return ControlResult.DONE, 0, b""
        return ControlResult.DONE, 1_500, b"snapshot"

    with FakeControl(act) as node:
        assert keeper.collect(place(node), range(2)) == 1
    assert asked == [ControlVerb.SESSION_TAKE] * 4
    ((_, row),) = json.loads(store.path.read_text()).items()
    assert row == {"ended_ms": NOW - 1_500, "snapshot": b"snapshot".hex()}


def test_a_node_that_has_moved_is_asked_for_what_it_holds_now(store, keeper):
    asked = []

    def act(verb, _argument, _payload):
        if verb == ControlVerb.PLAN:
            return ControlResult.DONE, 0, pack(PlanReport, {"total": 9, "start": 6, "count": 3})
        asked.append(verb)
        return ControlResult.DONE, 0, b"snapshot"

    with FakeControl(act) as node:
        assert keeper.collect(place(node), SHARDS) == 3
    assert sorted(store.take()) == [6, 7, 8]


def test_a_node_that_refuses_has_no_sessions(store, keeper):
    with FakeControl(lambda *_: (ControlResult.ARGUMENT, 0, b"")) as node:
        assert keeper.collect(place(node), SHARDS) == 0
    assert not store.path.exists()


def test_a_node_that_is_gone_is_given_up(store, keeper, monkeypatch):
    monkeypatch.setattr(sessions, "REPLY_S", 0.02)
    monkeypatch.setattr(sessions, "TAKE_PATIENCE_S", 0.1)
    with FakeControl() as node:
        node.lose_requests = 1_000
        assert keeper.collect(place(node), SHARDS) == 0


def test_every_shard_is_meant_by_a_number_that_none_has():
    assert ANY_SHARD == 2**32 - 1
    assert now_ms() > NOW - 2**40
