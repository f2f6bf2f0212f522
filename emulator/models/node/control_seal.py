"""Tags and heads: who may command, and what every answer says."""

from emulator.effects import World, model
from emulator.models.crypto.hmac import hmac_sha256, tag_differs
from firmware.layouts.config import CONFIG
from firmware.layouts.control import (
    CONTROL,
    CONTROL_LEAST,
    CONTROL_MOST,
    CONTROL_REPLY_MAGIC,
    CONTROL_TAG_BYTES,
    CONTROL_VERSION,
    ControlReply,
    ControlRequest,
)


def _key(w: World) -> int:
    return int(w.g(CONFIG).control_key.address)


@model
def control_authentic(w: World, datagram: int, length: int) -> int:
    """The last 32 bytes are the tag of all before them."""
    if not CONTROL_LEAST <= length <= CONTROL_MOST or not w.g(CONFIG).control_key_len:
        return 1
    made = w.g(CONTROL).made.address
    signed = length - CONTROL_TAG_BYTES
    hmac_sha256(w, _key(w), datagram, signed, made)
    return tag_differs(w, datagram + signed, made)


@model
def control_head(w: World, reply: int, request: int, result: int) -> None:
    """What every answer says."""
    answer, state = w.view(ControlReply, reply), w.g(CONTROL)
    answer.magic, answer.version, answer.result = CONTROL_REPLY_MAGIC, CONTROL_VERSION, result
    answer.counter = w.view(ControlRequest, request).counter
    answer.boot, answer.last, answer.value, answer.length = state.boot, state.last, 0, 0


@model
def control_seal(w: World, reply: int) -> int:
    """The tag lies right behind the payload."""
    size = ControlReply.SIZE + int(w.view(ControlReply, reply).length)
    hmac_sha256(w, _key(w), reply, size, reply + size)
    return size + CONTROL_TAG_BYTES
