"""`shardfw sim`: counts, figures, exit codes, the shortest plan, and a replay to read."""

import json

import pytest
from click.testing import CliRunner

from emulator.simulation import fleet_storm as fleet_storm_module
from emulator.simulation import storm as storm_module
from emulator.simulation.fleet_storm import fleet_storm
from emulator.simulation.storm import storm
from toolchain.cli.sim import command


def run(*argv):
    return CliRunner().invoke(command, list(argv))


@pytest.fixture
def short(monkeypatch):
    """Make a seed ten virtual seconds long."""
    monkeypatch.setattr(storm_module, "storm", lambda trial: storm(trial, shards=2, seconds=10))


@pytest.fixture
def broken(monkeypatch):
    """Make a run fail when shard 1 is closed with 4009 and its plan has no link that comes up."""

    def scenario(trial):
        storm(trial, shards=2, seconds=10)
        if "gateway-close 1 4009" in str(trial.plan) and "link-up" not in str(trial.plan):
            raise AssertionError("slot 1, rule 'planted': closed")

    monkeypatch.setattr(storm_module, "storm", scenario)


def test_help_shows_examples():
    assert "shardfw sim --seed 7 --replay" in run("--help").output


def test_seeds_that_pass_give_figures_as_json(short):
    result = run("--seeds", "2", "--first", "5", "--jobs", "1", "--json")
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert (figures["seeds"], figures["first"], figures["failures"]) == (2, 5, 0)
    assert figures["failed"] == []
    assert figures["virtual_seconds"] >= 20
    ratio = figures["virtual_seconds"] / (2 * figures["cpu_seconds_per_seed"])
    assert figures["speed_ratio"] == pytest.approx(ratio, rel=0.1)


def test_seeds_that_pass_are_told_in_a_sentence(short):
    result = run("--seed", "3", "--jobs", "1")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("1 seeds from 3, 0 failed, ")


PLAN = "drop p=0.01; at 3s gateway-close 1 4009; at 4s gateway-abort 0"


def test_a_failure_is_told_with_step_and_shortest_plan(broken):
    result = run("--seed", "3", "--jobs", "1", "--plan", PLAN)
    assert result.exit_code == 1
    assert "seed 3 failed at step " in result.stdout
    assert "AssertionError: slot 1, rule 'planted': closed" in result.stdout
    assert "runs: at 3s gateway-close 1 4009\n" in result.stdout
    assert "replay: shardfw sim --seed 3 --replay --plan 'at 3s gateway-close 1 4009'" in (
        result.stdout
    )


def test_a_failure_is_an_entry_of_the_json(broken):
    result = run("--seed", "3", "--jobs", "1", "--json", "--plan", PLAN)
    assert result.exit_code == 1
    figures = json.loads(result.stdout)
    assert figures["failures"] == 1
    (failed,) = figures["failed"]
    assert (failed["seed"], failed["plan"]) == (3, "at 3s gateway-close 1 4009")
    assert failed["step"] > 0


def test_a_replay_shows_what_everybody_did(short):
    result = run("--seed", "3", "--replay", "--plan", "drop p=0.1; at 4s gateway-close 1 4009")
    assert result.exit_code == 0, result.output
    words = [line.split() for line in result.stdout.splitlines()]
    assert [float(line[0]) for line in words] == sorted(float(line[0]) for line in words)
    assert {line[1] for line in words} == {"node", "gateway", "fault", "plan", "verdict"}
    assert ["0.000000", "plan", "rule", "drop", "p=0.1"] in words
    assert words[1][1:4] == ["plan", "node", "shards=2"]
    assert words[-1][1:] == ["verdict", "every", "rule", "held"]
    assert ["4.000000", "plan", "gateway-close", "1", "4009"] in words
    assert any(line[1:4] == ["gateway", "1", "close"] for line in words)
    assert any(line[1:5] == ["node", "1", "warn", "lifecycle.connectionLost"] for line in words)
    assert (
        run("--seed", "3", "--replay", "--plan", "drop p=0.1; at 4s gateway-close 1 4009").stdout
        == result.stdout
    )


def test_a_replay_can_be_narrowed_to_a_shard_and_a_source(short):
    result = run("--seed", "3", "--replay", "--shard", "1", "--source", "node", "--json")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert lines
    assert {(line["shard"], line["source"]) for line in lines} == {(1, "node")}


def test_a_replay_of_a_failure_ends_with_it(broken):
    result = run("--seed", "3", "--replay", "--plan", "at 3s gateway-close 1 4009")
    assert result.exit_code == 1
    assert "gateway-close 1 4009" in result.stdout
    assert result.stdout.rstrip().endswith(" verdict       failed")
    assert "Error: AssertionError: slot 1, rule 'planted': closed; seed 3, step " in result.stderr


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--replay"], "--replay and --plan are about one seed: give --seed N too"),
        (["--plan", "drop"], "--replay and --plan are about one seed: give --seed N too"),
        (["--seed", "1", "--shard", "0"], "--shard and --source choose lines of a replay: give --replay too"),
        (["--seed", "1", "--plan", "melt", "--jobs", "1"], "fault plan line 1: 'melt' is no action; known: drop"),
    ],
)  # fmt: skip
def test_wrong_usage_says_what_to_do(argv, message):
    result = run(*argv)
    assert result.exit_code == 2
    assert message in result.stderr


def test_two_processes_run_real_seeds():
    result = run("--seeds", "2", "--jobs", "2", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["seeds"] == 2


def test_an_address_that_ends_in_the_turn_of_a_heartbeat_accuses_nobody():
    # The clock jumps past the DHCP lease; the beat of that turn was written for the old address.
    result = run("--seed", "95", "--plan", "at 49782709858ns jump-clock node 90000")
    assert result.exit_code == 0, result.output


@pytest.fixture
def short_fleet(monkeypatch):
    """Make a seed of a fleet five virtual seconds long."""
    monkeypatch.setattr(
        fleet_storm_module, "fleet_storm", lambda trial: fleet_storm(trial, seconds=5)
    )


def test_a_fleet_is_a_scenario_of_its_own(short_fleet):
    result = run("--fleet", "--seed", "3", "--jobs", "1", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["failures"] == 0


def test_a_failure_in_a_fleet_is_replayed_in_a_fleet(monkeypatch):
    def scenario(trial):
        fleet_storm(trial, seconds=5)
        raise AssertionError("rule 'planted': always")

    monkeypatch.setattr(fleet_storm_module, "fleet_storm", scenario)
    result = run("--fleet", "--seed", "3", "--jobs", "1", "--plan", "")
    assert result.exit_code == 1
    assert "replay: shardfw sim --fleet --seed 3 --replay" in result.stdout


def test_a_replay_of_a_fleet_tells_records(short_fleet):
    result = run("--fleet", "--seed", "3", "--replay", "--source", "nats")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert all(line.split()[1] in ("nats", "plan", "verdict") for line in lines)
    assert any("ctl.lease.0 1 held node" in line for line in lines)
