"""The section `[identify]`: how many sessions may begin, and what Identify carries besides."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Self

from pydantic import Field, field_validator, model_validator

from toolchain.config.endpoint import refuse
from toolchain.config.section import Section

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

IGNORED_EVENTS_MAX, IGNORED_BYTES_MAX = 256, 2_560
"""What Fluxer takes in `ignored_events`: names, and bytes of them as JSON."""
SAFE_INTEGER_MAX = 2**53 - 1
FLUXER_TOTAL_MAX = 16_384
OWN_KEYS = {
    "discord": ("large_threshold",),
    "fluxer": ("ignored_events", "flags", "initial_guild_id"),
}
"""Keys that mean something to one service alone."""


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _is_table(value: object) -> bool:
    return isinstance(value, dict)


def _is_since(value: object) -> bool:
    return type(value) is int and 0 <= value <= SAFE_INTEGER_MAX


def _are_activities(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, dict)
        and isinstance(each.get("name"), str)
        and type(each.get("type")) is int
        for each in value
    )


_STATUS = ("online", "idle", "dnd", "invisible", "offline")
# Service -> key -> what is right, and how to write it.
_PRESENCE: dict[str, dict[str, tuple[Callable[[object], bool], str]]] = {
    "discord": {
        "status": (lambda value: value in _STATUS, f"one of {', '.join(_STATUS)}"),
        "afk": (_is_bool, "true or false"),
        "since": (_is_since, "milliseconds since 1970"),
        "activities": (
            _are_activities,
            'tables with name and type, such as { name = "x", type = 0 }',
        ),
    },
    "fluxer": {
        "status": (lambda value: value in _STATUS[:-1], f"one of {', '.join(_STATUS[:-1])}"),
        "afk": (_is_bool, "true or false"),
        "mobile": (_is_bool, "true or false"),
        "custom_status": (_is_table, 'a table, such as { text = "x" }'),
    },
}
_PRESENCE_WHOLE: dict[str, dict[str, object]] = {
    "discord": {"since": None, "activities": [], "status": "online", "afk": False},
    "fluxer": {},
}
"""Discord wants every field of a presence; these stand for what is left out."""


class IdentifyConfig(Section):
    """`[identify]`: how many sessions the service lets this node begin, and what they are told."""

    allowance: int = Field(
        1000,
        ge=1,
        le=1_000_000,
        description="how many Identifies this node may send in 24 hours, 1000 for most bots",
    )
    presence: dict[str, object] | None = Field(
        None, description='a table such as { status = "idle", afk = false }'
    )
    large_threshold: int | None = Field(
        None, ge=50, le=250, description="from how many members on a guild is large to you"
    )
    ignored_events: list[str] = Field(
        [], description='names of events that the service leaves out, such as ["TYPING_START"]'
    )
    flags: int | None = Field(
        None, ge=0, le=SAFE_INTEGER_MAX, description="the bits that your bot was told to send"
    )
    initial_guild_id: str | None = Field(
        None, description='a guild id in quotes, such as "41771983"'
    )

    @field_validator("initial_guild_id")
    @classmethod
    def _is_id(cls, value: str | None) -> str | None:
        if value is not None and not (re.fullmatch(r"[0-9]{1,20}", value) and int(value) < 2**64):
            raise refuse(f"{value!r} is not a guild id. Write its digits in quotes")
        return value

    @model_validator(mode="after")
    def _has_names(self) -> Self:
        for name in self.ignored_events:
            if not re.fullmatch(r"[A-Z0-9_]{1,64}", name):
                raise refuse(
                    f"{name!r} is not the name of an event. Write names such as TYPING_START",
                    "ignored_events",
                )
        size = len(_dumps(self.ignored_events))
        if len(self.ignored_events) > IGNORED_EVENTS_MAX or size > IGNORED_BYTES_MAX:
            raise refuse(
                f"{len(self.ignored_events)} names in {size} bytes. The service takes "
                f"{IGNORED_EVENTS_MAX} names in {IGNORED_BYTES_MAX} bytes; write fewer",
                "ignored_events",
            )
        return self

    def problems(self, profile: str) -> Iterator[tuple[str, str]]:
        """Yield key and message of what the service of a profile does not take."""
        for service, keys in OWN_KEYS.items():
            for key in keys:
                if service != profile and getattr(self, key) not in (None, []):
                    yield (
                        key,
                        f"{profile} does not know this field of Identify. Leave the key out, or "
                        f'write profile = "{service}" under [gateway]',
                    )
        known = _PRESENCE[profile]
        for key, value in (self.presence or {}).items():
            if key not in known:
                yield (
                    "presence",
                    f"{key!r} is no field of a presence on {profile}. Write fields from: "
                    f"{', '.join(known)}",
                )
            elif not known[key][0](value):
                yield "presence", f"{key} cannot be that. Write {known[key][1]}"

    def fields(self, profile: str) -> bytes:
        """Return the optional fields as JSON, each behind a comma; the shard pair is the node's."""
        given: dict[str, object] = {}
        if self.presence is not None:
            given["presence"] = _PRESENCE_WHOLE[profile] | self.presence
        for key in OWN_KEYS[profile]:
            value = getattr(self, key)
            if value not in (None, []):
                given[key] = value
        return "".join(f",{_dumps(key)}:{_dumps(value)}" for key, value in given.items()).encode()


def _dumps(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
