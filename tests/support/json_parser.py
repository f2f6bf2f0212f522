"""A shard's parser of JSON, fed in any parts."""

import json
from typing import Any

from firmware.json.feed import json_feed, json_reset
from firmware.layouts.json import JsonKind, JsonParser, Vocabulary
from firmware.layouts.shard import ShardContext
from tests.support.lab import Lab

LAB = Lab(json_feed, json_reset)


class Parser:
    """The parser of a shard.

    Args:
        vocabulary: Which keys it keeps.
    """

    def __init__(self, vocabulary: Vocabulary = Vocabulary.ENVELOPE) -> None:
        LAB.reset()
        self.at = LAB.view(ShardContext, LAB.shard()).gateway.parser.address_
        LAB.machine.write(self.at, b"\xa5" * JsonParser.SIZE)
        self.room = LAB.machine.alloc(8192, align=1)
        self.view.vocabulary = vocabulary
        LAB.call(json_reset, parser=self.at)

    def again(self) -> None:
        """Begin a new message."""
        LAB.call(json_reset, parser=self.at)

    @property
    def view(self) -> Any:
        """The parser's fields."""
        return LAB.view(JsonParser, self.at)

    def feed(self, text: bytes, *, offset: int = 0) -> int:
        """Feed a part; the byte behind it is one that would be noticed if it were read."""
        LAB.machine.write(self.room + offset, text + b'"')
        return LAB.call(
            json_feed, parser=self.at, text=self.room + offset, length=len(text)
        ).outputs["eax"]

    def kind(self, field: int) -> JsonKind:
        """Return the kind of a kept value."""
        return JsonKind(self.view.kinds[field])

    def value(self, field: int) -> int:
        """Return a kept number, or the length of a kept text."""
        return int.from_bytes(self.view.values[4 * field : 4 * field + 4], "little")

    def text(self, field: int, name: str) -> bytes:
        """Return a kept text, which lies in the field of that name."""
        return bytes(getattr(self.view, name)[: self.value(field)])


READY = json.dumps(
    {
        "t": "READY",
        "s": 1,
        "op": 0,
        "d": {
            "v": 10,
            "user": {"session_id": "no", "t": "no", "x": {"id": "no"}, "id": "81384788765712384"},
            "guilds": [{"unavailable": True}],
            "session_id": "4e2e56c2d3b7",
            "resume_gateway_url": "wss://gateway-us-east1-b.discord.gg",
            "shard": [3, 16],
        },
    }
).encode()
