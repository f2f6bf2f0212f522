"""What the line before a message and its header say."""

import re

from emulator.effects import World, model
from emulator.models.text import take_decimal, take_token
from firmware.layouts.bus import BUS, BUS_IN, Verb
from firmware.layouts.bus_sites import ARGUMENTS, MESSAGE_TOO_LONG


@model
def bus_tokens(w: World, at: int, end: int) -> tuple[int, int]:
    """At most five words."""
    rows, count = w.g(BUS).tokens, 0
    while True:
        at, size = take_token(w, at, end)
        if not size or count == 5:
            return count, int(bool(size))
        rows[count].text, rows[count].length = at, size
        count += 1
        at += size


@model
def bus_inbox_number(w: World, subject: int, length: int) -> int:
    """What stands behind the last dot, when it is a number."""
    digits = w.read(subject, length).rpartition(b".")[2]
    wrong, number = take_decimal(w, subject + length - len(digits), len(digits))
    return 0 if wrong or number >= 2**32 else number


@model
def bus_header(w: World, header: int, length: int) -> tuple[int, int]:
    """`NATS/1.0`, perhaps a status and a text, lines, an empty line."""
    text = w.read(header, length) if length else b""
    frame = rb"NATS/1\.0(?: ([0-9]{3}).*|(?=\r).*)\r\n\r\n"
    found = re.fullmatch(frame, text, re.DOTALL)
    return (int(found[1] or 0), 0) if found else (0, 1)


def _at(w: World, n: int) -> tuple[int, int]:
    token = w.g(BUS).tokens[n]
    return token.text, token.length


@model
def bus_arguments(w: World, at: int, end: int, verb: int) -> int:
    """MSG: subject sid [reply] bytes. HMSG: subject sid [reply] header-bytes bytes."""
    got, headers = w.g(BUS_IN), verb == Verb.HMSG
    count, many = bus_tokens(w, at, end)
    if many or count - headers not in (3, 4):
        return ARGUMENTS.code
    replies = count - headers == 4
    got.reply, length = _at(w, 2)
    got.reply_len = length if replies else 0
    got.subject, got.subject_len = _at(w, 0)
    wrong, sid = take_decimal(w, *_at(w, 1))
    if wrong:
        return ARGUMENTS.code
    got.sid = sid
    if sid >= 2**32:
        return ARGUMENTS.code
    wrong, total = take_decimal(w, *_at(w, count - 1))
    if wrong:
        return ARGUMENTS.code
    if total > 64 << 20:
        return MESSAGE_TOO_LONG.code
    got.body_len = total
    size = 0
    if headers:
        wrong, size = take_decimal(w, *_at(w, count - 2))
        if wrong or size > total:
            return ARGUMENTS.code
    got.header_len = size
    got.body_len = total - size
    return 0
