"""How much of the image is proved, and how fast."""

import pytest

from tests.support.bench import REPEATS, shardfw_json, spread

pytestmark = pytest.mark.bench


def test_coverage(figure):
    total = shardfw_json("check", "--coverage", "--json")["total"]
    command = "shardfw check --coverage"
    for key, name in (("instructions", "instructions"), ("branch_directions", "branch directions")):
        covered, of = total[key]["covered"], total[key]["total"]
        value = f"{100 * covered / of:.2f} %, {covered:,} of {of:,}"
        figure(f"coverage: {name} of the image", value, command)
    figure("routines with a model", f"{total['models']} of {total['routines']}", command)


def test_lockstep_speed(figure):
    reports = [shardfw_json("check", "checksum", "--json")["lockstep"] for _ in range(REPEATS)]
    for key, what in (
        ("instructions_per_second", "lockstep with the contract check"),
        ("instructions_per_second_with_semantics", "lockstep with the semantics judged too"),
    ):
        value = spread([report[key] for report in reports], "instructions a second")
        figure(what, value, "shardfw check checksum")
