"""The start of the conversation: the request goes out as it was laid down."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.shard import ShardContext
from firmware.layouts.websocket import FRAME_OUT, WebSocketContext, WsState
from firmware.tls.transport import tls_commit, tls_reserve
from toolchain.asm import CF, ECX, RBX, RSI, Asm, C, In, Out, routine


@routine(
    inputs=[In(RBX, ShardContext, "the shard; its request is built, its transport open")],
    outputs=[Out(CF, "1 = no room to send")],
    clobbers=CALLER_SAVED,
    reads=[WebSocketContext.request_len, WebSocketContext.request],
    writes=[WebSocketContext.state, FRAME_OUT],
    calls=[tls_reserve, tls_commit],
    source="RFC 6455 4.1",
)
def ws_start(a: Asm, shard: ShardContext) -> None:
    """Send the upgrade request."""
    ws = shard.websocket
    full = a.label("full")
    a.movzx(ECX, ws.request_len)
    a.call(tls_reserve)
    a.j(C, full)
    a.lea(RSI, ws.request.address)
    a.movzx(ECX, ws.request_len)
    a.rep_movsb()
    a.movzx(ECX, ws.request_len)
    a.call(tls_commit)
    a.mov(ws.state, WsState.HANDSHAKE)
    a.clc()
    a.place(full)
    a.ret()
