"""The control channel: who may command, what was commanded before, what became of it."""

from emulator.effects import World, model
from emulator.models.crypto.drbg import drbg_u64
from emulator.models.crypto.hmac import tag_differs
from emulator.models.net.udp import udp_answer, udp_finish
from emulator.models.node.control_seal import control_authentic, control_head, control_seal
from emulator.models.node.diagnostics import diagnostics_input
from emulator.models.node.listen import control_subscribe, control_unsubscribe
from emulator.models.node.moving import control_plan
from emulator.models.node.owner import control_owner
from emulator.models.node.send import control_submit
from emulator.models.node.sessions import control_session_offer, control_session_take
from emulator.models.node.stop import control_stop
from emulator.models.node.verbs import (
    control_lease_arm,
    control_lease_expire,
    control_lease_renew,
    control_node_release,
    control_ping,
)
from firmware.layouts.config import CONFIG
from firmware.layouts.control import (
    CONTROL,
    CONTROL_FRAME,
    CONTROL_REPLY_FRAME,
    CONTROL_REQUEST_MAGIC,
    CONTROL_TRIES_PER_TURN,
    CONTROL_VERSION,
    ControlReply,
    ControlRequest,
    ControlResult,
    ControlVerb,
)
from firmware.layouts.node import CORE

_HANDLERS = {
    ControlVerb.PING: control_ping,
    ControlVerb.LEASE_ARM: control_lease_arm,
    ControlVerb.LEASE_RENEW: control_lease_renew,
    ControlVerb.LEASE_EXPIRE: control_lease_expire,
    ControlVerb.SEND: control_submit,
    ControlVerb.SUBSCRIBE: control_subscribe,
    ControlVerb.UNSUBSCRIBE: control_unsubscribe,
    ControlVerb.STOP: control_stop,
    ControlVerb.NODE_RELEASE: control_node_release,
    ControlVerb.SESSION_OFFER: control_session_offer,
    ControlVerb.SESSION_TAKE: control_session_take,
    ControlVerb.OWNER: control_owner,
    ControlVerb.PLAN: control_plan,
}


@model
def control_try(w: World) -> int:
    """So many in a turn; a turn is known by its time."""
    state, now = w.g(CONTROL), w.g(CORE).now
    if state.tries_at != now:
        state.tries_at, state.tries = now, 0
    if state.tries >= CONTROL_TRIES_PER_TURN:
        state.held += 1
        return 1
    state.tries += 1
    return 0


@model
def control_perform(w: World, request: int, length: int, reply: int) -> None:
    """The verb's handler gets the payload, and the room that the request's own length gives."""
    asked, answer = w.view(ControlRequest, request), w.view(ControlReply, reply)
    control_head(w, reply, request, ControlResult.DONE)
    if asked.version != CONTROL_VERSION:
        answer.result = ControlResult.VERSION
    elif asked.verb not in list(ControlVerb):
        answer.result = ControlResult.VERB
    elif asked.length > length - CONTROL_FRAME:
        answer.result = ControlResult.ARGUMENT
    else:
        answer_at, room = reply + ControlReply.SIZE, length - CONTROL_REPLY_FRAME
        handler = _HANDLERS[ControlVerb(asked.verb)]
        result, value, size = handler(w, request, asked.length, answer_at, room)
        answer.value, answer.length, answer.result = value, size, result
        return
    w.g(CONTROL).refused += 1


@model
def control_decide(w: World, request: int, length: int) -> tuple[int, int]:
    """Only a counter above the last one makes anything happen; the last request gets its answer."""
    asked, state = w.view(ControlRequest, request), w.g(CONTROL)
    if not state.boot:
        state.boot = drbg_u64(w)
    stored = state.stored.address
    if asked.boot == state.boot and asked.counter > state.last:
        state.last = asked.counter
        state.accepted += 1
        state.tag[:] = bytes(state.made)
        control_perform(w, request, length, stored)
        state.stored_length = control_seal(w, stored)
        return stored, state.stored_length
    result = ControlResult.BOOT
    if asked.boot == state.boot:
        result = ControlResult.REPLAYED
        if asked.counter == state.last and not tag_differs(
            w, state.tag.address, state.made.address
        ):
            return stored, state.stored_length
    if asked.boot:
        state.refused += 1
    control_head(w, state.refusal.address, request, result)
    return state.refusal.address, control_seal(w, state.refusal.address)


@model
def control_send(w: World, answer: int, length: int, source: int, port: int) -> None:
    """To whoever asked, from the port that was asked."""
    place, refused = udp_answer(w)
    if not refused:
        w.write(place, w.read(answer, length))
        udp_finish(w, source, length, w.g(CONFIG).diagnostics_port, port)


@model
def control_input(w: World, datagram: int, length: int, source: int, port: int) -> None:
    """Forged and damaged requests are counted, and nobody hears of it."""
    if control_try(w):
        return
    if control_authentic(w, datagram, length):
        w.g(CONTROL).bad += 1
        return
    state = w.g(CONTROL)
    state.asker, state.asker_port = source, port
    answer, size = control_decide(w, datagram, length)
    control_send(w, answer, size, source, port)


@model
def operator_input(w: World, datagram: int, length: int, source: int, port: int) -> None:
    """Commands have a magic of their own."""
    command = length >= 4 and w.u32(datagram) == CONTROL_REQUEST_MAGIC
    (control_input if command else diagnostics_input)(w, datagram, length, source, port)
