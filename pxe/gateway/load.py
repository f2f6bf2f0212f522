"""A realistic stream of dispatches.

Shares and sizes are a guess shaped after what bots with presence and message
intents report: many small presence and typing events, messages with a long tail,
now and then a whole guild. Every body starts with a counter that rises by one for
each event of its shard, so a receiver can prove that nothing is missing.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from pxe.gateway import bodies
from pxe.gateway.bodies import JsonObject
from pxe.gateway.envelope import dumps

COUNTER_KEY: Final = "load_counter"
_GUILD: Final = "9007199254740993"
"""Stands in the prepared bodies for the id of the guild; no other value contains it."""

_WORDS: Final = [
    "shard",
    "node",
    "frame",
    "packet",
    "lease",
    "hello",
    "beat",
    "ready",
    "resume",
    "queue",
    "ring",
    "clock",
    "paged",
    "quoted",
    '"word"',
    "back\\slash",
    "tab\there",
    "naïve",
    "façade",
    "漢字",
    "кадр",
    "🚀",
    "\u2028",
    "</script>",
    "\x07",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """How much load, over all shards together.

    Attributes:
        rate: Dispatches a second over all shards that have a session.
        mix: Event name to weight; None means MIX.
        size_factor: Multiplies the length of message texts and the channels of guilds.
        poisson: Whether the gaps are random (exponential) or all equal.
    """

    rate: float
    mix: tuple[tuple[str, float], ...] | None = None
    size_factor: float = 1.0
    poisson: bool = True

    def __post_init__(self) -> None:
        """Refuse a load that cannot be made.

        Raises:
            ValueError: Names the setting, its value and what to give instead.
        """
        if not 0 < self.rate <= 1_000_000:
            msg = f"rate is {self.rate}: give dispatches a second, above 0 and at most 1000000"
            raise ValueError(msg)
        for name, weight in self.mix or ():
            if name not in _BUILDERS or weight < 0:
                msg = f"mix has {name!r} with weight {weight}: events are {', '.join(_BUILDERS)}"
                raise ValueError(msg)


def _sentence(rng: Random, factor: float) -> str:
    # Most messages are short; the tail ends at the service's own limit of 2,000 characters.
    length = min(2_000, int(rng.lognormvariate(3.6, 1.0) * factor) + 1)
    words: list[str] = []
    size = 0
    while size < length:
        word = rng.choice(_WORDS)
        words.append(word)
        size += len(word) + 1
    return " ".join(words)[:length]


def _author(rng: Random) -> JsonObject:
    number = rng.randrange(50)
    return bodies.user(str(1_200_000_000_000_000_000 + number), f"user{number}")


def _member_without_user(rng: Random) -> JsonObject:
    return {key: value for key, value in bodies.member(_author(rng)).items() if key != "user"}


def _channel_id(index: int = 0) -> str:
    # The first channel shares its guild's id, as in :func:`pxe.gateway.bodies.channel`.
    return _GUILD if index == 0 else str(1_250_000_000_000_000_000 + index)


def _message_id(rng: Random) -> str:
    return str(1_300_000_000_000_000_000 + rng.randrange(1 << 40))


def _message(rng: Random, factor: float) -> JsonObject:
    return {
        "id": _message_id(rng),
        "type": 0,
        "channel_id": _channel_id(),
        "channel_type": 0,
        "guild_id": _GUILD,
        "author": _author(rng),
        "member": _member_without_user(rng),
        "content": _sentence(rng, factor),
        "timestamp": "2026-01-02T03:04:05.678000+00:00",
        "edited_timestamp": None,
        "tts": False,
        "mention_everyone": False,
        "mentions": [],
        "mention_roles": [],
        "attachments": [],
        "embeds": [],
        "components": [],
        "pinned": False,
        "flags": 0,
        "nonce": str(rng.randrange(1 << 60)),
    }


def _message_update(rng: Random, factor: float) -> JsonObject:
    return _message(rng, factor) | {"edited_timestamp": "2026-01-02T03:05:05.678000+00:00"}


def _message_delete(rng: Random, factor: float) -> JsonObject:
    del factor  # a deletion has no text
    return {"id": _message_id(rng), "channel_id": _channel_id(), "guild_id": _GUILD}


def _presence(rng: Random, factor: float) -> JsonObject:
    activity = {
        "id": "custom",
        "name": "Custom Status",
        "type": 4,
        "state": _sentence(rng, factor / 2),
        "created_at": 1_767_000_000_000 + rng.randrange(1 << 30),
    }
    return {
        "user": {"id": _author(rng)["id"]},
        "guild_id": _GUILD,
        "status": rng.choice(["online", "idle", "dnd", "offline"]),
        "client_status": {"desktop": "online"},
        "activities": [activity] if rng.random() < 0.5 else [],
    }


def _typing(rng: Random, factor: float) -> JsonObject:
    del factor  # typing has no text
    author = _author(rng)
    return {
        "user_id": author["id"],
        "channel_id": _channel_id(),
        "guild_id": _GUILD,
        "member": bodies.member(author),
        "timestamp": 1_767_000_000 + rng.randrange(1 << 20),
    }


def _reaction(rng: Random, factor: float) -> JsonObject:
    del factor  # a reaction has no text
    author = _author(rng)
    return {
        "user_id": author["id"],
        "message_id": _message_id(rng),
        "message_author_id": author["id"],
        "channel_id": _channel_id(),
        "guild_id": _GUILD,
        "member": bodies.member(author),
        "emoji": {"id": None, "name": "🚀"},
        "burst": False,
        "burst_colors": [],
        "type": 0,
    }


def _voice_state(rng: Random, factor: float) -> JsonObject:
    del factor  # a voice state has no text
    author = _author(rng)
    return {
        "guild_id": _GUILD,
        "channel_id": None,
        "user_id": author["id"],
        "member": bodies.member(author),
        "session_id": f"{rng.getrandbits(128):032x}",
        "deaf": False,
        "mute": False,
        "self_deaf": False,
        "self_mute": True,
        "self_video": False,
        "suppress": False,
        "request_to_speak_timestamp": None,
    }


def _member_update(rng: Random, factor: float) -> JsonObject:
    del factor  # a member has no text
    return bodies.member(_author(rng)) | {"guild_id": _GUILD, "nick": None}


def _channel_update(rng: Random, factor: float) -> JsonObject:
    body = bodies.channel(_GUILD, 0, "channel-0")
    return body | {"id": _channel_id(), "topic": _sentence(rng, factor)}


def _guild_create(rng: Random, factor: float) -> JsonObject:
    channels = int(rng.uniform(20, 160) * factor) + 1
    body = bodies.guild(_GUILD, channels=0)
    body["channels"] = [
        bodies.channel(_GUILD, index, f"channel-{index}") | {"id": _channel_id(index)}
        for index in range(channels)
    ]
    return body


_BUILDERS: Final[dict[str, Callable[[Random, float], JsonObject]]] = {
    "PRESENCE_UPDATE": _presence,
    "MESSAGE_CREATE": _message,
    "TYPING_START": _typing,
    "MESSAGE_REACTION_ADD": _reaction,
    "VOICE_STATE_UPDATE": _voice_state,
    "MESSAGE_UPDATE": _message_update,
    "GUILD_MEMBER_UPDATE": _member_update,
    "MESSAGE_DELETE": _message_delete,
    "CHANNEL_UPDATE": _channel_update,
    "GUILD_CREATE": _guild_create,
}
MIX: Final = (
    ("PRESENCE_UPDATE", 40.0),
    ("MESSAGE_CREATE", 24.0),
    ("TYPING_START", 13.0),
    ("MESSAGE_REACTION_ADD", 8.0),
    ("VOICE_STATE_UPDATE", 5.0),
    ("MESSAGE_UPDATE", 4.0),
    ("GUILD_MEMBER_UPDATE", 3.0),
    ("MESSAGE_DELETE", 2.0),
    ("CHANNEL_UPDATE", 0.9),
    ("GUILD_CREATE", 0.1),
)
_PREPARED: Final = 32
"""Bodies prepared for each event; making each anew would be the costliest step."""


@dataclass(frozen=True, slots=True)
class LoadEvent:
    """One dispatch to publish.

    Attributes:
        shard: Shard id.
        event: Dispatch name.
        body: JSON text of ``d``.
    """

    shard: int
    event: str
    body: str


class LoadGenerator:
    """Gives the dispatches that are due, in order, the same for the same seed.

    Args:
        options: Rate and mix.
        rng: Source of every choice.
        shards: Shard count, for guild ids.
        guilds: Guilds of each shard that READY named; at least one is used.
        now_ms: Time at which the load starts.
    """

    def __init__(
        self, options: LoadOptions, rng: Random, *, shards: int, guilds: int, now_ms: int
    ) -> None:
        self._options = options
        self._rng = rng
        self._shards = shards
        self._guilds = max(1, guilds)
        self._counters = [0] * shards
        mix = options.mix or MIX
        self._names = [name for name, _ in mix]
        self._weights = [weight for _, weight in mix]
        self._prepared = {name: self._prepare(name) for name in self._names}
        self._next_ms = now_ms + self._gap_ms()

    def counter(self, shard: int) -> int:
        """Return the last payload counter of a shard; 0 before the first."""
        return self._counters[shard]

    def next_deadline(self) -> int:
        """Return the time in ms at which the next dispatch is due."""
        return math.ceil(self._next_ms)

    def due(self, now_ms: int, shards: Sequence[int]) -> list[LoadEvent]:
        """Return the dispatches due by now for the shards that have a session.

        Without any such shard the dispatches that were due are lost, as with a
        service whose bot is offline.
        """
        events = []
        while self._next_ms <= now_ms:
            self._next_ms += self._gap_ms()
            if shards:
                events.append(self._make(self._rng.choice(shards)))
        return events

    def _gap_ms(self) -> float:
        rate_per_ms = self._options.rate / 1000
        return self._rng.expovariate(rate_per_ms) if self._options.poisson else 1 / rate_per_ms

    def _prepare(self, name: str) -> list[str]:
        build = _BUILDERS[name]
        count = _PREPARED if name != "GUILD_CREATE" else 4
        # The counter is written before the rest, so the opening brace goes.
        return [dumps(build(self._rng, self._options.size_factor))[1:] for _ in range(count)]

    def _make(self, shard: int) -> LoadEvent:
        name = self._rng.choices(self._names, self._weights)[0]
        rest = self._rng.choice(self._prepared[name])
        guild = bodies.guild_id(shard, self._shards, self._rng.randrange(self._guilds))
        rest = rest.replace(_GUILD, guild)
        self._counters[shard] += 1
        return LoadEvent(shard, name, f'{{"{COUNTER_KEY}":{self._counters[shard]},{rest}')
