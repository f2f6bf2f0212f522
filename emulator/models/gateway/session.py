"""READY: what of it is believed."""

import re

from emulator.effects import View, World, model
from emulator.models.gateway.fail import gateway_violate
from emulator.models.gateway.host import gateway_host_allowed
from emulator.models.gateway.url import url_authority, url_scheme
from emulator.models.log import log
from firmware.layouts.config import CONFIG
from firmware.layouts.gateway import READY_SESSION, READY_SHARD, GatewayState, UrlFault
from firmware.layouts.json import JsonField, JsonKind
from firmware.layouts.log import GATEWAY_URL
from firmware.layouts.profile import PROFILES
from firmware.layouts.shard import Session, ShardContext, ShardFlag

_ID = re.compile(rb"[!#-\[\]-~]{1,256}")


def kind(context: View, field: JsonField) -> JsonKind:
    """Return the kind of a kept value."""
    return JsonKind(context.gateway.parser.kinds[field])


def value(context: View, field: JsonField) -> int:
    """Return the integer, or the length, of a kept value."""
    raw = context.gateway.parser.values[4 * field : 4 * field + 4]
    return int.from_bytes(raw, "little")


def judge_text(context: View) -> UrlFault | None:
    """Return why the value of resume_gateway_url is not even looked at."""
    if kind(context, JsonField.RESUME_URL) != JsonKind.STRING:
        return UrlFault.ABSENT
    length = value(context, JsonField.RESUME_URL)
    return UrlFault.TOO_LONG if length > 160 else None


@model
def gateway_resume_url(w: World, shard: int) -> None:
    """Store host and port of a URL like the configured one; log why any other is ignored (E13, E14)."""
    context = w.view(ShardContext, shard)
    session = w.view(Session, context.session_ptr)
    session.resume_host_len = 0
    length = value(context, JsonField.RESUME_URL)
    text = context.gateway.parser.resume_url.address
    fault, name, size, port = judge_text(context), text, None, None
    if fault == UrlFault.ABSENT and not PROFILES[context.profile].names_resume_host:
        return
    if fault is None:
        found, default, behind = url_scheme(w, text, 0)
        if default is not None and behind is not None:
            name = behind
            found, size, port, _rest = url_authority(w, name, text + length, default)
        fault = UrlFault(found) if found else None
        if size is not None and gateway_host_allowed(w, name, size):
            fault = UrlFault.FOREIGN
    if fault is not None or size is None or port is None:
        log(w, GATEWAY_URL, shard, fault or 0, length)
        return
    session.resume_port = port
    session.resume_host_len = size
    session.resume_host[:size] = w.read(name, size)


@model
def gateway_user_id(w: World, shard: int) -> int:
    """Digits of a number below 2**64; anything else is none."""
    context = w.view(ShardContext, shard)
    length = value(context, JsonField.USER_ID)
    if kind(context, JsonField.USER_ID) != JsonKind.STRING or not 1 <= length <= 20:
        return 0
    text = bytes(context.gateway.parser.user_id[:length])
    number = int(text) if re.fullmatch(rb"[0-9]+", text) else 0
    return number if number < 2**64 else 0


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
    wrong = more or pair != [context.shard_id, context.shard_total]
    if wrong and w.g(CONFIG).identify_shards:
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
    context.user_id = gateway_user_id(w, shard)
    context.sequence = gateway.seq_acked = value(context, JsonField.S)
    context.flags = context.flags & ~ShardFlag.RESUMED | ShardFlag.SEQ_VALID
    context.phase_deadline = 0
    gateway.state = GatewayState.READY
