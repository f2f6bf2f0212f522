"""What is published instead of a dispatch that is too large: its type, its sequence, its size."""

from firmware.abi import CALLER_SAVED
from firmware.events.outbox import COMPUTED, put_token
from firmware.layouts.log import PUBLISH_OVERSIZE
from firmware.layouts.outbox import (
    NAME_OVERSIZE,
    OUTBOX,
    Outbox,
)
from firmware.layouts.text import TEXT_OUT
from firmware.log import log, log_write
from firmware.text import put, put_decimal
from toolchain.asm import (
    EAX,
    ECX,
    EDX,
    R8D,
    R9D,
    R12,
    R12D,
    R13,
    R13D,
    R14,
    R15,
    R15D,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    In,
    Out,
    Reg32,
    Reg64,
    mem8,
    mem16,
    routine,
)
from toolchain.layout.data import constant

OVERSIZE = constant("publish_oversize", NAME_OVERSIZE, "the type of a stub")
STUB_SIZE = constant("publish_stub_size", b'{"t":"SHARDFW_OVERSIZE","size":', "a stub begins")
STUB_SEQUENCE = constant("publish_stub_sequence", b',"s":', "the dispatch that it stands for")
STUB_TYPE = constant("publish_stub_type", b',"type":"', "its type as a token")
STUB_END = int.from_bytes(b'"}', "little")
OUT = OUTBOX.it


@routine(
    inputs=[
        In(ECX, int, "bytes of a dispatch that is too large"),
        In(R8D, int, "its sequence"),
        In(RDX, int, "its name"),
        In(R9D, int, "bytes of the name, at least one"),
    ],
    outputs=[Out(RSI, "the stub"), Out(ECX, "its bytes")],
    clobbers=CALLER_SAVED,
    writes=[Outbox.stub, Outbox.oversize, TEXT_OUT],
    calls=[put_decimal, put_token, log_write],
    saves=[R12, R13, R14, R15],
    source="firmware/docs/events.md#oversize",
)
def publish_stub(a: Asm, length: Reg32, sequence: Reg32, name: Reg64, name_len: Reg32) -> None:
    """Write what is published in place of a dispatch that neither node nor server can hold."""
    a.mov(R12D, length)
    a.mov(R13D, sequence)
    a.mov(R14, name)
    a.mov(R15D, name_len)
    a.inc(OUT.oversize)
    a.mov(EDX, R12D)
    a.mov(ECX, R13D)
    log(a, PUBLISH_OVERSIZE)
    a.lea(RDI, OUT.stub.address)
    put(a, STUB_SIZE)
    a.mov(EAX, R12D)
    a.call(put_decimal)
    put(a, STUB_SEQUENCE)
    a.mov(EAX, R13D)
    a.call(put_decimal)
    put(a, STUB_TYPE)
    a.mov(RDX, R14)
    a.mov(ECX, R15D)
    a.call(put_token)
    a.mov(mem16(RDI, ref=TEXT_OUT), STUB_END)
    a.lea(RSI, OUT.stub.address)
    a.lea(RCX, mem8(RDI, 2, ref=COMPUTED))
    a.sub(RCX, RSI)
    a.ret()
