"""The planted bugs fit the sources of today, and one is hunted; `make planted` hunts them all."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from emulator.simulation import storm as storm_module
from emulator.simulation.planted import (
    FOLDER,
    ROOT,
    Bug,
    Hunk,
    PatchError,
    bugs,
    hunt,
    main,
    read_patch,
)

ALL = bugs()


def plant(bug, root):
    """Plant a bug in copies of the files that it changes; return what they say then."""
    for hunk in bug.hunks:
        path = root / hunk.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((ROOT / hunk.path).read_bytes())
    bug.plant(root)
    return {hunk.path: (root / hunk.path).read_text() for hunk in bug.hunks}


@pytest.mark.parametrize("bug", ALL, ids=lambda bug: bug.name)
def test_a_planted_bug_changes_the_sources_of_today(bug, tmp_path):
    for path, text in plant(bug, tmp_path).items():
        assert text != (ROOT / path).read_text()
    # Names that an edit of the imports took away: the bug would not build.
    lint = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821", str(tmp_path)]
    told = subprocess.run(lint, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout


def test_there_are_at_least_fifteen_and_each_says_what_is_wrong():
    assert len(ALL) >= 15
    assert len({bug.says for bug in ALL}) == len(ALL)


def test_a_planted_bug_is_found():
    found = hunt(bugs(("reset-wipes-the-neighbour",))[0], seeds=20)
    assert 1 <= found.seeds <= 20
    assert "stored to" in found.by


def test_a_seed_that_fails_anyway_accuses_no_bug(monkeypatch):
    def fails(trial):
        raise AssertionError(f"seed {trial.seed}")

    monkeypatch.setattr(storm_module, "storm", fails)
    with pytest.raises(RuntimeError, match=r"seed 0 fails without the bug too \(.*Mend that first"):
        hunt(bugs(("reset-wipes-the-neighbour",))[0], seeds=1)


def test_a_bug_that_does_not_build_counts_as_no_find():
    hunk = Hunk(
        "firmware/shard/backoff.py", "    a.imul(cycles, RECON", "    a.imul(NOWHERE, RECON"
    )
    with pytest.raises(RuntimeError, match="broken: the simulation could not run"):
        hunt(Bug("broken", "it does not build", (hunk,)), seeds=1)


PATCH = """what is wrong
--- a/one.py
+++ b/one.py
@@ -1,3 +1,3 @@
 a
-b
+B
 c
@@ -9 +9,2 @@
 z
+y
"""


def test_a_patch_is_read_by_its_text(tmp_path):
    path = tmp_path / "name.patch"
    path.write_text(PATCH)
    bug = read_patch(path)
    assert bug == Bug(
        "name",
        "what is wrong",
        (Hunk("one.py", "a\nb\nc\n", "a\nB\nc\n"), Hunk("one.py", "z\n", "z\ny\n")),
    )
    (tmp_path / "one.py").write_text("0\n0\na\nb\nc\nd\nz\n")
    bug.plant(tmp_path)
    assert (tmp_path / "one.py").read_text() == "0\n0\na\nB\nc\nd\nz\ny\n"


@pytest.mark.parametrize(("text", "times"), [("a\nb\n", 0), ("a\nb\nc\na\nb\nc\nz\n", 2)])
def test_a_hunk_that_fits_nowhere_or_twice_is_refused(tmp_path, text, times):
    path = tmp_path / "name.patch"
    path.write_text(PATCH)
    (tmp_path / "one.py").write_text(text)
    with pytest.raises(
        PatchError, match=rf"name.patch, hunk 1: its old lines stand {times} times in one.py; make"
    ):
        read_patch(path).plant(tmp_path)


@pytest.mark.parametrize("text", ["", PATCH.partition("\n")[2], "only words\n"])
def test_a_patch_needs_words_and_a_hunk(tmp_path, text):
    path = tmp_path / "name.patch"
    path.write_text(text)
    with pytest.raises(
        PatchError, match="a patch begins with a line that says what is wrong, then"
    ):
        read_patch(path)


def test_an_unknown_bug_is_refused_with_the_known_ones():
    result = CliRunner().invoke(main, ["no-such-bug"])
    assert result.exit_code == 2
    assert "no bug is called 'no-such-bug'; known: ack-flag-kept" in " ".join(result.stderr.split())


def test_bugs_that_are_not_found_are_an_error(monkeypatch):
    monkeypatch.setattr(
        "emulator.simulation.planted.hunt",
        lambda bug, seeds: type(hunt(bug, 0))(bug, 0, "", 0.0) if seeds else None,
    )
    result = CliRunner().invoke(main, ["ack-flag-kept", "--seeds", "1"])
    assert result.exit_code == 1
    assert "1 bugs were not found in 1 seeds" in result.stderr


def test_the_patches_lie_beside_this_file():
    assert {path.stem for path in FOLDER.glob("*.patch")} == {bug.name for bug in ALL}
