"""The bot's token as the node uses it: from the configuration, or released to a node that enrolled."""

from __future__ import annotations

from firmware.limits import TOKEN_MAX
from toolchain.layout import Global, Struct, bytes_, u32


class BotToken(Struct):
    """The one place that Identify, Resume, questions and digests read.

    It lies in memory that no reset keeps; no line, no answer and no crash record holds it.
    """

    SIZE = 0x10 + TOKEN_MAX
    length = u32(0x00, "bytes; 0 = none: no shard starts")
    text = bytes_(0x10, TOKEN_MAX, "the token, then zeros", align=8)


TOKEN = Global("bot_token", BotToken, "the bot's token", align=64)
