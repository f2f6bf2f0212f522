"""`shardfw run --fleet` without QEMU: what it refuses, how it configures nodes, what the demonstration measures."""

import asyncio
import json
import time
from collections import deque
from dataclasses import replace
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner

from firmware.layouts.config import ConfigBlob
from firmware.layouts.fleet_config import BusAuth, FleetConfig
from pxe.examples.python.consumer import Event
from pxe.gateway import Connection, Gateway, GatewayOptions, LoadOptions, ManualClock, Send
from toolchain.cli.blob import config_blob
from toolchain.cli.fleet.records import Lease, Range
from toolchain.cli.fleet_blob import fleet_blob
from toolchain.cli.fleet_demo import Demonstration, faults
from toolchain.cli.fleet_runner import FleetRunner, Machine
from toolchain.cli.fleet_services import FleetRunOptions
from toolchain.cli.run import command
from toolchain.cli.run_config import with_fleet
from toolchain.cli.run_fleet import cap_for, fleet_main, show
from toolchain.cli.runner import RunError
from toolchain.config import load_config
from toolchain.config.load import DEVELOPMENT_TOKEN
from toolchain.layout.pack import unpack

NAMES = ("n525400f1ee01", "n525400f1ee02")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--fleet", "2", "--no-gateway"), "--fleet has a gateway of its own and no --pcap"),
        (("--fleet", "2", "--pcap", "x"), "--fleet has a gateway of its own and no --pcap"),
        (("--demo-takeover",), "--demo-takeover needs another node: --fleet 2 or more"),
        (("--fleet", "1", "--demo-takeover"), "--demo-takeover needs another node: --fleet 2 or"),
        (("--slots", "2"), "--slots and --lease-ms go with --fleet"),
        (("--lease-ms", "5000"), "--slots and --lease-ms go with --fleet"),
        (
            ("--fleet", "2", "--slots", "17"),
            "17 slots are too many. Write 16 at most: 8 for each node",
        ),
        (
            ("--fleet", "2", "--slots", "9", "--demo-takeover"),
            "Write 8 at most: 8 for each node but the one that is killed",
        ),
        (("--fleet", "9"), "9 is not in the range 1<=x<=8"),
        (("--fleet", "2", "--lease-ms", "100"), "100 is not in the range 4000<=x<=600000"),
    ],
)
def test_what_cannot_be_is_wrong_usage(words, message):
    result = CliRunner().invoke(command, words)
    assert result.exit_code == 2
    assert message in result.stderr


def test_more_slots_than_shards_are_refused_before_a_node_boots():
    result = CliRunner().invoke(command, ["--fleet", "2", "--shards", "2", "--slots", "3"])
    assert result.exit_code == 1
    assert "the number of slots is 3. Write 1 to 2" in result.stderr


@pytest.mark.parametrize(
    ("nodes", "slots", "cap"), [(1, 1, 1), (1, 4, 4), (2, 2, 2), (3, 3, 2), (4, 4, 2), (2, 20, 8)]
)
def test_the_others_have_room_for_the_slots_of_one_that_dies(nodes, slots, cap):
    assert cap_for(nodes, slots) == cap


def test_every_node_boots_one_image_and_has_no_shard_of_its_own():
    overrides = {"shards.count": 12, "lease.duration_ms": 9, "plan.auto": True}
    config = with_fleet(load_config(None, {}, overrides), "b1", 4999, ("u", "pw"), 3)
    page = unpack(FleetConfig, fleet_blob(config))
    assert (page["node_len"], page["cap"], page["auth"]) == (0, 3, BusAuth.USER)
    assert page["password"].rstrip(b"\0") == b"pw"
    assert page["servers"][0]["port"] == 4999
    page = unpack(ConfigBlob, config_blob(config))
    assert (page["local_count"], page["lease_ms"], page["plan_auto"]) == (0, 0, 0)


