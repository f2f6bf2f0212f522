"""Which hosts may hear the token."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.gateway.host import gateway_host_allowed, host_is_under
from firmware.layouts.config import CONFIG
from firmware.layouts.discovery import DISCOVERY, DiscoveryMode
from tests.support.lab import Lab

LAB = Lab(host_is_under, gateway_host_allowed)


def under(host, domain):
    LAB.reset()
    # Nothing is mapped behind the one and before the other.
    at, place = LAB.put(host), LAB.put(domain, first=True)
    got = LAB.call(host_is_under, host=at, size=len(host), domain=place, length=len(domain))
    return not got.outputs["cf"]


def allowed(host, base, suffix=b"", discovered=False):
    LAB.reset()
    config, found = LAB.g(CONFIG), LAB.g(DISCOVERY)
    where = found if discovered else config
    where.gateway_host[: len(base)] = base
    where.gateway_host_len, where.gateway_path_len = len(base), 1
    config.discovery = DiscoveryMode.HTTP if discovered else DiscoveryMode.STATIC
    config.resume_suffix[: len(suffix)] = suffix
    config.resume_suffix_len = len(suffix)
    got = LAB.call(gateway_host_allowed, host=LAB.put(host), size=len(host))
    return not got.outputs["cf"]


@pytest.mark.parametrize(
    ("host", "domain", "expected"),
    [
        (b"discord.gg", b"discord.gg", True),
        (b"gateway.discord.gg", b"discord.gg", True),
        (b"a.b.Discord.GG", b"dISCORD.gg", True),
        (b"evildiscord.gg", b"discord.gg", False),
        (b"discord.gg.evil.example", b"discord.gg", False),
        (b"discord.gg.", b"discord.gg", False),
        (b"gg", b"discord.gg", False),
        (b"discord_gg", b"discord.gg", False),
        (b"discord.gh", b"discord.gg", False),
        (b"x", b"", False),
        (b"10.0.2.2", b"10.0.2.2", True),
        (b"1.10.0.2.2", b"10.0.2.2", False),
        (b"110.0.2.2", b"10.0.2.2", False),
        (b"1.99.9.9.9", b"99.9.9.9", False),
    ],
)
def test_host_is_under(host, domain, expected):
    assert under(host, domain) == expected


@pytest.mark.parametrize(
    ("host", "base", "suffix", "expected"),
    [
        (b"gateway.discord.gg", b"gateway.discord.gg", b"", True),
        (b"us-1.gateway.discord.gg", b"gateway.discord.gg", b"", True),
        (b"gateway-us-east1-b.discord.gg", b"gateway.discord.gg", b"", True),
        (b"discord.gg", b"gateway.discord.gg", b"", True),
        (b"evil.gg", b"gateway.discord.gg", b"", False),
        (b"evil.example", b"gateway.discord.gg", b"", False),
        (b"evil.test", b"gateway.test", b"", False),
        (b"evil-gateway.test", b"gateway.test", b"", False),
        (b"b.x.1", b"a.x.1", b"", True),
        (b"b..test", b"a..test", b"", True),
        (b"test", b"gateway.test", b"", False),
        (b"a.gateway.test", b"gateway.test", b"", True),
        (b"evil", b"gateway", b"", False),
        (b"x", b"gateway.", b"", False),
        (b"0.2.2", b"10.0.2.2", b"", False),
        (b"a.0.2.2", b"10.0.2.2", b"", False),
        (b"10.0.2.3", b"10.0.2.2", b"", False),
        (b"8.9.9.9", b"9.9.9.9", b"", False),
        (b"resume.test", b"gateway.test", b"test", True),
        (b"gateway.lan", b"gateway.lan", b"discord.gg", True),
        (b"a.discord.gg", b"gateway.lan", b"discord.gg", True),
        (b"other.example.lan", b"gateway.example.lan", b"discord.gg", False),
        (b"10.0.2.9", b"10.0.2.2", b"10.0.2.9", True),
        (b"10.0.2.2", b"", b"", False),
    ],
)
@pytest.mark.parametrize("discovered", [False, True])
def test_gateway_host_allowed(host, base, suffix, expected, discovered):
    assert allowed(host, base, suffix, discovered) == expected


_NAMES = st.text(alphabet="aA9.-_", max_size=7).map(str.encode)


@settings(max_examples=150, deadline=None)
@given(host=_NAMES.filter(bool), base=_NAMES, suffix=_NAMES, discovered=st.booleans())
def test_any_names_match_the_model(host, base, suffix, discovered):
    allowed(host, base, suffix, discovered)
