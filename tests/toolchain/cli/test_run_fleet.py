"""`shardfw run --fleet` without QEMU: what it refuses, how it configures nodes, what the demonstration measures."""

import asyncio
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from firmware.layouts.config import ConfigBlob
from firmware.layouts.fleet_config import BusAuth, FleetConfig
from pxe.gateway.accounting import GatewayStats, ShardStats
from toolchain.cli.blob import config_blob
from toolchain.cli.fleet.records import Lease, Range
from toolchain.cli.fleet_blob import fleet_blob
from toolchain.cli.fleet_demo import sentence, takeover
from toolchain.cli.fleet_runner import FleetRunner, Machine
from toolchain.cli.fleet_services import FleetRunOptions
from toolchain.cli.run import command
from toolchain.cli.run_config import with_fleet
from toolchain.cli.run_fleet import cap_for, show
from toolchain.cli.runner import RunError
from toolchain.config import load_config
from toolchain.layout.pack import unpack

NAMES = ("n525400f1ee01", "n525400f1ee02")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--fleet", "2", "--no-gateway"), "--fleet has a gateway of its own and no --pcap"),
        (("--fleet", "2", "--pcap", "x"), "--fleet has a gateway of its own and no --pcap"),
        (("--demo-takeover",), "--demo-takeover needs another node: --fleet 2 or more"),
        (("--fleet", "1", "--demo-takeover"), "--demo-takeover needs another node: --fleet 2 or"),
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


class Stub(FleetRunner):
    """A fleet of two nodes with one slot each that acts when a node is killed."""

    def __init__(self, *, taken: bool = True, back: bool = True) -> None:
        config = load_config(None, {}, {"shards.count": 4})
        super().__init__(FleetRunOptions(config, 2, 4, 2, 2, 4000))
        self.taken, self.back = taken, back
        self.counts = GatewayStats([ShardStats(n, connected=True, connections=1) for n in range(4)])
        self.leases = {n: self.lease(NAMES[n], 1, n) for n in range(2)}
        for number, name in enumerate(NAMES, 1):
            process = SimpleNamespace(kill=self.kill)
            node = SimpleNamespace(exit_code=None, errors="", process=process)
            self.machines.append(Machine(f"node-{number}", name, node))  # type: ignore[arg-type]

    @staticmethod
    def lease(name, generation, slot):
        return Lease(name, "0" * 8, generation, 1, 4000, 1, Range(2 * slot, 2), 4)

    def kill(self):
        if self.taken:
            self.leases[0] = self.lease(NAMES[1], 2, 0)
        if self.back:
            for n in (0, 1):
                self.counts.shards[n].connections += 1
            self.counts.shards[0].resumes += 1
            self.counts.shards[1].identifies += 1

    @property
    def gateway(self):
        return self.counts

    def holders(self):
        return dict(self.leases)


def test_the_demonstration_tells_who_took_what_and_how():
    steps: list[str] = []
    report = asyncio.run(takeover(Stub(), 1, steps.append))
    assert report["kill_to_claim_ms"] <= report["kill_to_connected_ms"]
    assert (report["victim"], report["takers"]) == ("node-1", {"0": "node-2"})
    assert (report["moved_shards"], report["resumed"], report["identified"]) == (2, 1, 1)
    assert report["identify_gate_refusals"] == 0
    assert steps[0] == "node-1 holds slots 0 and is killed"
    assert "its 2 shards were claimed by others" in sentence(report)
    assert show(report, demo=True) == sentence(report)


@pytest.mark.parametrize(
    ("stub", "message"),
    [
        (Stub(taken=False), "nobody took slots 0 after 1 s. Last lines of each node:"),
        (Stub(back=False), "not all of its shards are connected again after 1 s. Last lines"),
    ],
)
def test_a_takeover_that_does_not_come_is_an_error(monkeypatch, stub, message):
    async def at_most_a_second(self, holds, timeout, else_say):
        await FleetRunner.until(self, holds, min(timeout, 1), else_say)

    monkeypatch.setattr(Stub, "until", at_most_a_second)
    with pytest.raises(RunError) as caught:
        asyncio.run(takeover(stub, 1, lambda _: None))
    assert str(caught.value).startswith(message)


def test_a_fleet_that_does_not_start_says_how_far_it_came():
    stub = Stub()
    del stub.leases[1]
    stub.counts.shards[3].connected = False
    with pytest.raises(RunError) as caught:
        asyncio.run(takeover(stub, 0.2, lambda _: None))
    assert str(caught.value).startswith(
        "1 of 2 slots are held and 3 of 4 shards connected after 0.2 s. Last lines of each node:"
    )


def test_the_report_lists_nodes_with_their_slots():
    report = Stub().report()
    assert [(one["label"], one["slots"]) for one in report["nodes"]] == [
        ("node-1", [0]),
        ("node-2", [1]),
    ]
    assert (report["held"], report["connected"]) == (2, 4)
    assert show(report, demo=False) == (
        "4 of 4 shards have a session over wss; slots: node-1 0, node-2 1"
    )