def test_a_node_of_another_fleet_runs_here_with_a_token_and_as_many_shards_as_are_asked_for(
    monkeypatch, tmp_path
):
    made = []
    monkeypatch.setattr("toolchain.cli.run_fleet.fleet_main", lambda fleet, **_: made.append(fleet))
    monkeypatch.delenv("SHARDFW_TOKEN", raising=False)
    file = tmp_path / "node.toml"
    file.write_text(
        '[gateway]\nurl = "wss://g.example"\n[fleet]\nbot = "b1"\nservers = ["n.lan"]\n'
    )
    for words in (("--shards", "12"), ()):
        result = CliRunner().invoke(command, ["--fleet", "2", "-c", str(file), *words])
        assert result.exit_code == 0, result.output
    assert [each.total for each in made] == [12, 16]
    config = made[0].config
    assert config.token.get_secret_value() == ""
    config = with_fleet(config, "local", 4999, ("u", "pw"), 1)
    assert config.token.get_secret_value() == DEVELOPMENT_TOKEN


SHARDS, SLOTS, LEASE_MS = 4, 2, 4000


class Stub(FleetRunner):
    """A fleet of two nodes with one slot each: a real gateway, and nodes and a stream that are none.

    Args:
        taken: Whether the slots of a node that was killed are taken.
        back: Whether shards are connected again.
        resumes: Whether they resume.
        repeats: Whether a hand-over offers the reader an event again that it had in another session.
        forgets: The counter of an event of the load that never comes to the stream.
        beats: Whether a former owner goes on.
    """

    def __init__(
        self,
        *,
        taken: bool = True,
        back: bool = True,
        resumes: bool = True,
        repeats: bool = False,
        forgets: int = 0,
        beats: bool = False,
    ) -> None:
        config = load_config(None, {}, {"shards.count": SHARDS})
        super().__init__(FleetRunOptions(config, 2, SHARDS, SLOTS, 2, LEASE_MS))
        self.taken, self.back, self.resumes = taken, back, resumes
        self.repeats, self.forgets, self.beats = repeats, forgets, beats
        self.clock, self.stream = ManualClock(), deque[Event]()
        gateway = GatewayOptions(
            shards=SHARDS, max_concurrency=SHARDS, guilds_per_shard=0, identify_interval_ms=0,
            load=LoadOptions(rate=2000.0),
        )  # fmt: skip
        self.real = Gateway(gateway, clock=self.clock)
        self.leases = {n: self.lease(NAMES[n], 1, n) for n in range(SLOTS)}
        self.written = dict.fromkeys(range(SLOTS), time.monotonic())
        self.connections: dict[int, Connection] = {}
        self.sessions: dict[int, tuple[str, int]] = {}
        for number, name in enumerate(NAMES, 1):
            process = SimpleNamespace(kill=self.kill)
            node = SimpleNamespace(exit_code=None, errors="", process=process)
            self.machines.append(Machine(f"node-{number}", name, node))  # type: ignore[arg-type]
        for shard in range(SHARDS):
            self.connect(shard)
        self.publish()

    @staticmethod
    def lease(name, generation, slot):
        return Lease(name, "0" * 8, generation, 1, LEASE_MS, 1, Range(2 * slot, 2), SHARDS)

    def connect(self, shard):
        connection = self.real.open("/?v=10&encoding=json", user_agent="n", host="h")
        session, sequence = self.sessions.get(shard, ("", 0))
        body = {"token": "t", "session_id": session, "seq": sequence}
        if not session or not self.resumes:
            identity = {"os": "", "browser": "", "device": ""}
            body = {"token": "t", "properties": identity, "intents": 1, "shard": [shard, SHARDS]}
        connection.feed(json.dumps({"op": 6 if "seq" in body else 2, "d": body}))
        self.connections[shard] = connection

    def publish(self):
        """Put into the stream what the gateway said to nodes that live."""
        for connection, action in self.real.drain():
            message = json.loads(action.data) if isinstance(action, Send) else {}
            shard = connection.shard
            if shard is None or message.get("op") != 0:
                continue
            if connection is not self.connections[shard]:
                continue
            kind, s, data = message["t"], message["s"], message["d"]
            if kind == "READY":
                self.sessions[shard] = data["session_id"], s
            self.sessions[shard] = self.sessions[shard][0], s
            generation, place = self.leases[shard // 2].generation, len(self.stream)
            event = Event(shard, kind, generation, self.sessions[shard][0], s, place, data)
            if data.get("load_counter") == self.forgets:
                continue
            self.stream.append(event)
            if self.repeats and generation == 2 and "load_counter" in data:
                self.stream.append(replace(event, session="another"))

    async def read_events(self, account):
        while True:
            self.clock.advance(10)
            self.real.run_timers(self.clock.now_ms())
            self.publish()
            while self.stream:
                account.take(self.stream.popleft())
            await asyncio.sleep(0.01)

    def give(self, slot, name):
        """Let a slot go from a node to another one."""
        self.leases[slot] = self.lease(name, self.leases[slot].generation + 1, slot)
        self.written[slot] = time.monotonic()
        for shard in self.leases[slot].slot.start, self.leases[slot].slot.end - 1:
            former = self.connections[shard]
            if self.back:
                self.connect(shard)
            if self.beats:
                former.feed('{"op":1,"d":1}')

    def kill(self):
        if self.taken:
            for slot, lease in self.leases.items():
                if lease.node == NAMES[1]:
                    self.give(slot, NAMES[0])

    async def until_saved(self, held):
        assert held

    async def ask_move(self, slot, node):
        self.give(slot, node)

    @property
    def core(self):
        return self.real

    @property
    def gateway(self):
        return self.real.stats()

    def holders(self):
        return dict(self.leases)

    def written_at(self, slot):
        return self.written[slot]


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    monkeypatch.setattr("toolchain.cli.fleet_demo.FLOW_S", 0.1)
    monkeypatch.setattr("toolchain.cli.fleet_demo.SETTLE_S", 0.5)


def demonstrated(stub, steps=None):
    told = [] if steps is None else steps
    return asyncio.run(Demonstration(stub, told.append).run(1))


def test_the_demonstration_tells_of_a_hand_over_and_a_takeover(capsys):
    steps: list[str] = []
    report = demonstrated(Stub(), steps)
    assert (report["handover_from"], report["handover_to"]) == ("node-1", "node-2")
    assert (report["handover_shards"], report["handover_resumed"]) == (2, 2)
    assert report["handover_s"] >= 0
    assert (report["victim"], report["takers"]) == ("node-2", {"0": "node-1", "1": "node-1"})
    assert (report["moved_shards"], report["resumed"], report["identified"]) == (4, 4, 0)
    assert report["kill_to_claim_ms"] <= report["kill_to_connected_ms"]
    assert report["takeover_s"] <= report["renewal_to_connected_s"]
    assert report["takeover_bound_s"] == 6.04
    assert report["events"] > 10
    must = ("overlaps", "lost_events", "doubled_events", "identify_gate_refusals")
    assert [report[name] for name in must] == [0, 0, 0, 0]
    assert faults(report) == []
    assert steps[0] == "slot 0 is asked to go from node-1 to node-2"
    assert "node-2 holds slots 0, 1 and is killed" in steps
    show(report, demo=True)
    shown = capsys.readouterr().out
    assert "planned hand-over" in shown
    assert "node-2, killed" in shown
    assert f"{report['events']} events, 0 lost, 0 doubled; 0 overlaps" in shown


@pytest.mark.parametrize(
    ("stub", "key", "message"),
    [
        (Stub(beats=True), "overlaps", "two connections spoke for one shard, 6 times"),
        (Stub(forgets=3), "lost_events", "4 events are lost though every session was resumed"),
        (Stub(forgets=3), "handover_lost_events", "the planned hand-over lost 4 events"),
        (Stub(repeats=True), "doubled_events", "a reader got"),
    ],
)
def test_what_must_not_be_is_told(stub, key, message):
    report = demonstrated(stub)
    assert report[key] > 0
    assert message in "; ".join(faults(report))


def test_what_comes_late_is_not_lost_and_what_never_comes_is():
    keys = {("load of shard 0", n) for n in range(4)}
    shown = Demonstration(Stub(), lambda _: None)
    account = shown.account
    account.sent, account.missing = set(keys), set(keys)

    async def main():
        async def deliver():
            for n in range(3):
                await asyncio.sleep(0.3)
                account.missing.discard(("load of shard 0", n))

        late = asyncio.ensure_future(deliver())
        assert await shown.settle() == keys
        await late

    asyncio.run(main())
    assert account.missing == {("load of shard 0", 3)}


def test_what_a_session_that_could_not_be_resumed_lost_is_told_and_no_fault():
    stub = Stub()
    steps = []

    def say(text):
        steps.append(text)
        stub.resumes = "killed" not in text

    report = asyncio.run(Demonstration(stub, say).run(1))
    assert (report["handover_resumed"], report["identified"], report["resumed"]) == (2, 4, 0)
    assert faults(report) == []
    assert faults(report | {"lost_events": 1}) == []
    assert faults(report | {"handover_lost_events": 1}) == ["the planned hand-over lost 1 events"]
    assert faults(report | {"identify_gate_refusals": 2}) == ["2 Identifies came too soon"]


def test_a_fleet_that_broke_its_word_ends_with_an_error(monkeypatch, capsys):
    async def ran(*_, **__):
        return demonstrated_report | {"overlaps": 1}

    demonstrated_report = demonstrated(Stub())
    monkeypatch.setattr("toolchain.cli.run_fleet.run_fleet", lambda *a, **k: ran())
    with pytest.raises(click.ClickException) as caught:
        fleet_main(Stub().options, until_ready=False, demo=True, timeout=1, as_json=True)
    assert caught.value.message == (
        "the fleet broke its word: two connections spoke for one shard, 1 times"
    )
    assert json.loads(capsys.readouterr().out)["overlaps"] == 1


@pytest.mark.parametrize(
    ("stub", "message"),
    [
        (Stub(taken=False), "nobody took slots 0, 1 after 1 s. Last lines of each node:"),
        (Stub(back=False), "not all of its shards are connected again after 1 s. Last lines"),
    ],
)
def test_a_takeover_that_does_not_come_is_an_error(monkeypatch, stub, message):
    async def at_most_a_second(self, holds, timeout, else_say):
        await FleetRunner.until(self, holds, min(timeout, 1), else_say)

    monkeypatch.setattr(Stub, "until", at_most_a_second)
    with pytest.raises(RunError) as caught:
        demonstrated(stub)
    assert str(caught.value).startswith(message)


def test_a_slot_of_a_stranger_is_not_demonstrated_with():
    stub = Stub()
    stub.leases[0] = stub.lease("n7", 1, 0)
    with pytest.raises(RunError, match="slot 0 is held by n7, which is no node of this run"):
        demonstrated(stub)


def test_a_fleet_that_does_not_start_says_how_far_it_came():
    stub = Stub()
    del stub.leases[1]
    stub.connections[3].lost()
    with pytest.raises(RunError) as caught:
        asyncio.run(Demonstration(stub, lambda _: None).run(0.2))
    assert str(caught.value).startswith(
        "1 of 2 slots are held and 3 of 4 shards connected after 0.2 s. Last lines of each node:"
    )


def test_the_report_lists_nodes_with_their_slots(capsys):
    report = Stub().report()
    assert [(one["label"], one["slots"]) for one in report["nodes"]] == [
        ("node-1", [0]),
        ("node-2", [1]),
    ]
    assert (report["held"], report["connected"]) == (2, 4)
    show(report, demo=False)
    assert capsys.readouterr().out == (
        "4 of 4 shards have a session over wss; slots: node-1 0, node-2 1\n"
    )
