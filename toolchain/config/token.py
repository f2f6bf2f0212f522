"""What a bot's token may be: it stands in a JSON string and in a header as it is."""

from __future__ import annotations

import re

MAX_TOKEN_BYTES = 256


def token_problem(token: str) -> str | None:
    """Return what is wrong with a token and what to do; None when nothing is."""
    if token.startswith("Bot "):
        return 'the token begins with "Bot ". Remove that: the gateway takes it bare'
    if not re.fullmatch(r"[!#-\[\]-~]+", token):
        return (
            "the token is empty or holds a space, a quote, a backslash or a control character. "
            "Copy it again, alone on one line"
        )
    if len(token) > MAX_TOKEN_BYTES:
        return f"the token has {len(token)} bytes. The node holds {MAX_TOKEN_BYTES}"
    return None
