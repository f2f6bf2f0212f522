"""Which servers are used: headers, clusters, TLS as configured and nothing else, a nonce for an nkey."""

import itertools

import pytest

from firmware.bus.judge import bus_judge
from firmware.layouts.bus import LinkState
from firmware.layouts.bus_sites import (
    LAME_DUCK,
    NO_HEADERS,
    NO_NONCE,
    NO_TLS,
    OLD_CLUSTER,
    TLS_WANTED,
)
from firmware.layouts.config import CONFIG
from firmware.layouts.fleet_config import BusAuth
from firmware.layouts.tls import TlsState
from tests.support.bus import BusBench

BENCH = BusBench(bus_judge, semantics=False)


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()


def judged(state=LinkState.INFO, **fields):
    link = BENCH.up(state, **{"informed": 0, "version": 0x020F01} | fields)
    BENCH.bus(bus_judge)
    return link


def passed(link):
    return (link.state, link.informed, link.error) == (LinkState.TLS, 1, 0)


def refused(link, site):
    return (link.state, link.error) == (LinkState.DOWN, site.code)


def test_a_server_without_headers_is_refused():
    assert refused(judged(headers=0), NO_HEADERS)


@pytest.mark.parametrize("state", [LinkState.INFO, LinkState.UP])
@pytest.mark.parametrize(
    ("version", "old"),
    [(0, 1), (0x020914, 1), (0x020915, 0), (0x01FFFF, 1), (0x020A00, 0), (0x030000, 0)],
)
@pytest.mark.parametrize("clustered", [0, 1])
def test_an_old_cluster_is_refused_whenever_it_shows(state, version, old, clustered):
    link = judged(state, version=version, clustered=clustered)
    if old and clustered:
        assert refused(link, OLD_CLUSTER)
    else:
        assert link.error == 0


TLS = list(itertools.product((0, 1), (0, 1), (0, 1), (TlsState.IDLE, TlsState.CONNECTED)))


@pytest.mark.parametrize(("secure", "required", "available", "tls"), TLS)
def test_tls_is_what_the_configuration_says(secure, required, available, tls):
    BENCH.lab.g(CONFIG).gateway_secure = secure
    BENCH.context.tls.state = tls
    link = judged(tls_required=required, tls_available=available)
    if not secure and required:
        assert refused(link, TLS_WANTED)
    elif secure and tls == TlsState.IDLE and not required | available:
        assert refused(link, NO_TLS)
    else:
        assert passed(link)


@pytest.mark.parametrize("auth", BusAuth)
@pytest.mark.parametrize("nonce", [0, 15])
def test_an_nkey_needs_a_nonce(auth, nonce):
    BENCH.login(auth)
    link = judged(nonce_len=nonce)
    assert refused(link, NO_NONCE) if auth == BusAuth.NKEY and not nonce else passed(link)


@pytest.mark.parametrize("servers", [1, 2])
def test_a_server_about_to_stop_is_not_begun_with_when_there_is_another(servers):
    BENCH.servers(servers)
    link = judged(lame_duck=1)
    assert refused(link, LAME_DUCK) if servers == 2 else passed(link)


@pytest.mark.parametrize("state", [LinkState.HELLO, LinkState.UP])
def test_a_later_info_changes_no_state(state):
    link = judged(state, tls_required=1, lame_duck=1)
    assert (link.state, link.informed, link.error) == (state, 0, 0)
