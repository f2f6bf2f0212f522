"""What an application sends: judged, paced, wrapped into an envelope, framed."""

from firmware.abi import CALLER_SAVED
from firmware.gateway.pace import gateway_ms_until, gateway_pace_wait
from firmware.gateway.profile import profile_table
from firmware.gateway.send import gateway_byte, gateway_send
from firmware.json.feed import json_feed, json_reset
from firmware.layouts.gateway import GatewayContext, GatewayState
from firmware.layouts.json import JsonParser, JsonState
from firmware.layouts.profile import OPS_LIMIT, ProfileTable
from firmware.layouts.send import (
    BODY,
    CONTROL_ROOM_BYTES,
    ROOM_WAIT_MS,
    SEND_PARSER,
    Pacer,
    SendResult,
)
from firmware.layouts.shard import End, ShardContext, ShardState
from firmware.layouts.tcp import TcpContext, TcpState
from firmware.layouts.websocket import WebSocketContext, WsState
from firmware.limits import OUTBOUND_PAYLOAD_MAX
from firmware.text import put_decimal
from firmware.tls.transport import tls_reserve
from firmware.websocket.send import MEDIUM
from firmware.websocket.utf8 import UTF8_ACCEPT, utf8_check
from toolchain.asm import (
    AE,
    AL,
    CF,
    EAX,
    ECX,
    EDI,
    EDX,
    R10,
    R11,
    R12,
    R12D,
    R13,
    R13D,
    R14,
    R14D,
    R15,
    R15D,
    RAX,
    RBX,
    RDI,
    RSI,
    A,
    Asm,
    C,
    In,
    Out,
    Reg32,
    Reg64,
    mem8,
    routine,
)
from toolchain.layout.data import Data, constant

OPCODE = constant("submit_op", b'{"op":', "before the opcode")
DATA = constant("submit_data", b',"d":', "before the body")
ENVELOPE_BYTES = OPCODE.size + DATA.size + len("0}")
"""What an envelope adds to its body when the opcode has one digit."""


@routine(
    inputs=[In(RSI, int, "the body"), In(ECX, int, "its bytes")],
    outputs=[Out(CF, "1 = not one JSON object in UTF-8")],
    clobbers=CALLER_SAVED,
    reads=[JsonParser.state],
    writes=[JsonParser.strict],
    calls=[json_reset, json_feed, utf8_check],
    saves=[R12, R13],
    source="firmware/docs/gateway.md#send-path",
)
def gateway_check_body(a: Asm, text: Reg64, length: Reg32) -> None:
    """Let the parser that reads the server judge what the server will read.

    A text that is one whole object cannot end the envelope that is put around it.
    """
    bad = a.label("bad")
    a.mov(R12, text)
    a.mov(R13D, length)
    a.lea(RDI, SEND_PARSER.address)
    a.call(json_reset)
    a.mov(SEND_PARSER.it.strict, 1)
    a.call(json_feed)  # parser, text and length stand where they were
    a.test(EAX, EAX)
    a.jnz(bad)
    a.cmp(SEND_PARSER.it.state, JsonState.END)
    a.jne(bad)
    a.mov(RSI, R12)
    a.mov(ECX, R13D)
    a.mov(EAX, UTF8_ACCEPT)
    a.call(utf8_check)
    a.cmp(EAX, UTF8_ACCEPT)
    a.jne(bad)
    a.clc()
    a.ret()
    a.place(bad)
    a.stc()
    a.ret()


