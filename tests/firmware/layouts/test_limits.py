"""Bounds that the configuration and the firmware both know, and may not know differently."""

from pathlib import Path

from firmware.layouts.permit import PERMITS_MAX
from firmware.layouts.profile import PROFILES
from firmware.limits import SHARDS_MAX
from toolchain.config.schema import DISCOVERY_PATH, MAX_CONCURRENCY, MAX_LOCAL_SHARDS, PROFILE_QUERY

ROOT = Path(__file__).parents[3]


def test_the_configuration_admits_what_the_tables_hold():
    assert MAX_LOCAL_SHARDS == SHARDS_MAX
    assert MAX_CONCURRENCY == PERMITS_MAX


def test_the_configuration_asks_for_the_version_of_each_profile():
    versions = {p.id.name.lower(): p.version for p in PROFILES}
    assert PROFILE_QUERY
    for name, query in PROFILE_QUERY.items():
        assert query == f"v={versions[name]}&encoding=json"
    assert {p.id.name.lower(): p.query.decode() for p in PROFILES} == PROFILE_QUERY
    assert {p.id.name.lower(): p.discovery_path for p in PROFILES} == DISCOVERY_PATH


def test_no_routine_and_no_model_asks_which_service_it_serves():
    """What differs is a value of the profile's row, or a row of the close codes."""
    sources = [p for p in (ROOT / "firmware").rglob("*.py") if "layouts" not in p.parts]
    sources += (ROOT / "emulator" / "models").rglob("*.py")
    assert len(sources) > 100
    named = "ProfileId."
    assert [p for p in sources if named in p.read_text(encoding="utf-8")] == []
