"""Answers to commands."""

from emulator.effects import World, model
from emulator.models.bus.send import bus_close, bus_open
from emulator.models.text import put_decimal
from firmware.layouts.bus import BUS, BUS_IN, CONTROL
from firmware.layouts.commands import (
    ANSWER_RESERVE,
    COMMAND_LINE_MAX,
    ERRORS,
    REPLY_PREFIXES,
)
from firmware.layouts.send import SendResult


def put_words(w: World, at: int, *parts: bytes | int) -> int:
    """Write texts and numbers; return their end."""
    for part in parts:
        if isinstance(part, int):
            at = put_decimal(w, at, part)
        else:
            w.write(at, part)
            at += len(part)
    return at


@model
def command_answer(w: World, result: int, wait: int) -> None:
    """PUB to whoever asked, with what it says laid down first."""
    message, link = w.g(BUS_IN), w.g(BUS).links[CONTROL]
    if not message.reply_len:
        return
    size = message.reply_len + 2 * COMMAND_LINE_MAX + ANSWER_RESERVE
    at, full = bus_open(w, link.address_, link.context, size)
    if full:
        return
    start = at + COMMAND_LINE_MAX + message.reply_len
    if result == SendResult.OK:
        end = put_words(w, start, b'{"ok":true}')
    elif result == SendResult.RATE_LIMITED:
        end = put_words(w, start, b'{"ok":false,"err":"rate_limited","retry_after_ms":', wait, b"}")
    else:
        end = put_words(w, start, b'{"ok":false,"err":"%b"}' % ERRORS[SendResult(result)].encode())
    text = w.read(start, end - start)
    subject = w.read(message.reply, message.reply_len)
    end = put_words(w, at, b"PUB " + subject + b" ", len(text), b"\r\n" + text + b"\r\n")
    bus_close(w, link.address_, link.context, end)


@model
def command_reply_judge(w: World) -> int:
    """An inbox, or none."""
    message = w.g(BUS_IN)
    reply = w.read(message.reply, message.reply_len) if message.reply_len else b""
    return int(bool(reply) and not reply.startswith(REPLY_PREFIXES))
