"""`shardfw check`: exit codes, JSON, rules; the tests that it runs are those of the routine."""

import json

import pytest
from click.testing import CliRunner

from emulator import uncovered
from emulator.coverage import Coverage, branch_table
from emulator.lockstep import Statistics
from emulator.native_judge import Figures
from firmware.crypto.hmac import tag_differs
from firmware.shard.backoff import schedule_backoff
from toolchain.cli import check, check_report
from toolchain.cli.check_report import Count, Counts, Report, Row, rows_of
from toolchain.cli.main import main

SPEEDS = {"instructions_per_second": 2.0, "instructions_per_second_with_semantics": 1.0}
IMAGE = check._link_alone(schedule_backoff)


def full_coverage():
    table = branch_table(IMAGE)
    coverage = Coverage()
    for address, (name, offset) in table.places.items():
        coverage.executed[name].add(offset)
        if address in table.branches:
            coverage.directions[name] |= {(offset, True), (offset, False)}
    return coverage


def report_of(coverage, *, fixed=None, **changes):
    rows = rows_of([IMAGE], coverage, fixed)
    return Report(rows, Statistics(), Figures(), SPEEDS, {}, restricted=False, **changes)


def run(*arguments):
    return CliRunner().invoke(main, ["check", "--jobs", "1", *arguments])


@pytest.fixture
def small_image(monkeypatch):
    monkeypatch.setattr(check, "release_images", lambda: [IMAGE])
    monkeypatch.setattr(check, "_declared", lambda: ([schedule_backoff], []))
    monkeypatch.setattr(check, "PROBE_SECONDS", 0.01)


