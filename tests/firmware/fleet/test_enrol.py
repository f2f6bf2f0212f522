"""A node that waits for its token: when it does, what it says, how often."""

import hashlib

import pytest

from firmware.fleet.enrol import enrol_announce, enrol_begin, enrol_tick
from firmware.fleet.enrol_text import enrol_facts
from firmware.layouts.bus import BUS, LinkState
from firmware.layouts.bus_sites import RELOGIN
from firmware.layouts.clock import NEVER
from firmware.layouts.crypto import DRBG
from firmware.layouts.enrol import (
    BODY_MAX,
    ENROL_CRYPTO,
    ENROL_UNHEARD,
    ENROL_WEAK,
    LINE_MAX,
    EnrolState,
)
from firmware.layouts.fleet_config import FLEET_CONFIG, NAME_MAX
from firmware.layouts.node import CORE
from firmware.layouts.smbios import SERIAL_MAX, SMBIOS
from firmware.layouts.variants import VARIANTS
from firmware.limits import TX_BYTES
from tests.support.enrol import IDENTITY, INFO, TOKEN, EnrolBench, public_of
from tests.support.fleet import name_node
from tests.support.segments import NOW, ms
from tests.support.token import set_token

BENCH = EnrolBench(enrol_begin, enrol_announce, enrol_tick)
LAB = BENCH.lab


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()


# -- boot -----------------------------------------------------------------------------------------
def test_enrol_begin_makes_a_pair_and_says_what_is_wanted():
    BENCH.run(enrol_begin)
    state = BENCH.enrol
    public = bytes(state.keys.public)
    assert public == public_of(bytes(state.keys.private)).public_bytes_raw()
    assert state.state == EnrolState.WAITING
    assert bytes(state.identity)[: state.identity_len] == IDENTITY
    assert bytes(state.info)[: state.info_len] == INFO
    digest = hashlib.sha256(public).digest()
    assert bytes(state.digest) == digest
    assert LAB.g(BUS).enrolling == 1
    start = int.from_bytes(digest[:8], "big")
    assert BENCH.lines() == [f"enrol.waiting fingerprint={start:#x} until=shardfw_fleet_approve"]


def test_enrol_begin_without_a_fleet_or_with_a_token_does_nothing():
    set_token(LAB, TOKEN)
    BENCH.run(enrol_begin)
    assert BENCH.enrol.state == EnrolState.OFF
    set_token(LAB, b"")
    LAB.g(FLEET_CONFIG).magic = 0
    BENCH.run(enrol_begin)
    assert (BENCH.enrol.state, LAB.g(BUS).enrolling) == (EnrolState.OFF, 0)
    assert bytes(BENCH.enrol.keys.public) == bytes(32)
    assert BENCH.lines() == []


@pytest.mark.parametrize(
    ("usable", "weak", "site"), [(0, 0, ENROL_CRYPTO), (0, 1, ENROL_CRYPTO), (1, 1, ENROL_WEAK)]
)
def test_enrol_begin_makes_no_pair_out_of_nothing(usable, weak, site):
    LAB.g(VARIANTS).usable, LAB.g(DRBG).weak = usable, weak
    BENCH.run(enrol_begin)
    assert (BENCH.enrol.state, BENCH.enrol.error) == (EnrolState.IMPOSSIBLE, site.code)
    assert bytes(BENCH.enrol.keys.private) == bytes(32)
    assert BENCH.lines() == [f"enrol.impossible reason={site.name}"]
    BENCH.open()
    BENCH.link.state = LinkState.UP
    assert BENCH.run(enrol_tick)["rax"] == NEVER
    assert BENCH.said() == b""


# -- announcements --------------------------------------------------------------------------------
def announcement(state=b"waiting", refused=0, identity=IDENTITY, reply=b"_E.n7.3fa2c1d0.c.5 "):
    key = public_of().public_bytes_raw().hex().encode()
    body = b"1 %b %d %b %b" % (state, refused, key, identity)
    return b"PUB shardfw.b1.enrol.n7 %b%d\r\n%b\r\n" % (reply, len(body), body)


def test_enrol_announce_says_who_waits_and_where_it_listens():
    BENCH.waiting(inbox=0)
    BENCH.link.inbox_next = 4
    assert BENCH.run(enrol_announce)["cf"] == 0
    assert BENCH.said() == announcement()
    BENCH.enrol.refused = 12
    BENCH.run(enrol_announce)
    assert BENCH.said() == announcement(refused=12)
    assert (BENCH.enrol.inbox, BENCH.enrol.announced, BENCH.link.inbox_next) == (5, 2, 5)


def test_enrol_announce_of_a_machine_that_tells_nothing():
    LAB.g(SMBIOS).wipe()
    LAB.call(enrol_facts)
    state = BENCH.enrol
    mac, _, _, build = IDENTITY.split()
    assert bytes(state.identity)[: state.identity_len] == b"%b - - %b" % (mac, build)


def test_enrol_announce_with_the_longest_names_has_room():
    machine = LAB.g(SMBIOS)
    machine.serial_len, machine.serial[:] = SERIAL_MAX, b"s" * SERIAL_MAX
    name_node(LAB, b"n" * NAME_MAX)
    config = LAB.g(FLEET_CONFIG)
    config.bot[:], config.bot_len = b"b" * NAME_MAX, NAME_MAX
    LAB.free(enrol_begin)
    BENCH.open()
    BENCH.link.state, BENCH.link.inbox_next = LinkState.UP, 2**32 - 2
    state = BENCH.enrol
    state.refused = 2**32 - 1
    BENCH.run(enrol_announce)
    said = BENCH.said()
    assert len(said.split(b"\r\n")[1]) == BODY_MAX - 1  # `waiting` is shorter than `enrolled`
    assert len(said) < LINE_MAX


