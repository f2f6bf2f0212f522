"""kosoku, somebody else's suite for WebSocket clients, against the layer in the emulator."""

import pytest

from tests.support.echo_bridge import EchoBridge
from tests.support.kosoku import CASES, INFORMATIONAL, failures, verdicts


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Run every case and return the suite's verdicts by case."""

    def play(suite):
        bridge = EchoBridge()
        for case in range(1, suite.count() + 1):
            bridge.run("127.0.0.1", suite.port, suite.path(case))

    return verdicts(tmp_path_factory.mktemp("kosoku"), play)


def test_kosoku_runs_every_case(report):
    assert len(report) == CASES


def test_kosoku_no_case_fails(report):
    assert failures(report) == {}


def test_kosoku_informational_cases_are_the_known_ones(report):
    got = {case for case, v in report.items() if v["behavior"] == "INFORMATIONAL"}
    assert got == INFORMATIONAL