def test_one_routine_is_proved_by_the_tests_of_its_module(small_image):
    result = run("schedule_backoff", "--coverage", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["ok"] is True
    assert found["problems"] == []
    instructions, branches = branch_table(IMAGE).totals["schedule_backoff"]
    assert found["total"]["instructions"] == {"total": instructions, "covered": instructions}
    assert found["total"]["branch_directions"] == {"total": 2 * branches, "covered": 2 * branches}
    assert found["layers"]["shard"]["routines"] == found["layers"]["shard"]["models"] == 1
    assert found["routines"]["schedule_backoff"]["layer"] == "shard"
    assert found["tests"]["passed"] > 0
    assert found["lockstep"]["calls"] > 0
    assert found["lockstep"]["judged_by_semantics"] > 0
    assert found["native"]["judged"]["schedule_backoff"] > 0
    assert found["native"]["left"] == {}
    assert found["lockstep"]["instructions_per_second"] > 0
    assert found["lockstep"]["instructions_per_second_with_semantics"] > 0


def test_the_table_and_the_speeds_are_printed(small_image):
    result = run("schedule_backoff")
    assert result.exit_code == 0, result.output
    assert "layer" in result.stdout
    assert "100.0 %" in result.stdout
    assert "Lockstep speed" in result.stdout


def test_a_failing_test_fails_the_check_and_is_shown(small_image, monkeypatch, tmp_path):
    path = tmp_path / "test_planted.py"
    path.write_text("def test_planted():\n    assert 1 == 2, 'planted'\n", encoding="utf-8")
    monkeypatch.setattr(check, "paths_of", lambda _chosen: [str(path)])
    result = run("schedule_backoff", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["problems"] == ["1 tests failed"]
    assert "planted" in result.stderr
    assert "Error: 1 tests failed" in result.stderr


def test_tests_that_cannot_be_collected_fail_the_check(small_image, monkeypatch, tmp_path):
    path = tmp_path / "test_broken.py"
    path.write_text("import no_such_module\n", encoding="utf-8")
    monkeypatch.setattr(check, "paths_of", lambda _chosen: [str(path)])
    result = run("schedule_backoff")
    assert result.exit_code == 1
    assert "Error: the tests could not run" in result.stderr
    assert "no_such_module" in result.stderr


def test_an_unknown_routine_is_wrong_usage_with_a_hint(small_image):
    result = run("schedule_bakcoff")
    assert result.exit_code == 2
    assert "no routine 'schedule_bakcoff'; did you mean schedule_backoff?" in result.stderr


def test_without_a_checkout_it_says_what_to_do(small_image, monkeypatch, tmp_path):
    monkeypatch.setattr(check, "ROOT", tmp_path)
    result = run()
    assert result.exit_code == 1
    assert "has no tests/firmware: run it from a checkout" in result.stderr


def test_help_shows_examples_and_exit_codes():
    result = run("--help")
    assert result.exit_code == 0
    assert "shardfw check schedule_backoff" in result.output
    assert "Exit codes: 0 proved" in result.output


def test_paths_are_those_of_the_modules():
    assert check.paths_of([schedule_backoff]) == ["tests/firmware/shard/test_backoff.py"]
    assert check.paths_of([]) == ["tests/firmware"]


@pytest.fixture(autouse=True)
def no_reasons(monkeypatch):
    """Judge the small images of these tests without the reasons given for the release image."""
    for name in list(uncovered.UNCOVERED):
        monkeypatch.delitem(uncovered.UNCOVERED, name)


def test_full_coverage_has_no_problem():
    report = report_of(full_coverage())
    report.judge(coverage=True)
    assert report.problems == []
    assert report.total.complete


def test_a_lifecycle_routine_must_be_complete():
    coverage = full_coverage()
    offset, taken = sorted(coverage.directions["schedule_backoff"])[0]
    coverage.directions["schedule_backoff"].discard((offset, taken))
    report = report_of(coverage)
    report.judge(coverage=False)
    assert report.problems == []
    report.judge(coverage=True)
    assert len(report.problems) == 2
    assert "schedule_backoff must be covered completely; add tests for: +0x" in report.problems[0]
    assert "is never passed" in report.problems[0]
    assert "(backoff.py:" in report.problems[0]
    assert report.problems[1].startswith("50.0 % of the image's branch directions are covered; 95")


def test_an_instruction_that_never_runs_is_listed():
    report = report_of(Coverage())
    assert len(report.rows[0].uncovered) == report.total.instructions.total
    assert report.rows[0].uncovered[-1].endswith("never runs")


def test_a_routine_without_model_is_a_problem(monkeypatch):
    monkeypatch.setattr(check_report, "_has_model", lambda _routine: False)
    report = report_of(full_coverage())
    report.judge(coverage=False)
    assert report.problems == [
        "schedule_backoff has no model; write `@model def schedule_backoff` in "
        "emulator.models.shard.backoff"
    ]


def test_a_routine_that_keeps_a_secret_needs_its_traces_compared():
    rows = rows_of([check._link_alone(tag_differs)], Coverage())
    report = Report(rows, Statistics(), Figures(), SPEEDS, {}, restricted=True)
    report.judge(coverage=False)
    assert report.problems == [
        "tag_differs keeps a secret and no test compares its traces; call `same_traces` of "
        "emulator/constant_time.py"
    ]
    traced = Report(
        rows, Statistics(), Figures(), SPEEDS, {}, restricted=True, traced={"tag_differs": 5}
    )
    traced.judge(coverage=False)
    assert traced.problems == []
    assert traced.as_json()["traces"] == {"tag_differs": 5}


def test_routines_in_no_image_are_judged_alike_and_counted_apart():
    others = rows_of([check._link_alone(tag_differs)], Coverage())
    report = report_of(full_coverage(), outside=others, traced={"tag_differs": 5})
    report.judge(coverage=True)
    assert report.problems == [
        "0.0 % of the other routines' instructions are covered; 95 % are promised"
    ]
    assert report.total.complete
    found = report.as_json()
    assert found["outside"]["routines"] == found["outside"]["models"] == 1
    assert found["outside"]["instructions"]["covered"] == 0
    assert found["routines"]["tag_differs"]["uncovered"]


def test_the_check_judges_a_routine_that_no_image_holds(small_image, monkeypatch):
    monkeypatch.setattr(check, "_declared", lambda: ([schedule_backoff, tag_differs], []))
    paths = ["tests/firmware/shard/test_backoff.py"]
    monkeypatch.setattr(check, "paths_of", lambda _chosen: paths)
    result = run("--json")
    found = json.loads(result.stdout)
    assert found["unlinked"] == ["tag_differs"]
    assert found["problems"] == [
        "tag_differs keeps a secret and no test compares its traces; call `same_traces` of "
        "emulator/constant_time.py"
    ]
    assert found["total"]["routines"] == len(IMAGE.routines())


def test_compared_traces_are_summed_over_the_processes(tmp_path):
    for name, count in (("1", 5), ("2", 10)):
        (tmp_path / f"{name}.traces.json").write_text(json.dumps({"judged": {"x": count}}))
    assert check._traced(tmp_path) == {"x": 15}


def test_a_reason_that_is_not_needed_is_a_problem(monkeypatch):
    monkeypatch.setitem(uncovered.UNCOVERED, "schedule_backoff", "tried")
    monkeypatch.setitem(uncovered.UNCOVERED, "gone", "tried")
    report = report_of(full_coverage())
    report.judge(coverage=True)
    assert report.problems == [
        "schedule_backoff is covered completely; remove it from emulator/uncovered.py",
        "gone is not in the image; remove it from emulator/uncovered.py",
    ]


def test_low_coverage_of_the_image_is_a_problem_unless_restricted():
    row = Row(schedule_backoff, Counts(Count(100, 94), Count(10, 10)), True, "", [])
    row.routine = type(
        "R", (), {"module": "firmware.net.x", "name": "x", "contract": schedule_backoff.contract}
    )()
    report = Report([row], Statistics(), Figures(), SPEEDS, {}, restricted=False)
    report.judge(coverage=True)
    assert report.problems == ["94.0 % of the image's instructions are covered; 95 % are promised"]
    report = Report([row], Statistics(), Figures(), SPEEDS, {}, restricted=True)
    report.judge(coverage=True)
    assert report.problems == []


@pytest.mark.parametrize(("count", "lines"), [(2000, 10), (20, 0)])
def test_a_log_is_told_of_each_tenth_of_a_long_run(capsys, count, lines):
    stream = [json.dumps({"total": count}), *[json.dumps({"outcome": "passed"})] * count]
    assert list(check._progress(iter(stream))) == ["passed"] * count
    told = capsys.readouterr().err.splitlines()
    assert len(told) == lines
    assert told[-1:] == ["proving: 2000 of 2000 tests"] * bool(lines)


def test_what_drawn_examples_alone_reach_is_a_problem_of_a_lifecycle_routine():
    fixed = full_coverage()
    offset, taken = sorted(fixed.directions["schedule_backoff"])[0]
    fixed.directions["schedule_backoff"].discard((offset, taken))
    report = report_of(full_coverage(), fixed=fixed)
    report.judge(coverage=False)
    assert report.problems == []
    report.judge(coverage=True)
    (problem,) = report.problems
    assert problem.startswith(
        "schedule_backoff is covered completely, but by drawn examples alone; add tests that draw "
        "nothing for: +0x"
    )
    assert "is never passed" in problem


def test_coverage_of_all_processes_adds_up(tmp_path, monkeypatch):
    full_coverage().save(tmp_path / "1.drawn.coverage.json")
    Coverage().save(tmp_path / "1.fixed.coverage.json")
    monkeypatch.setattr(check, "PROBE_SECONDS", 0.01)
    (row,) = check._report([IMAGE], [], tmp_path).rows
    assert row.counts.complete
    assert len(row.by_chance) == row.counts.instructions.total
    full_coverage().save(tmp_path / "2.fixed.coverage.json")
    (row,) = check._report([IMAGE], [], tmp_path).rows
    assert row.by_chance == []
