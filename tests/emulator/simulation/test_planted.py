"""Every planted bug still fits the tree; whether the simulation finds it is what `make planted` tells."""

import shutil

import pytest

from emulator.simulation.planted import ROOT, Bug, Hunk, PatchError, bugs


@pytest.mark.parametrize("bug", bugs(), ids=lambda bug: bug.name)
def test_each_patch_changes_what_it_names(bug, tmp_path):
    paths = {hunk.path for hunk in bug.hunks}
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    bug.plant(tmp_path)
    assert all((tmp_path / path).read_text() != (ROOT / path).read_text() for path in paths)


def test_a_patch_that_does_not_fit_says_so(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\nx = 1\n", encoding="utf-8")
    wrong = Bug("wrong", "nothing", (Hunk("a.py", "x = 1\n", "x = 2\n"),))
    with pytest.raises(
        PatchError, match=r"wrong\.patch, hunk 1: its old lines stand 2 times in a\.py"
    ):
        wrong.plant(tmp_path)
