"""Every way to fail has one row: alert, end and wait, in the node's tables and on the page."""

import re
from pathlib import Path

import pytest

from firmware.errors import SITES, Layer
from firmware.layouts.shard import End, FailureFlag
from firmware.layouts.tls_sites import (
    NO_ALERT,
    REFUSALS,
    SITES_MAX,
    TLS_ALERTS,
    TLS_ENDS,
    TLS_FLAGS,
    TLS_WAITS,
    Alert,
)

ALERTS, ENDS, FLAGS, WAITS = (
    bytes(table.init or b"") for table in (TLS_ALERTS, TLS_ENDS, TLS_FLAGS, TLS_WAITS)
)
DOC = Path(__file__).parents[3] / "firmware/docs/tls.md"


def test_every_site_of_the_layer_has_a_refusal():
    assert set(REFUSALS) == {s for s in SITES.values() if s.layer == Layer.TLS}


@pytest.mark.parametrize("site", REFUSALS, ids=lambda site: site.name)
def test_tables_of_the_node_say_the_refusal(site):
    refusal = REFUSALS[site]
    assert site.number < SITES_MAX
    alert = NO_ALERT if refusal.alert is None else refusal.alert
    assert (ALERTS[site.number], ENDS[site.number]) == (alert, refusal.end)
    assert (FLAGS[site.number], WAITS[site.number]) == (
        refusal.flags,
        refusal.wait_s,
    )


def test_numbers_without_a_site_fail_without_a_word():
    free = set(range(SITES_MAX)) - {site.number for site in REFUSALS}
    assert {ALERTS[n] for n in free} == {NO_ALERT}
    assert {ENDS[n] for n in free} == {End.TLS_FAILED}


def test_a_certificate_that_fails_is_not_retried_like_a_network():
    certificates = [s for s in REFUSALS if s.name.startswith("certificate_")]
    chain = [
        s for s in certificates if s.name not in ("certificate_context", "certificate_missing")
    ]
    assert len(chain) == 7
    assert {REFUSALS[s].wait_s for s in chain} == {120}


def test_what_no_attempt_can_mend_is_fatal():
    fatal = {s.name for s, r in REFUSALS.items() if r.flags & FailureFlag.FATAL}
    assert fatal == {"no_entropy", "clock_impossible", "no_arena", "crypto_broken"}


def test_the_page_lists_every_site_with_its_alert():
    rows = re.findall(r"^\| `(\w+)` \| (\w+|none) \| (.+) \|$", DOC.read_text(), re.MULTILINE)
    wanted = {
        site.name: ("none" if r.alert is None else Alert(r.alert).name.lower(), site.meaning)
        for site, r in REFUSALS.items()
    }
    assert {name: (alert, meaning) for name, alert, meaning in rows} == wanted
