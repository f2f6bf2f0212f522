"""The page about faults holds what the QEMU tests show."""

from tests.support import end_reasons
from tests.support.fault_matrix import FAULTS, table


def test_the_matrix_is_the_tests_own():
    assert len(FAULTS) == 37
    page = end_reasons.PAGE.read_text(encoding="utf-8").splitlines()
    assert [line for line in page if line.startswith("|")] == table()


def test_every_end_reason_has_a_step_and_a_line():
    steps = end_reasons.script()
    assert {step.shard for step in steps} == set(end_reasons.REASONS.values())
    lines = end_reasons.page_lines()
    assert len(lines) == len(end_reasons.REASONS)
    for (reason, shard), line in zip(end_reasons.REASONS.items(), lines, strict=True):
        assert f" shard={shard} " in line
        assert f" reason={reason} " in line
