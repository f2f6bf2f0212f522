"""How much of the image is proved, and how fast."""

import pytest

from tests.support.bench import shardfw_json

pytestmark = pytest.mark.bench


def test_coverage_and_lockstep_speed(figure):
    report = shardfw_json("check", "--coverage", "--json")
    command = "shardfw check --coverage"
    for key, name in (("instructions", "instructions"), ("branch_directions", "branch directions")):
        total, covered = report["total"][key]["total"], report["total"][key]["covered"]
        value = f"{100 * covered / total:.2f} %, {covered:,} of {total:,}"
        figure(f"coverage: {name} of the image", value, command)
    routines = report["total"]
    figure("routines with a model", f"{routines['models']} of {routines['routines']}", command)
    speed = report["lockstep"]
    value = (
        f"{speed['instructions_per_second']:,} instructions a second, "
        f"{speed['instructions_per_second_with_semantics']:,} with the semantics judged too"
    )
    figure("lockstep speed", value, command)
