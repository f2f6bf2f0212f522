"""The verb `send`: a body comes in parts, the last one sends it."""

from firmware.abi import CALLER_SAVED
from firmware.gateway.submit import gateway_submit
from firmware.layouts.control import CONTROL_PAYLOAD, ControlRequest, ControlResult
from firmware.layouts.send import (
    NOTHING_STAGED,
    PART_OFFSET_AT,
    PART_SIZE_AT,
    SEND_STAGE,
    SendResult,
    SendStage,
)
from firmware.limits import OUTBOUND_PAYLOAD_MAX
from firmware.node.slots import slot_find, slot_wake
from firmware.node.verbs import HANDLER_INPUTS, HANDLER_OUTPUTS
from toolchain.asm import (
    EAX,
    ECX,
    EDX,
    NZ,
    R8,
    R8D,
    R8W,
    R9D,
    R10,
    R10D,
    R12,
    R12D,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    Reg32,
    Reg64,
    Z,
    mem8,
    routine,
)

FIRST_RESULT = ControlResult.SEND_NOT_READY - SendResult.NOT_READY
"""What turns a refusal of the send path into the channel's."""


@routine(
    inputs=HANDLER_INPUTS,
    outputs=HANDLER_OUTPUTS,
    clobbers=CALLER_SAVED,
    reads=[
        ControlRequest.argument,
        ControlRequest.slot,
        CONTROL_PAYLOAD,
        SendStage.what,
        SendStage.shard,
        SendStage.filled,
    ],
    writes=[SendStage.what, SendStage.shard, SendStage.filled, SendStage.body],
    calls=[gateway_submit, slot_find, slot_wake],
    saves=[RBX, R12],
    source="firmware/docs/control.md#sends",
)
def control_submit(
    a: Asm, request: ControlRequest, length: Reg32, answer: Reg64, room: Reg32
) -> None:
    """Take one part of a body; with the last one send it, or say why not."""
    stage = SEND_STAGE.it
    what, number, size, offset, end = R8, R9D, R12D, R10D, EDX
    refused, follows = a.label("refused"), a.label("follows")
    a.mov(R12D, length)
    a.mov(ECX, request.slot)
    a.call(slot_find)
    a.mov(EAX, ControlResult.ARGUMENT)
    a.mov(RBX, RDX)
    a.test(RBX, RBX)
    a.jz(refused)
    a.mov(number, ECX)
    a.mov(ECX, R12D)

    # What the argument says: offset on top, then the sender's number, the size, the opcode.
    a.mov(what, request.argument)
    a.mov(R10, what)
    a.shr(R10, PART_OFFSET_AT)
    a.shl(what, 64 - PART_OFFSET_AT)
    a.shr(what, 64 - PART_OFFSET_AT)
    a.mov(size, R8D)
    a.shr(size, PART_SIZE_AT)
    a.lea(end, mem8(R10, index=RCX, ref=CONTROL_PAYLOAD))
    a.cmp(end, size)
    a.j(A, refused)
    a.mov(EAX, ControlResult.SEND_TOO_LARGE)
    a.cmp(size, OUTBOUND_PAYLOAD_MAX)
    a.j(A, refused)

    # The first part takes the stage from whoever left it; each further one has to follow.
    a.test(offset, offset)
    with a.if_(Z):
        a.mov(stage.what, what)
        a.mov(stage.shard, number)
        a.jmp(follows)
    a.mov(EAX, ControlResult.SEND_ORDER)
    a.cmp(what, stage.what)
    a.jne(refused)
    a.cmp(number, stage.shard)
    a.jne(refused)
    a.cmp(offset, stage.filled)
    a.jne(refused)
    a.place(follows)
    a.lea(RDI, stage.body.address)
    a.add(RDI, R10)
    a.lea(RSI, ControlRequest.at(RSI, ControlRequest.SIZE).magic)
    a.rep_movsb()
    a.mov(stage.filled, end)
    a.cmp(end, size)
    with a.if_(B):
        a.xor(EAX, EAX)  # ControlResult.DONE; the value is what is here
        a.ret()

    a.mov(stage.filled, NOTHING_STAGED)
    a.movzx(ECX, R8W)
    a.lea(RSI, stage.body.address)
    a.mov(EDX, size)
    a.call(gateway_submit)
    a.test(EAX, EAX)
    with a.if_(NZ):
        a.add(EAX, FIRST_RESULT)
        a.xor(ECX, ECX)
        a.ret()
    a.call(slot_wake)
    a.xor(EAX, EAX)
    a.xor(EDX, EDX)
    a.xor(ECX, ECX)
    a.ret()
    a.place(refused)
    a.xor(EDX, EDX)
    a.xor(ECX, ECX)
    a.ret()
