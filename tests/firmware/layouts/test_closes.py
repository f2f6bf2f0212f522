"""The close codes: what the documentation shows is what the firmware reads."""

from pathlib import Path

import pytest

from firmware.layouts.closes import (
    CLOSE_RULES,
    FIRST_CODE,
    MEANINGS,
    RULES,
    RULES_PER_PROFILE,
    table,
)
from firmware.layouts.closes import rule as rule_of
from firmware.layouts.profile import ProfileId
from firmware.layouts.shard import FailureFlag, Stop

DOC = (Path(__file__).parents[3] / "firmware/docs/gateway.md").read_text()


def test_the_documentation_shows_the_table_as_it_is():
    assert f"\n\n{table()}\n\n" in DOC


@pytest.mark.parametrize("profile", ProfileId)
def test_every_rule_stands_in_the_firmwares_table_and_has_a_meaning(profile):
    assert CLOSE_RULES.init is not None
    for code, rule in RULES[profile].items():
        row = (profile * RULES_PER_PROFILE + code - FIRST_CODE) * 2
        assert tuple(CLOSE_RULES.init[row : row + 2]) == (rule.action, rule.stop)
        assert code in MEANINGS
        assert bool(rule.stop) == bool(rule.action & FailureFlag.FATAL)


@pytest.mark.parametrize(("code", "discord", "fluxer"), [
    (4001, Stop.NONE, Stop.REFUSED),
    (4004, Stop.AUTH, Stop.AUTH),
    (4009, Stop.NONE, Stop.NONE),
    (4011, Stop.RESHARD, Stop.RESHARD),
    (4013, Stop.CONFIG, Stop.CONFIG),
    (4999, Stop.NONE, Stop.NONE),
])  # fmt: skip
def test_the_services_differ_where_their_documents_do(code, discord, fluxer):
    stops = (rule_of(ProfileId.DISCORD, code).stop, rule_of(ProfileId.FLUXER, code).stop)
    assert stops == (discord, fluxer)
