"""`[identify]`: what Identify carries besides, by service, and what is refused by name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from toolchain.config import ConfigError, load_config

if TYPE_CHECKING:
    from pathlib import Path

GUILD = "41771983423143937"


def load(folder: Path, profile: str, text: str) -> bytes:
    """Return the rendered fields of a configuration."""
    path = folder / "node.toml"
    path.write_text(f"[gateway]\nprofile = '{profile}'\n[identify]\n{text}\n")
    return load_config(path, {}).identify.fields(profile)


def refused(folder: Path, profile: str, text: str) -> str:
    """Return the only problem, without its file."""
    with pytest.raises(ConfigError) as caught:
        load(folder, profile, text)
    (problem,) = caught.value.problems
    assert problem.line == 4
    return f"{problem.key}: {problem.message}"


@pytest.mark.parametrize(
    ("profile", "text", "fields"),
    [
        ("discord", "", {}),
        ("fluxer", "", {}),
        ("discord", "large_threshold = 50", {"large_threshold": 50}),
        ("discord", "large_threshold = 250", {"large_threshold": 250}),
        (
            "discord",
            "presence = { status = 'dnd' }",
            {"presence": {"since": None, "activities": [], "status": "dnd", "afk": False}},
        ),
        (
            "discord",
            "presence = { since = 0, afk = true, activities = [{ name = 'ü\"', type = 3 }] }",
            {
                "presence": {
                    "since": 0,
                    "activities": [{"name": 'ü"', "type": 3}],
                    "status": "online",
                    "afk": True,
                }
            },
        ),
        (
            "fluxer",
            "presence = { status = 'idle', mobile = true, custom_status = { text = 'x' } }",
            {"presence": {"status": "idle", "mobile": True, "custom_status": {"text": "x"}}},
        ),
        (
            "fluxer",
            f"ignored_events = ['A', 'B_1']\nflags = 0\ninitial_guild_id = '{GUILD}'",
            {"ignored_events": ["A", "B_1"], "flags": 0, "initial_guild_id": GUILD},
        ),
        ("fluxer", f"ignored_events = {['E'] * 256}", {"ignored_events": ["E"] * 256}),
    ],
)
def test_fields_are_rendered_as_json_behind_commas(tmp_path, profile, text, fields):
    got = load(tmp_path, profile, text)
    assert got.isascii()
    assert json.loads(b'{"x":0' + got + b"}") == {"x": 0} | fields
    assert b", " not in got


@pytest.mark.parametrize(
    ("profile", "text", "message"),
    [
        ("fluxer", "large_threshold = 50", "large_threshold: fluxer does not know this field"),
        ("discord", "ignored_events = ['A']", "ignored_events: discord does not know this field"),
        ("discord", "flags = 0", "flags: discord does not know this field of Identify. Leave the"),
        ("discord", "initial_guild_id = '1'", "initial_guild_id: discord does not know this field"),
        ("discord", "large_threshold = 49", "large_threshold: 49 is not an integer from 50 to 250"),
        ("discord", "large_threshold = 251", "large_threshold: 251 is not an integer from 50 to"),
        ("discord", "presence = 'online'", "presence: "),
        ("discord", "presence = { mobile = true }", "presence: 'mobile' is no field of a presence"),
        ("fluxer", "presence = { since = 1 }", "presence: 'since' is no field of a presence on"),
        ("discord", "presence = { status = 'away' }", "presence: status cannot be that. Write one"),
        ("fluxer", "presence = { status = 'offline' }", "presence: status cannot be that. Write"),
        ("discord", "presence = { afk = 1 }", "presence: afk cannot be that. Write true or false"),
        ("discord", "presence = { since = -1 }", "presence: since cannot be that. Write millisec"),
        ("discord", "presence = { since = true }", "presence: since cannot be that. Write millis"),
        ("discord", "presence = { activities = [{ name = 'x' }] }", "presence: activities cannot"),
        ("discord", "presence = { activities = [{ type = 1 }] }", "presence: activities cannot"),
        ("fluxer", "presence = { custom_status = 'x' }", "presence: custom_status cannot be that"),
        ("fluxer", "ignored_events = ['a b']", "ignored_events: 'a b' is not the name of an event"),
        ("fluxer", f"ignored_events = {['E'] * 257}", "ignored_events: 257 names in 1029 bytes"),
        (
            "fluxer",
            f"ignored_events = {['E' * 64] * 39}",
            "ignored_events: 39 names in 2614 bytes. The service takes 256 names in 2560 bytes",
        ),
        ("fluxer", "flags = -1", "flags: -1 is not an integer from 0 to"),
        ("fluxer", "initial_guild_id = 'x'", "initial_guild_id: 'x' is not a guild id. Write its"),
        ("fluxer", f"initial_guild_id = '{2**64}'", "initial_guild_id: '18446744073709551616' is"),
        ("fluxer", "initial_guild_id = 1", "initial_guild_id: 1 is not text in double quotes"),
    ],
)
def test_what_a_service_does_not_take_is_refused_by_name(tmp_path, profile, text, message):
    assert refused(tmp_path, profile, text).startswith(f"identify.{message}")


@pytest.mark.parametrize(("total", "fine"), [(16_384, True), (16_385, False)])
def test_fluxer_has_a_largest_total(total, fine):
    overrides = {"gateway.profile": "fluxer", "shards.total": total, "shards.count": 1}
    if fine:
        assert load_config(None, {}, overrides).shards.total == total
        return
    with pytest.raises(ConfigError, match="fluxer takes at most 16384 shards"):
        load_config(None, {}, overrides)
