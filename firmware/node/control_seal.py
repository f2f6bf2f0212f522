"""Tags and heads of the control channel: who may command, and what every answer says."""

from firmware.abi import CALLER_SAVED
from firmware.crypto.hmac import hmac_sha256, tag_differs
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.control import (
    CONTROL,
    CONTROL_ANSWER,
    CONTROL_DATAGRAM,
    CONTROL_LEAST,
    CONTROL_MOST,
    CONTROL_REPLY_MAGIC,
    CONTROL_TAG_BYTES,
    CONTROL_VERSION,
    Control,
    ControlReply,
    ControlRequest,
)
from toolchain.asm import (
    AX,
    CF,
    EAX,
    EBX,
    ECX,
    R12,
    R13,
    R13D,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    mem8,
    routine,
)


@routine(
    inputs=[In(RSI, int, "the datagram"), In(ECX, int, "its bytes")],
    outputs=[Out(CF, "1 = not from who holds the key")],
    clobbers=CALLER_SAVED,
    reads=[ConfigBlob.control_key_len],
    calls=[hmac_sha256, tag_differs],
    saves=[R12, R13],
    source="firmware/docs/control.md#tags",
)
def control_authentic(a: Asm, datagram: Reg64, length: Reg32) -> None:
    """Compute the tag that the datagram should have into CONTROL.made, and compare."""
    bad = a.label("bad")
    a.mov(R12, datagram)
    a.mov(R13D, length)
    a.lea(EAX, mem8(RCX, -CONTROL_LEAST, ref=CONTROL_DATAGRAM))
    a.cmp(EAX, CONTROL_MOST - CONTROL_LEAST)
    a.j(A, bad)
    a.cmp(CONFIG.it.control_key_len, 0)
    a.j(E, bad)
    a.lea(RDX, CONFIG.it.control_key.address)
    a.sub(ECX, CONTROL_TAG_BYTES)
    a.lea(RDI, CONTROL.it.made.address)
    a.call(hmac_sha256)
    a.lea(RSI, mem8(R12, -CONTROL_TAG_BYTES, index=R13, ref=CONTROL_DATAGRAM))
    a.lea(RDI, CONTROL.it.made.address)
    a.call(tag_differs)
    a.ret()
    a.place(bad)
    a.stc()
    a.ret()


@routine(
    inputs=[
        In(RDI, ControlReply, "where the head goes"),
        In(RSI, ControlRequest, "the request"),
        In(ECX, int, "ControlResult"),
    ],
    clobbers=[RAX],
    reads=[ControlRequest.counter, Control.boot, Control.last],
    writes=[ControlReply],
    source="firmware/docs/control.md#answers",
)
def control_head(a: Asm, reply: ControlReply, request: ControlRequest, result: Reg32) -> None:
    """Write the head of an answer without payload."""
    a.mov(reply.magic, CONTROL_REPLY_MAGIC)
    a.mov(reply.version, CONTROL_VERSION)
    a.mov(EAX, result)
    a.mov(reply.result, AX)
    for source, target in (
        (request.counter, reply.counter),
        (CONTROL.it.boot, reply.boot),
        (CONTROL.it.last, reply.last),
    ):  # fmt: skip - three values, unrolled
        a.mov(RAX, source)
        a.mov(target, RAX)
    a.xor(EAX, EAX)
    a.mov(reply.value, RAX)
    a.mov(reply.length, EAX)
    a.ret()


@routine(
    inputs=[In(RDI, ControlReply, "an answer with its payload")],
    outputs=[Out(ECX, "its bytes with the tag")],
    clobbers=CALLER_SAVED,
    reads=[ControlReply.length],
    calls=[hmac_sha256],
    saves=[RBX],
    source="firmware/docs/control.md#tags",
)
def control_seal(a: Asm, reply: ControlReply) -> None:
    """Put the tag behind the payload."""
    a.mov(EBX, reply.length)
    a.add(EBX, ControlReply.SIZE)
    a.mov(RSI, RDI)
    a.add(RDI, RBX)
    a.mov(ECX, EBX)
    a.lea(RDX, CONFIG.it.control_key.address)
    a.call(hmac_sha256)
    a.lea(ECX, mem8(RBX, CONTROL_TAG_BYTES, ref=CONTROL_ANSWER))
    a.ret()
