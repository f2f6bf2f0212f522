"""Header fields of the upgrade response."""

import re

from emulator.effects import World, model
from firmware.layouts.shard import ShardContext
from firmware.layouts.websocket import (
    ACCEPT_FIELD,
    EXTENSION,
    SUBPROTOCOL,
    ResponseHeader,
)

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
VALUE = rb"[\t\x20-\x7e\x80-\xff]"
_LINE = re.compile(rb"(%s+):[ \t]*(%s*?)[ \t]*\r\n" % (_TOKEN, VALUE))
_LINE_MAX = 10_000


@model
def http_same(w: World, token: int, length: int, text: int, size: int) -> int:
    """Compare without regard to case."""
    return int(w.read(token, length).lower() == w.read(text, size))


@model
def http_line(w: World, line: int) -> tuple[int, int | None, int | None, int | None, int | None]:
    """Split `name: value` with the grammar of RFC 9112 5."""
    text = bytearray()
    while not text.endswith(b"\r\n"):
        text += w.read(line + len(text), 1)
        if len(text) > _LINE_MAX:
            raise AssertionError("a head ends with an empty line")
    found = _LINE.fullmatch(bytes(text))
    if found is None:
        return 1, None, None, None, None
    return 0, line + len(text), len(found[1]), line + found.start(2), len(found[2])


@model
def ws_take_field(
    w: World, shard: int, name: int, name_length: int, value: int, length: int
) -> int:
    """Judge a field by name: what must be there, what must not."""
    ws = w.view(ShardContext, shard).websocket
    known = None
    for text in ("upgrade", "connection", "accept", "extensions", "protocol"):
        full = text if text in ("upgrade", "connection") else f"sec-websocket-{text}"
        symbol = w.address("http_" + full.replace("-", "_"))
        if http_same(w, name, name_length, symbol, len(full)):
            known = text
            break
    match known:
        case "upgrade":
            if http_same(w, value, length, w.address("http_websocket"), 9):
                ws.seen |= ResponseHeader.UPGRADE
        case "connection":
            at = value
            for token in re.split(rb"[^!#$%&'*+\-.^_`|~0-9A-Za-z]", w.read(value, length)):
                if http_same(w, at, len(token), w.address("http_upgrade"), 7):
                    ws.seen |= ResponseHeader.CONNECTION
                at += len(token) + 1
        case "accept":
            wrong = w.read(value, length) != bytes(ws.accept)
            if ws.seen & ResponseHeader.ACCEPT or wrong:
                return ACCEPT_FIELD.code
            ws.seen |= ResponseHeader.ACCEPT
        case "extensions":
            return EXTENSION.code
        case "protocol":
            return SUBPROTOCOL.code
    return 0