def test_enrol_announce_waits_for_a_link_and_for_room():
    BENCH.waiting()
    BENCH.link.state = LinkState.HELLO
    assert BENCH.run(enrol_announce)["cf"] == 1
    BENCH.link.state = LinkState.UP
    BENCH.queue(bytes(TX_BYTES - LINE_MAX + 1))
    assert BENCH.run(enrol_announce)["cf"] == 1
    assert BENCH.enrol.announced == 0


# -- time -----------------------------------------------------------------------------------------
def test_enrol_tick_announces_every_five_seconds():
    state = BENCH.waiting()
    at, waits = NOW, set()
    for count in range(1, 6):
        LAB.g(CORE).now = at
        due = BENCH.run(enrol_tick)["rax"]
        assert state.announced == count
        assert BENCH.said() == announcement()
        waits.add(due - at)
        LAB.g(CORE).now = due - 1
        assert BENCH.run(enrol_tick)["rax"] == due
        assert BENCH.said() == b""
        at = due
    assert all(ms(4500) <= NOW + wait <= ms(5500) for wait in waits)
    assert len(waits) == 5, "they are jittered"


def test_enrol_tick_tries_again_soon_when_there_is_no_room():
    BENCH.waiting()
    BENCH.queue(bytes(TX_BYTES))
    assert BENCH.run(enrol_tick)["rax"] == ms(100)


@pytest.mark.parametrize(
    ("here", "servers", "goes"),
    [(23, 3, 0), (24, 1, 0), (24, 2, 1), (24, 200, 1), (25, 3, 1), (2**15, 3, 1)],
)
def test_enrol_tick_leaves_a_server_over_which_nobody_releases_a_token(here, servers, goes):
    state = BENCH.waiting()
    state.here, LAB.g(FLEET_CONFIG).servers_used = here, servers
    due = BENCH.run(enrol_tick)["rax"]
    assert (state.announced, due == NEVER) == (1 - goes, bool(goes))
    assert (BENCH.link.state, BENCH.link.error) == (
        (LinkState.DOWN, ENROL_UNHEARD.code) if goes else (LinkState.UP, 0)
    )
    assert state.here == (0 if goes else here + 1)
    # On the next connection it speaks at once.
    BENCH.link.state = LinkState.UP
    assert BENCH.run(enrol_tick)["rax"] >= (ms(4500) if goes else due)
    assert (state.announced, state.inbox) == (1, 5)


def test_enrol_tick_leaves_no_server_between_two_announcements():
    state = BENCH.waiting()
    state.here, LAB.g(FLEET_CONFIG).servers_used, state.announce_at = 24, 3, NOW + 1
    assert BENCH.run(enrol_tick)["rax"] == NOW + 1
    assert BENCH.link.state == LinkState.UP


def test_enrol_tick_with_its_token_leaves_no_server():
    state = BENCH.waiting()
    state.state, state.here, LAB.g(FLEET_CONFIG).servers_used = EnrolState.ENROLLED, 24, 3
    BENCH.run(enrol_tick)
    assert (BENCH.link.state, state.told) == (LinkState.UP, 1)


def test_enrol_announce_counts_on_although_there_is_no_other_server():
    state = BENCH.waiting()
    state.here = 2**16 - 1
    BENCH.run(enrol_announce)
    assert (state.here, state.announced) == (0, 1)


@pytest.mark.parametrize("state", [s for s in LinkState if s is not LinkState.UP])
def test_enrol_tick_says_nothing_on_a_link_that_is_not_up(state):
    BENCH.waiting()
    BENCH.link.state = state
    assert BENCH.run(enrol_tick)["rax"] == NEVER
    assert BENCH.enrol.announced == 0


def test_enrol_tick_logs_in_anew_when_the_token_is_there():
    state = BENCH.waiting()
    state.state, state.relogin = EnrolState.ENROLLED, 1
    LAB.g(BUS).enrolling = 0
    links = LAB.g(BUS).links
    links[1].state = LinkState.TLS
    assert BENCH.run(enrol_tick)["rax"] == NEVER
    assert [links[n].state for n in range(2)] == [LinkState.DOWN] * 2
    assert [links[n].error for n in range(2)] == [RELOGIN.code] * 2
    assert all(ms(50) <= links[n].next_try <= ms(250) for n in range(2))
    assert (state.relogin, state.told, BENCH.said()) == (0, 0, b"")
    assert BENCH.lines()[0].startswith(f"bus.down link=control error={RELOGIN.code:#x} ")
    BENCH.run(enrol_tick)
    assert len(BENCH.lines()) == 2, "once"


def test_enrol_tick_leaves_a_link_alone_that_is_down():
    state = BENCH.waiting()
    state.state, state.relogin = EnrolState.ENROLLED, 1
    BENCH.run(enrol_tick)
    assert (LAB.g(BUS).links[1].error, len(BENCH.lines())) == (0, 1)


def test_enrol_tick_tells_once_that_it_is_enrolled():
    state = BENCH.waiting()
    state.state, state.refused = EnrolState.ENROLLED, 2
    assert BENCH.run(enrol_tick)["rax"] == NEVER
    assert BENCH.said() == announcement(b"enrolled", 2, reply=b"")
    assert state.told == 1
    LAB.g(CORE).now += ms(60_000)
    assert BENCH.run(enrol_tick)["rax"] == NEVER
    assert BENCH.said() == b""


def test_enrol_tick_of_a_node_with_its_own_token_is_silent():
    BENCH.waiting()
    BENCH.enrol.state = EnrolState.OFF
    assert BENCH.run(enrol_tick)["rax"] == NEVER
    assert BENCH.said() == b""
