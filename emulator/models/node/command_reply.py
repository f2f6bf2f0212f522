"""Answers to commands."""

from emulator.effects import World, model
from emulator.models.bus.send import bus_close, bus_open
from emulator.models.text import put_decimal
from firmware.layouts.bus import BUS_IN
from firmware.layouts.commands import (
    ANSWER_RESERVE,
    ANSWERS_BYTES,
    COMMAND_LINE_MAX,
    COMMANDS,
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
    """PUB to whoever asked, with what it says laid down first; its length stands before it."""
    message, commands = w.g(BUS_IN), w.g(COMMANDS)
    size = commands.answers_end + message.reply_len + 2 * COMMAND_LINE_MAX
    if not message.reply_len or size > ANSWERS_BYTES:
        return
    at = commands.offset_of("answers") + commands.answers_end + 4
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
    w.write(at - 4, (end - at).to_bytes(4, "little"))
    commands.answers_end += 4 + end - at


@model
def answers_send(w: World, link: int, workspace: int) -> int:
    """Whole answers only; what is left moves to the front."""
    commands, sent = w.g(COMMANDS), 0
    first = commands.offset_of("answers")
    while sent != commands.answers_end:
        at = first + sent
        size = int.from_bytes(w.read(at, 4), "little")
        to, full = bus_open(w, link, workspace, size + ANSWER_RESERVE)
        if full:
            commands.answers_end -= sent
            w.write(first, w.read(at, commands.answers_end))
            return 1
        w.write(to, w.read(at + 4, size))
        bus_close(w, link, workspace, to + size)
        sent += 4 + size
    commands.answers_end = 0
    return 0


@model
def command_reply_judge(w: World) -> int:
    """An inbox, or none."""
    message = w.g(BUS_IN)
    reply = w.read(message.reply, message.reply_len) if message.reply_len else b""
    return int(bool(reply) and not reply.startswith(REPLY_PREFIXES))
