"""The written list of firmware/docs/json.md as an oracle: what passes inside a `d` that is skipped."""

from __future__ import annotations

import json
import re

from firmware.limits import JSON_DEPTH_MAX

# Whole strings, brackets, and runs of anything that is neither control character, quote nor backslash.
_TOKEN = re.compile(
    rb'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"'
    rb"|[{}\[\]]|[^\x00-\x08\x0b\x0c\x0e-\x1f\"\\{}\[\]]+"
)


def passes(head: bytes, rest: bytes) -> bool:
    """Tell whether a message passes.

    Args:
        head: The message up to `d` and its colon.
        rest: All behind it, the body first.
    """
    end = _behind_body(rest)
    if not end:
        return False
    try:
        json.loads(head + b"{}" + rest[end:])
    except ValueError:
        return False
    return True


def _behind_body(text: bytes) -> int:
    """Return where the object at the start of the text ends; 0 = refused, or it does not end."""
    levels: list[bytes] = []
    at = 0
    while token := _TOKEN.match(text, at):
        word, at = token[0], token.end()
        if word in (b"{", b"["):
            levels.append(word)
            if len(levels) == JSON_DEPTH_MAX:  # the message itself is one more
                return 0
        elif word in (b"}", b"]"):
            if levels.pop() + word not in (b"{}", b"[]"):
                return 0
            if not levels:
                return at
    return 0
