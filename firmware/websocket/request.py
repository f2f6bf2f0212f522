"""The upgrade request, laid down in the workspace before a connection exists (RFC 6455 4.1)."""

from firmware.abi import CALLER_SAVED
from firmware.crypto.base64 import base64_encode
from firmware.crypto.drbg import drbg_bytes
from firmware.crypto.sha1 import sha1_digest
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.discovery import DISCOVERY, Discovery, DiscoveryMode
from firmware.layouts.shard import SSES_VALID, Session, ShardContext, ShardFlag
from firmware.layouts.text import TEXT_OUT
from firmware.layouts.websocket import (
    ACCEPT_GUID,
    KEY_TEXT_BYTES,
    REQUEST_END,
    REQUEST_FIELDS,
    REQUEST_HOST,
    REQUEST_KEY,
    REQUEST_START,
    WS_PORT,
    WSS_PORT,
    WebSocketContext,
)
from firmware.text import put, put_byte, put_decimal
from toolchain.asm import (
    DI,
    EAX,
    EBP,
    ECX,
    EDX,
    NE,
    R8,
    R9D,
    R12,
    R13,
    R14,
    R14D,
    R15,
    R15D,
    RAX,
    RBP,
    RBX,
    RDI,
    RSI,
    Asm,
    In,
    Out,
    Reg32,
    Reg64,
    routine,
)
from toolchain.layout.data import constant

START = constant("ws_request_start", REQUEST_START, "before path and query")
HOST = constant("ws_request_host", REQUEST_HOST, "between path and host")
FIELDS = constant("ws_request_fields", REQUEST_FIELDS, "between host and the node's own name")
KEY = constant("ws_request_key", REQUEST_KEY, "between that and the key")
END = constant("ws_request_end", REQUEST_END, "after the key")
GUID = constant("ws_guid", ACCEPT_GUID, "RFC 6455 1.3", align=4)
KEY_BYTES = WebSocketContext.key.size


def put_user_agent(a: Asm) -> None:
    """Append what the node calls itself. Clobbers RCX and RSI."""
    a.lea(RSI, CONFIG.it.user_agent.address)
    a.movzx(ECX, CONFIG.it.user_agent_len)
    a.rep_movsb()


def put_port(a: Asm, port: Reg32) -> None:
    """Append what a URL need not say: a colon and the port, when it is not the scheme's own.

    EAX, flags and what `put_decimal` clobbers change.
    """
    a.mov(EAX, WS_PORT)
    a.cmp(CONFIG.it.gateway_secure, 0)
    with a.if_(NE):
        a.mov(EAX, WSS_PORT)
    a.cmp(port, EAX)
    with a.if_(NE):
        put_byte(a, ":")
        a.mov(EAX, port)
        a.call(put_decimal)


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(RSI, int, "host for the Host field"),
        In(ECX, int, "its bytes; at most HOST_MAX"),
        In(EDX, int, "TCP port"),
        In(R8, int, "path and query"),
        In(R9D, int, "their bytes; at most PATH_MAX"),
    ],
    clobbers=CALLER_SAVED,
    reads=[ConfigBlob.gateway_secure, ConfigBlob.user_agent_len, ConfigBlob.user_agent],
    writes=[
        WebSocketContext.challenge,
        WebSocketContext.request,
        WebSocketContext.request_len,
        TEXT_OUT,
    ],
    calls=[drbg_bytes, base64_encode, sha1_digest, put_decimal],
    saves=[R12, R13, R14, R15, RBP],
    source="RFC 6455 4.1",
)
def ws_write_request(
    a: Asm,
    shard: ShardContext,
    host: Reg64,
    host_length: Reg32,
    port: Reg32,
    path: Reg64,
    path_length: Reg32,
) -> None:
    """Write the request with a fresh key, and what the server has to answer to it."""
    ws = shard.websocket
    a.mov(R12, host)
    a.mov(R13, path)
    a.mov(R14D, host_length)
    a.mov(R15D, path_length)
    a.mov(EBP, port)

    # The answer is base64(SHA-1(key text + GUID)).
    a.lea(RDI, ws.key.address)
    a.mov(ECX, KEY_BYTES)
    a.call(drbg_bytes)
    a.lea(RSI, ws.key.address)
    a.mov(ECX, KEY_BYTES)
    a.lea(RDI, ws.challenge.address)
    a.call(base64_encode)
    put(a, GUID)
    a.lea(RSI, ws.challenge.address)
    a.mov(ECX, KEY_TEXT_BYTES + len(ACCEPT_GUID))
    a.lea(RDI, ws.digest.address)
    a.call(sha1_digest)
    a.lea(RSI, ws.digest.address)
    a.mov(ECX, WebSocketContext.digest.size)
    a.lea(RDI, ws.accept.address)
    a.call(base64_encode)

    a.lea(RDI, ws.request.address)
    put(a, START)
    a.mov(RSI, R13)
    a.mov(ECX, R15D)
    a.rep_movsb()
    put(a, HOST)
    a.mov(RSI, R12)
    a.mov(ECX, R14D)
    a.rep_movsb()
    put_port(a, EBP)
    put(a, FIELDS)
    put_user_agent(a)
    put(a, KEY)
    a.lea(RSI, ws.challenge.address)
    a.mov(ECX, KEY_TEXT_BYTES)
    a.rep_movsb()
    put(a, END)
    a.lea(RAX, ws.request.address)
    a.sub(RDI, RAX)
    a.mov(ws.request_len, DI)
    a.ret()