def _put(a: Asm, text: Data) -> None:
    a.lea(RSI, text.address)
    a.mov(ECX, text.size)
    a.rep_movsb()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(ECX, int, "opcode"),
        In(RSI, int, "the body, JSON for `d`"),
        In(EDX, int, "its bytes"),
    ],
    outputs=[
        Out(EAX, "SendResult"),
        Out(EDX, "milliseconds to wait when RATE_LIMITED, else 0"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        BODY,
        ShardContext.state,
        ShardContext.failure,
        ShardContext.profile,
        GatewayContext.state,
        WebSocketContext.state,
        TcpContext.state,
        ProfileTable.send_rows,
        Pacer.not_before,
    ],
    writes=[
        GatewayContext.outbound,
        Pacer.running,
        Pacer.total,
        Pacer.sent,
        Pacer.refused,
    ],
    calls=[
        gateway_check_body,
        gateway_ms_until,
        gateway_pace_wait,
        gateway_send,
        put_decimal,
        tls_reserve,
    ],
    saves=[R12, R13, R14, R15],
    source="firmware/docs/gateway.md#send-path",
)
def gateway_submit(a: Asm, shard: ShardContext, opcode: Reg32, body: Reg64, size: Reg32) -> None:
    """Send one payload of the application, or say why not; a refused one leaves nothing behind."""
    gateway, pacer = shard.gateway, shard.pacer
    op, length, row = R12D, R14D, R15D
    bad_op, too_large, not_ready, bad_body, limited, refused = map(
        a.label, ("bad_op", "too_large", "not_ready", "bad_body", "limited", "refused")
    )
    a.mov(op, opcode)
    a.mov(R13, body)
    a.mov(length, size)

    # What no waiting changes comes first.
    a.cmp(op, OPS_LIMIT)
    a.jae(bad_op)
    table = profile_table(a, shard, R10, R11)
    a.movzx(row, table.send_rows.m8(index=R12))
    a.test(row, row)
    a.jz(bad_op)
    a.cmp(length, OUTBOUND_PAYLOAD_MAX)
    a.j(A, too_large)
    a.cmp(op, 10)
    a.set(AE, AL)
    a.movzx(EAX, AL)
    a.lea(EAX, mem8(RAX, ENVELOPE_BYTES, index=R14, ref=BODY))
    a.cmp(EAX, OUTBOUND_PAYLOAD_MAX)
    a.j(A, too_large)

    # Attached from READY on, and no longer than the connection is whole.
    a.cmp(shard.state, ShardState.READY)
    a.jne(not_ready)
    a.cmp(shard.failure, End.NONE)
    a.jne(not_ready)
    a.cmp(gateway.state, GatewayState.READY)
    a.jne(not_ready)
    a.cmp(shard.websocket.state, WsState.OPEN)
    a.jne(not_ready)
    a.cmp(shard.tcp.state, TcpState.ESTABLISHED)
    a.jne(not_ready)

    a.mov(ECX, length)
    a.call(gateway_check_body)
    a.j(C, bad_body)

    a.mov(RAX, pacer.not_before.m64(-8, index=R15, scale=8))
    a.call(gateway_ms_until)
    a.test(EAX, EAX)
    a.jnz(limited)
    a.call(gateway_pace_wait)
    a.test(EAX, EAX)
    a.jnz(limited)
    # Heartbeats, pongs and the close frame keep their own room behind what is queued here.
    a.lea(ECX, mem8(R14, ENVELOPE_BYTES + 1 + MEDIUM + CONTROL_ROOM_BYTES, ref=BODY))
    a.call(tls_reserve)
    a.mov(EAX, ROOM_WAIT_MS)
    a.j(C, limited)

    a.lea(RDI, gateway.outbound.address)
    _put(a, OPCODE)
    a.mov(EAX, op)
    a.call(put_decimal)
    _put(a, DATA)
    a.mov(RSI, R13)
    a.mov(ECX, length)
    a.rep_movsb()
    a.mov(gateway_byte(), ord("}"))
    a.inc(RDI)
    a.lea(RAX, gateway.outbound.address)
    a.sub(RDI, RAX)
    a.mov(ECX, EDI)
    a.mov(EDX, op)
    a.call(gateway_send)
    a.inc(pacer.running)
    a.inc(pacer.total)
    a.inc(pacer.sent)
    a.xor(EAX, EAX)
    a.xor(EDX, EDX)
    a.ret()

    a.place(limited)
    a.inc(pacer.refused)
    a.mov(EDX, EAX)
    a.mov(EAX, SendResult.RATE_LIMITED)
    a.ret()
    for label, result in (
        (bad_op, SendResult.BAD_OP),
        (too_large, SendResult.TOO_LARGE),
        (not_ready, SendResult.NOT_READY),
        (bad_body, SendResult.BAD_BODY),
    ):
        a.place(label)
        a.mov(EAX, result)
        a.jmp(refused)
    a.place(refused)
    a.xor(EDX, EDX)
    a.ret()
