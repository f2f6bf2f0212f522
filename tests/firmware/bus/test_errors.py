"""-ERR: every text of the table ends the link with its site or is noted, whatever its case."""

import pytest

from firmware.bus.messages import bus_take
from firmware.layouts.bus import BusKind, LinkState
from firmware.layouts.bus_sites import ERRORS, OTHER, REFUSALS
from tests.support.bus import BusBench
from tests.support.segments import ms

BENCH = BusBench(semantics=False)


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()


def said(text):
    BENCH.up()
    BENCH.arrive(b"-ERR " + text + b"\r\n")
    assert BENCH.bus(bus_take)["eax"] == BusKind.NONE
    return BENCH.link


def spelled(text, how):
    return {"as servers do": text.title(), "small": text, "large": text.upper()}[how]


@pytest.mark.parametrize("how", ["as servers do", "small", "large"])
@pytest.mark.parametrize("row", ERRORS, ids=[row.text.decode() for row in ERRORS])
def test_each_text_has_its_site(row, how):
    link = said(b"'" + spelled(row.text, how) + b' for "x"\'')
    if row.stays:
        assert (link.state, link.error) == (LinkState.UP, 0)
        assert (link.denied, link.denials) == (row.site.code, 1)
        assert BENCH.tcp.ring_ready == 0
        assert BENCH.lines() == [f"bus.denied link=control error={row.site.code:#x} times=1"]
        return
    assert (link.state, link.error, link.denials) == (LinkState.DOWN, row.site.code, 0)
    refused = row.site.number >= REFUSALS
    assert BENCH.lines()[-1].startswith("bus.refused" if refused else "bus.down")
    assert (link.next_try == ms(10_000)) == refused


@pytest.mark.parametrize(
    "text",
    [b"'Something New'", b"", b"'", b"''", b"'stale", b"x'Stale Connection'", b"Stale_Connection"],
)
def test_what_nobody_knows_is_noted_and_the_server_decides(text):
    link = said(text)
    assert (link.state, link.denied, link.denials) == (LinkState.UP, OTHER.code, 1)


def test_what_is_denied_again_and_again_is_told_less_and_less():
    BENCH.up()
    for _ in range(20):
        BENCH.arrive(b"-ERR 'Permissions Violation for Publish to \"x\"'\r\n")
        assert BENCH.bus(bus_take)["eax"] == BusKind.NONE
    assert BENCH.link.denials == 20
    told = [line.rpartition("times=")[2] for line in BENCH.lines()]
    assert told == ["1", "2", "4", "8", "16"]


def test_a_login_that_may_not_listen_keeps_its_connection():
    link = said(b"'Permissions Violation for Subscription to \"shardfw.b1.diag.n7\"'")
    assert (link.state, link.denials) == (LinkState.UP, 1)


@pytest.mark.parametrize(
    "text", [b"Stale Connection", b"  'Stale Connection'", b"'stale connection"]
)
def test_quotes_and_blanks_mean_nothing(text):
    assert said(text).state == LinkState.DOWN


def test_no_row_hides_another():
    texts = [row.text for row in ERRORS]
    assert [(a, b) for n, a in enumerate(texts) for b in texts[n + 1 :] if b.startswith(a)] == []