@routine(
    outputs=[
        Out(RSI, "host"),
        Out(ECX, "its bytes"),
        Out(EDX, "TCP port"),
        Out(R8, "path and query"),
        Out(R9D, "their bytes"),
    ],
    reads=[
        ConfigBlob.discovery,
        ConfigBlob.gateway_host_len,
        ConfigBlob.gateway_path_len,
        ConfigBlob.gateway_port,
        Discovery.gateway_host_len,
        Discovery.gateway_path_len,
        Discovery.gateway_port,
    ],
    source="firmware/docs/gateway.md#discovery",
)
def ws_base(a: Asm) -> None:
    """Tell where the gateway is: as configured, or as discovery found it."""
    config, found = CONFIG.it, DISCOVERY.it
    a.cmp(config.discovery, DiscoveryMode.STATIC)
    with a.if_(NE):
        a.lea(RSI, found.gateway_host.address)
        a.mov(ECX, found.gateway_host_len)
        a.movzx(EDX, found.gateway_port)
        a.lea(R8, found.gateway_path.address)
        a.mov(R9D, found.gateway_path_len)
        a.ret()
    a.lea(RSI, config.gateway_host.address)
    a.mov(ECX, config.gateway_host_len)
    a.movzx(EDX, config.gateway_port)
    a.lea(R8, config.gateway_path.address)
    a.mov(R9D, config.gateway_path_len)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.session_ptr,
        ShardContext.flags,
        Session.valid,
        Session.resume_host_len,
        Session.resume_port,
    ],
    calls=[ws_base, ws_write_request],
    source="firmware/docs/lifecycle.md#reset-order",
)
def ws_build_request(a: Asm, shard: ShardContext) -> None:
    """Write the request for the host that the next attempt dials: the resume host or the base."""
    session, base = Session.at(RAX), a.label("base")
    a.call(ws_base)

    # The same test as the dial's: a session that can be resumed, and a host that READY named.
    a.mov(RAX, shard.session_ptr)
    a.test(RAX, RAX)
    a.jz(base)
    a.cmp(session.valid, SSES_VALID)
    a.jne(base)
    a.test(shard.flags, ShardFlag.SEQ_VALID)
    a.jz(base)
    a.cmp(session.resume_host_len, 0)
    a.je(base)
    a.mov(ECX, session.resume_host_len)
    a.lea(RSI, session.resume_host.address)
    a.movzx(EDX, session.resume_port)
    a.place(base)
    a.jmp(ws_write_request)
