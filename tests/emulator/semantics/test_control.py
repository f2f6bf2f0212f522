"""Branches, calls and returns of the semantics: where they go, and what they leave on the stack."""

import pytest

from tests.support.one_step import OF, RCX, RIP, RSP, SF, ZF, run

BRANCHES = [
    ("7505", 0x202, {}, True),
    ("7505", 0x242, {}, False),
    ("7c05", 0x202 | SF, {}, True),  # JL: SF differs from OF
    ("7c05", 0x202 | SF | OF, {}, False),
    ("7f05", 0x202 | ZF, {}, False),  # JG: ZF must be clear
    ("e305", 0x202, {RCX: 1 << 32}, False),  # JRCXZ tests all 64 bits
    ("67e305", 0x202, {RCX: 1 << 32}, True),  # JECXZ the low 32
    ("e205", 0x202, {RCX: 1}, False),  # LOOP goes down first
    ("e205", 0x202, {RCX: 0}, True),
    ("e105", 0x202, {RCX: 5}, False),  # LOOPE needs ZF
    ("e105", 0x242, {RCX: 5}, True),
]


@pytest.mark.parametrize(("data", "flags", "registers", "taken"), BRANCHES)
def test_branch(data: str, flags: int, registers: dict[int, int], taken: bool) -> None:
    step = run(data, registers, flags=flags)
    following = RIP + len(data) // 2
    assert step.rip == (following + 5 if taken else following)
    assert step.flags == flags


def test_call_pushes_the_next_address_and_ret_releases_bytes() -> None:
    step = run("e810000000", {RSP: 0x8000})
    assert step.rip == RIP + 0x15
    assert list(step.writes) == [(0x7FF8, 8, RIP + 5)]
    stack = {0x7FF8: (0x1234).to_bytes(8, "little")}
    back = run("c21000", {RSP: 0x7FF8}, memory=stack)
    assert (back.rip, back.registers[RSP]) == (0x1234, 0x8010)


def test_call_through_the_stack_pointer_reads_before_the_push() -> None:
    stack = {0x8000: (0x99).to_bytes(8, "little")}
    assert run("ff1424", {RSP: 0x8000}, memory=stack).rip == 0x99
