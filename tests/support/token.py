"""The bot's token in a lab, as `token_adopt` leaves it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmware.layouts.token import TOKEN
from firmware.limits import TOKEN_MAX

if TYPE_CHECKING:
    from tests.support.lab import Lab


def set_token(lab: Lab, token: bytes) -> None:
    """Give the node a token; an empty one takes it away."""
    lab.g(TOKEN).length = len(token)
    lab.g(TOKEN).text[:] = token.ljust(TOKEN_MAX, b"\0")
