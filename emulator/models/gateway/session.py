"""READY: what of it is believed."""

import re

from emulator.effects import View, World, model
from emulator.models.gateway.fail import gateway_violate
from emulator.models.log import log
from firmware.layouts.gateway import READY_SESSION, READY_SHARD, GatewayState, UrlFault
from firmware.layouts.json import JsonField, JsonKind
from firmware.layouts.log import GATEWAY_URL
from firmware.layouts.shard import Session, ShardContext, ShardFlag

_URL = re.compile(rb"ws://(?P<host>[A-Za-z0-9._-]*)(?P<rest>.*)", re.DOTALL)
_REST = re.compile(rb"(?::(?P<port>[0-9]+))?(?:[/?].*)?", re.DOTALL)
_ID = re.compile(rb"[!#-\[\]-~]{1,256}")


def kind(context: View, field: JsonField) -> JsonKind:
    """Return the kind of a kept value."""
    return JsonKind(context.gateway.parser.kinds[field])


def value(context: View, field: JsonField) -> int:
    """Return the integer, or the length, of a kept value."""
    raw = context.gateway.parser.values[4 * field : 4 * field + 4]
    return int.from_bytes(raw, "little")


def judge_url(context: View) -> tuple[bytes, int] | UrlFault:
    """Return host and port, or why the URL is not used."""
    if kind(context, JsonField.RESUME_URL) != JsonKind.STRING:
        return UrlFault.ABSENT
    length = value(context, JsonField.RESUME_URL)
    if length > 160:
        return UrlFault.TOO_LONG
    url = _URL.fullmatch(bytes(context.gateway.parser.resume_url[:length]))
    if url is None:
        return UrlFault.SCHEME
    if not 1 <= len(url["host"]) <= 128:
        return UrlFault.HOST
    rest = _REST.fullmatch(url["rest"])
    port = int(rest["port"] or b"80") if rest is not None else 0
    return (url["host"], port) if 1 <= port <= 65535 else UrlFault.PORT


@model
def gateway_resume_url(w: World, shard: int) -> None:
    """Store host and port of a ws:// URL; log why any other is ignored (cases E13, E14)."""
    context = w.view(ShardContext, shard)
    session = w.view(Session, context.session_ptr)
    session.resume_host_len = 0
    found = judge_url(context)
    if isinstance(found, UrlFault):
        log(w, GATEWAY_URL, shard, found, value(context, JsonField.RESUME_URL))
        return
    host, port = found
    session.resume_port = port
    session.resume_host_len = len(host)
    session.resume_host[: len(host)] = host


@model
def gateway_ready(w: World, shard: int) -> None:
    """Check shard pair and session id, then store what a Resume needs."""
    context = w.view(ShardContext, shard)
    gateway = context.gateway
    pair = [
        value(context, f) if kind(context, f) == JsonKind.INTEGER else None
        for f in (JsonField.SHARD_ID, JsonField.SHARD_TOTAL)
    ]
    more = kind(context, JsonField.SHARD_MORE) != JsonKind.ABSENT
    if more or pair != [context.shard_id, context.shard_total]:
        gateway_violate(w, shard, READY_SHARD.code)
        return
    length = value(context, JsonField.SESSION_ID)
    text = bytes(gateway.parser.session_id[: min(length, 256)])
    is_text = kind(context, JsonField.SESSION_ID) == JsonKind.STRING
    if not is_text or length > 256 or not _ID.fullmatch(text):
        gateway_violate(w, shard, READY_SESSION.code)
        return
    session = context.session
    context.session_ptr = session.address_
    session.session_id_len, session.unanswered_resumes = length, 0
    session.session_id[:length] = text
    gateway_resume_url(w, shard)
    session.valid = 1
    context.sequence = gateway.seq_acked = value(context, JsonField.S)
    context.flags = context.flags & ~ShardFlag.RESUMED | ShardFlag.SEQ_VALID
    context.phase_deadline = 0
    gateway.state = GatewayState.READY
