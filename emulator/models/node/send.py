"""The verb `send`: parts of one body, in their order."""

from emulator.effects import World, model
from emulator.models.gateway.submit import gateway_submit
from emulator.models.node.slots import slot_find, slot_wake
from firmware.layouts.control import ControlRequest, ControlResult
from firmware.layouts.send import NOTHING_STAGED, SEND_STAGE, SendResult

_REFUSALS = {
    SendResult.NOT_READY: ControlResult.SEND_NOT_READY,
    SendResult.RATE_LIMITED: ControlResult.SEND_RATE_LIMITED,
    SendResult.TOO_LARGE: ControlResult.SEND_TOO_LARGE,
    SendResult.BAD_OP: ControlResult.SEND_BAD_OP,
    SendResult.BAD_BODY: ControlResult.SEND_BAD_BODY,
}


@model
def control_submit(
    w: World, request: int, length: int, answer: int, room: int
) -> tuple[int, int, int]:
    """A part at offset zero begins; others continue what is there; a whole body is sent."""
    asked, stage = w.view(ControlRequest, request), w.g(SEND_STAGE)
    number, shard = asked.slot, slot_find(w, asked.slot)
    opcode, size, _, offset = (asked.argument >> shift & 0xFFFF for shift in (0, 16, 32, 48))
    what = asked.argument % 2**48
    if not shard or offset + length > size:
        return ControlResult.ARGUMENT, 0, 0
    if size > 4096:
        return ControlResult.SEND_TOO_LARGE, 0, 0
    if offset and (what, number, offset) != (stage.what, stage.shard, stage.filled):
        return ControlResult.SEND_ORDER, 0, 0
    if not offset:
        stage.what, stage.shard = what, number
    body = stage.offset_of("body")
    w.write(body + offset, w.read(request + ControlRequest.SIZE, length) if length else b"")
    stage.filled = offset + length
    if offset + length < size:
        return ControlResult.DONE, offset + length, 0
    stage.filled = NOTHING_STAGED
    verdict, wait = gateway_submit(w, shard, opcode, body, size)
    if verdict != SendResult.OK:
        return _REFUSALS[SendResult(verdict)], wait, 0
    slot_wake(w, shard)
    return ControlResult.DONE, 0, 0
