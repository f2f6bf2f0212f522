"""`shardfw check --mutate`: exit codes, JSON, tables; what it runs and what it refuses."""

import json

import pytest
from click.testing import CliRunner

from emulator import mutation_survivors
from emulator.mutation import report, scope
from firmware.boot.pxe import pxe_clear
from firmware.shard.backoff import schedule_backoff
from firmware.tcp.send import tcp_send
from toolchain.cli import check, check_mutate
from toolchain.cli.main import main

IMAGE = check._link_alone(schedule_backoff)


def run(*arguments):
    return CliRunner().invoke(main, ["check", "--mutate", "--jobs", "1", *arguments])


@pytest.fixture
def small(monkeypatch):
    """One routine, the tests of its module, and no reasons."""
    monkeypatch.setattr(check, "release_images", lambda: [IMAGE])
    monkeypatch.setattr(check, "_declared", lambda: ([schedule_backoff], []))
    monkeypatch.setattr(scope, "TESTS", ("tests/firmware/shard/test_backoff.py",))
    monkeypatch.setattr(report, "SURVIVORS", {})
    monkeypatch.setattr(mutation_survivors, "SURVIVORS", {})


def test_the_mutants_of_one_routine_are_killed_by_its_tests(small):
    result = run("schedule_backoff", "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 0, result.output
    assert found["ok"] is True
    assert found["survivors"] == []
    assert found["calls"] > 0
    assert found["unrepeatable"] == 0
    assert found["tests"]["passed"] > 0
    row = found["routines"]["schedule_backoff"]
    assert row["mutants"] == row["killed"]["replay"] + row["killed"]["lockstep"] > 30
    assert row["score_percent"] == 100.0


def test_tables_by_routine_and_layer_are_printed(small):
    result = run("schedule_backoff")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert any(line.startswith("schedule_backoff") and "100.0 %" in line for line in lines)
    assert any(line.startswith("lifecycle") for line in lines)
    assert any(line.startswith("total") for line in lines)
    assert "tests gave" in result.stdout


def test_a_survivor_fails_the_command_and_is_listed(small, monkeypatch, tmp_path):
    """A test that never has a clock: the delay is never computed."""
    path = tmp_path / "test_planted.py"
    path.write_text(
        "from firmware.layouts.shard import ShardContext\n"
        "from firmware.shard.backoff import schedule_backoff\n"
        "from tests.support.lab import Lab\n"
        "def test_no_clock():\n"
        "    lab = Lab(schedule_backoff)\n"
        "    lab.call(schedule_backoff, shard=lab.shard())\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(scope, "TESTS", (str(path),))
    result = run("schedule_backoff")
    assert result.exit_code == 1
    assert "no reason given" in result.stdout
    assert "add a test that kills it" in result.stderr


def test_a_failing_test_fails_the_command_and_no_mutant_is_tried(small, monkeypatch, tmp_path):
    path = tmp_path / "test_planted.py"
    path.write_text("def test_planted():\n    assert 1 == 2, 'planted'\n", encoding="utf-8")
    monkeypatch.setattr(scope, "TESTS", (str(path),))
    result = run("schedule_backoff", "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["problems"] == ["1 tests failed"]
    assert found["total"]["mutants"] == 0
    assert "planted" in result.stderr


def test_coverage_and_mutation_are_two_runs():
    result = run("--coverage")
    assert result.exit_code == 2
    assert "--coverage and --mutate are two runs; give one of them" in result.stderr


def test_code_of_another_mode_is_refused(small, monkeypatch):
    monkeypatch.setattr(check, "_declared", lambda: ([pxe_clear], []))
    assert pxe_clear.bits != 64
    result = run(pxe_clear.name)
    assert result.exit_code == 2
    assert "which no recorded call can run" in result.stderr


def test_routines_and_tests_are_those_of_the_judged_layers():
    assert check_mutate._routines([], [IMAGE]) == [schedule_backoff]
    assert check_mutate._tests([schedule_backoff]) == list(scope.TESTS)
    own = check.paths_of([tcp_send])
    assert check_mutate._tests([tcp_send]) == own
    assert check_mutate._tests([tcp_send, schedule_backoff]) == [*scope.TESTS, *own]


def test_progress_is_told_to_a_terminal_alone(small):
    result = CliRunner().invoke(
        main, ["check", "--mutate", "--jobs", "2", "schedule_backoff", "--json"]
    )
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
