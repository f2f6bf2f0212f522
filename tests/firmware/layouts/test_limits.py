"""Bounds that the configuration and the firmware both know, and may not know differently."""

from firmware.layouts.permit import PERMITS_MAX
from firmware.layouts.profile import PROFILES
from firmware.limits import SHARDS_MAX
from toolchain.config.schema import MAX_CONCURRENCY, MAX_LOCAL_SHARDS, PROFILE_QUERY


def test_the_configuration_admits_what_the_tables_hold():
    assert MAX_LOCAL_SHARDS == SHARDS_MAX
    assert MAX_CONCURRENCY == PERMITS_MAX


def test_the_configuration_asks_for_the_version_of_each_profile():
    versions = {p.id.name.lower(): p.version for p in PROFILES}
    assert PROFILE_QUERY
    for name, query in PROFILE_QUERY.items():
        assert query == f"v={versions[name]}&encoding=json"
