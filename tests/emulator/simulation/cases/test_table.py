"""The page of the cases names every case and every test, and every test that it names exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[4]
PAGE = ROOT / "firmware" / "docs" / "cases.md"
EDGE_CASES = {f"E{n}" for n in range(1, 41)}
VECTORS = {
    f"V{n}"
    for n in (
        *range(1, 7), 8, *range(10, 22), *range(23, 26), 27, 28, 29, 31, 32, 33, "34b",
        *range(35, 41), 42, 43, 44, 45, 46, 48, *range(50, 63), 64, 65, 67,
    )
}  # fmt: skip
NOT_MET = {"V54", "V55", "V57"}
"""Faults of a decompressor, which this node does not have."""
ROW = re.compile(
    r"^\| ([EV][^|]*) \| (?:\[(test_\w+)\]\(\.\./\.\./(\S+)\)|none) \| (\S[^|]*) \|$", re.M
)
TEST = re.compile(r"^def (test_\w+)", re.MULTILINE)
NUMBERED = re.compile(r"_([ev]\d+b?)(?=_)")


def rows():
    return ROW.findall(PAGE.read_text())


def names_in(path):
    return set(TEST.findall((ROOT / path).read_text()))


def test_every_line_of_the_tables_is_a_row():
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith(("| E", "| V"))]
    assert len(lines) == len(rows())


def test_every_case_has_a_row_and_those_that_are_met_have_a_test():
    met = {case for cases, test, _, _ in rows() if test for case in cases.split(", ")}
    named = {case for cases, _, _, _ in rows() for case in cases.split(", ")}
    assert named == EDGE_CASES | VECTORS
    assert met == named - NOT_MET


def test_every_test_of_a_row_exists():
    missing = [(test, path) for _, test, path, _ in rows() if test and test not in names_in(path)]
    assert missing == []


def test_every_numbered_test_has_the_row_of_its_cases():
    told = {(test, case) for cases, test, _, _ in rows() for case in cases.split(", ")}
    for path in sorted(Path(__file__).parent.glob("test_[ep]*.py")):
        for test in names_in(path.relative_to(ROOT)):
            for number in NUMBERED.findall(test):
                case = number[0].upper() + number[1:].lstrip("0")
                assert (test, case) in told, test
