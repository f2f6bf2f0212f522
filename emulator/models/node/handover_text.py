"""Records of sessions."""

import re
from typing import Any

from emulator.effects import World, model
from emulator.models.bus.send import bus_close, bus_open, bus_put_inbox, bus_request_id
from emulator.models.fleet.cas import control
from emulator.models.fleet.texts import Value, Writer, bot_of
from emulator.models.fleet.tokens import number_take, word_take
from emulator.models.gateway.url import url_authority, url_scheme
from firmware.layouts.config import CONFIG
from firmware.layouts.fleet import FLEET_OUT
from firmware.layouts.handover import ASK_MAX, HANDOVER, URL_LEAST
from firmware.layouts.shard import ShardContext

SPACE, WEB_SOCKET = ord(" "), 0

_ID = re.compile(rb"[!#-\[\]-~]*")


@model
def session_key(w: World, shard: int) -> None:
    """Bot and shard."""
    out = w.g(FLEET_OUT)
    key = Writer(w, out.offset_of("key"))
    key.text(b"$KV.shardfw." + bot_of(w) + b".sess.")
    key.number(w.view(ShardContext, shard).shard_id)
    out.key_len = key.at - out.offset_of("key")


@model
def session_put_url(w: World, shard: int, text: int) -> int:
    """The port only when the scheme has another."""
    session, secure = w.view(ShardContext, shard).session, w.g(CONFIG).gateway_secure
    out, size = Writer(w, text), session.resume_host_len
    if not size:
        out.text(b"-")
        return out.at
    out.text((b"ws://", b"wss://")[secure] + bytes(session.resume_host[:size]))
    if session.resume_port != (80, 443)[secure]:
        out.text(b":")
        out.number(session.resume_port)
    return out.at


@model
def session_text(w: World, shard: int, sequence: int, live: int) -> None:
    """Six tokens."""
    context, value = w.view(ShardContext, shard), Value(w)
    value.text(b"1 ")
    value.numbers(context.events.fence, context.shard_total)
    if live:
        value.text(b" ")
        value.number(sequence)
        size = context.session.session_id_len
        value.text(b" " + bytes(context.session.session_id[:size]) + b" ")
        value.at = session_put_url(w, shard, value.at)
    else:
        value.text(b" 0 - -")
    value.end()


@model
def session_ask(w: World, shard: int) -> tuple[int, Any]:
    """PUB without a body."""
    session_key(w, shard)
    out, (link, context) = w.g(FLEET_OUT), control(w)
    place, refused = bus_open(w, link, context, ASK_MAX)
    if refused:
        return 1, 0
    number, line = bus_request_id(w, link), Writer(w, place)
    line.text(b"PUB $JS.API.DIRECT.GET.KV_shardfw." + bytes(out.key[: out.key_len]) + b" ")
    line.at = bus_put_inbox(w, link, line.at)
    line.number(number)
    line.text(b" 0\r\n\r\n")
    bus_close(w, link, context, line.at)
    return 0, number


def _url(w: World, at: int, size: int, end: int) -> bool:
    """Take the resume URL; False for a wrong one."""
    found = w.g(HANDOVER).found
    if w.read(at, size) == b"-":
        found.host_len = found.port = 0
        return True
    if size < URL_LEAST:
        return False
    fault, default, host = url_scheme(w, at, WEB_SOCKET)
    if fault or default is None or host is None:
        return False
    found.host = host
    fault, length, port, _ = url_authority(w, host, end, default)
    if not fault:
        found.host_len, found.port = length, port
    return not fault


@model
def session_parse(w: World, text: int, end: int) -> int:
    """Format, generation, total, sequence; id and URL."""
    found, at = w.g(HANDOVER).found, text
    for name in ("generation", "generation", "total", "sequence"):
        bad, value, after = number_take(w, at, end, SPACE)
        if bad or value >= 2**32:
            return 1
        setattr(found, name, value)
        if at == text and value != 1:
            return 1
        at = after
    bad, found_id, size, at = word_take(w, at, end, SPACE)
    if bad:
        return 1
    session_id = w.read(found_id, size)
    found.id, found.id_len = found_id, 0 if session_id == b"-" else size
    if size > 256:
        return 1
    bad, url, size, at = word_take(w, at, end, SPACE)
    if bad or at != end or not _url(w, url, size, end):
        return 1
    return int(_ID.fullmatch(session_id) is None)
