"""Where the bot's token comes from at boot."""

from emulator.effects import World, model
from firmware.layouts.config import CONFIG
from firmware.layouts.token import TOKEN
from firmware.limits import TOKEN_MAX


@model
def token_adopt(w: World) -> None:
    """The configuration's, unless it is longer than its place."""
    config, token = w.g(CONFIG), w.g(TOKEN)
    if config.token_len <= TOKEN_MAX:
        token.length = config.token_len
        token.text[:] = bytes(config.token)
