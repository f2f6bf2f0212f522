"""The question for the gateway: to whom, over which connection, in which words."""

from firmware.abi import CALLER_SAVED
from firmware.gateway.discovery_verdict import discovery_retry
from firmware.gateway.profile import profile_table
from firmware.layouts.config import CONFIG, HOST_MAX, PATH_MAX, USER_AGENT_MAX, ConfigBlob
from firmware.layouts.discovery import (
    AUTHORIZATION,
    DISCOVERY,
    DISCOVERY_ADDRESS,
    DISCOVERY_CONNECTION,
    REQUEST_AGENT,
    REQUEST_FIELDS,
    Discovery,
    DiscoveryState,
)
from firmware.layouts.log import DISCOVERY_ASK
from firmware.layouts.profile import ProfileTable
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import TcpContext
from firmware.layouts.text import TEXT_OUT
from firmware.layouts.token import TOKEN, BotToken
from firmware.layouts.websocket import REQUEST_HOST, REQUEST_START
from firmware.limits import TOKEN_MAX
from firmware.log import log, log_write
from firmware.net.dns import dns_resolve
from firmware.tcp.connect import tcp_connect
from firmware.text import CRLF, put, put_crlf, put_decimal
from firmware.tls.prepare import tls_prepare
from firmware.tls.transport import tls_commit, tls_reserve
from firmware.websocket.request import HOST, START, put_port, put_user_agent
from toolchain.asm import (
    AX,
    CF,
    EAX,
    ECX,
    EDX,
    NE,
    R8D,
    R9D,
    R12,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    C,
    E,
    In,
    Out,
    mem8,
    mem16,
    routine,
)
from toolchain.layout.data import constant

D = DISCOVERY.it
AGENT = constant("discovery_agent", REQUEST_AGENT, "behind the host of a discovery request")
FIELDS = constant("discovery_fields", REQUEST_FIELDS, "behind the node's own name in it")
BOT = constant("discovery_authorization", AUTHORIZATION, "before the token", align=1)
REQUEST_MAX = (
    len(REQUEST_START + REQUEST_HOST + REQUEST_AGENT + REQUEST_FIELDS + AUTHORIZATION + b"\r\n\r\n")
    + PATH_MAX + HOST_MAX + len(":65535") + USER_AGENT_MAX + TOKEN_MAX
)  # fmt: skip


@routine(
    inputs=[In(RBX, ShardContext, "the shard that will ask")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.slot,
        ShardContext.attempts,
        ShardContext.profile,
        ProfileTable.discovery_token,
        ConfigBlob,
    ],
    writes=[
        Discovery.state,
        Discovery.owner,
        Discovery.attempt,
        Discovery.status,
        Discovery.port,
        Discovery.redirects,
        Discovery.token,
        Discovery.host_len,
        Discovery.path_len,
        Discovery.retry_after_ms,
        Discovery.host,
        Discovery.path,
    ],
    source="firmware/docs/gateway.md#discovery",
)
def discovery_begin(a: Asm, shard: ShardContext) -> None:
    """Take the question: whom to ask for what is configured; the token where the service wants it."""
    config = CONFIG.it
    a.movzx(EAX, shard.slot)
    a.inc(EAX)
    a.mov(D.owner, EAX)
    a.mov(EAX, shard.attempts)
    a.mov(D.attempt, EAX)
    a.xor(EAX, EAX)
    a.mov(D.status, AX)
    a.mov(D.redirects, EAX)
    a.mov(D.retry_after_ms, RAX)
    table = profile_table(a, shard, RDX, RCX)
    a.mov(EAX, table.discovery_token)
    a.mov(D.token, EAX)
    a.mov(AX, config.gateway_port)
    a.mov(D.port, AX)
    a.mov(ECX, config.gateway_host_len)
    a.mov(D.host_len, ECX)
    a.lea(RSI, config.gateway_host.address)
    a.lea(RDI, D.host.address)
    a.rep_movsb()
    a.mov(ECX, config.gateway_path_len)
    a.mov(D.path_len, ECX)
    a.lea(RSI, config.gateway_path.address)
    a.lea(RDI, D.path.address)
    a.rep_movsb()
    a.mov(D.state, DiscoveryState.RESOLVE)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard that asks, its connection closed")],
    outputs=[Out(CF, "1 = TLS is not ready: it waits for an arena, or the attempt failed")],
    clobbers=CALLER_SAVED,
    reads=[
        Discovery.host_len,
        Discovery.port,
        Discovery.redirects,
        Discovery.token,
        TcpContext.remote_ip,
    ],
    writes=[
        TcpContext.remote_ip,
        TcpContext.remote_port,
        Discovery.state,
        Discovery.scanned,
    ],
    calls=[dns_resolve, tls_prepare, tcp_connect, discovery_retry, log_write],
    source="firmware/docs/gateway.md#discovery",
)
def discovery_dial(a: Asm, shard: ShardContext) -> None:
    """Resolve who is asked, make TLS ready, connect; what is pending is asked for again."""
    fail = a.label("fail")
    a.lea(RSI, D.host.address)
    a.mov(ECX, D.host_len)
    a.call(dns_resolve)
    a.cmp(EAX, 1)
    with a.if_(E):
        a.ret()  # CF = 0
    a.mov(R9D, DISCOVERY_ADDRESS.code)
    a.j(A, fail)
    a.mov(shard.tcp.remote_ip, EDX)
    a.mov(AX, D.port)
    a.mov(shard.tcp.remote_port, AX)
    a.lea(RSI, D.host.address)
    a.mov(ECX, D.host_len)
    a.call(tls_prepare)
    with a.if_(C):
        a.ret()
    a.call(tcp_connect)
    a.mov(R9D, DISCOVERY_CONNECTION.code)
    a.j(C, fail)
    a.mov(D.scanned, 0)
    a.mov(D.state, DiscoveryState.CONNECT)
    a.mov(EDX, shard.tcp.remote_ip)
    a.movzx(ECX, D.port)
    a.mov(R8D, D.redirects)
    a.mov(R9D, D.token)
    log(a, DISCOVERY_ASK, RBX)
    a.clc()
    a.ret()
    a.place(fail)
    a.call(discovery_retry)
    a.clc()
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard that asks, its connection open")],
    clobbers=CALLER_SAVED,
    reads=[
        Discovery.path_len,
        Discovery.host_len,
        Discovery.port,
        Discovery.token,
        BotToken.length,
        ConfigBlob.gateway_secure,
        ConfigBlob.user_agent_len,
        ConfigBlob.user_agent,
    ],
    writes=[Discovery.state, Discovery.requests, TEXT_OUT],
    calls=[tls_reserve, tls_commit, put_decimal],
    saves=[R12],
    source="RFC 9112 3",
)
def discovery_send(a: Asm, shard: ShardContext) -> None:
    """Send the request; without room now the next tick does it."""
    a.mov(ECX, REQUEST_MAX)
    a.call(tls_reserve)
    with a.if_(C):
        a.ret()
    a.mov(R12, RDI)
    put(a, START)
    a.lea(RSI, D.path.address)
    a.mov(ECX, D.path_len)
    a.rep_movsb()
    put(a, HOST)
    a.lea(RSI, D.host.address)
    a.mov(ECX, D.host_len)
    a.rep_movsb()
    a.movzx(ECX, D.port)
    put_port(a, ECX)
    put(a, AGENT)
    put_user_agent(a)
    put(a, FIELDS)
    a.cmp(D.token, 0)
    with a.if_(NE):
        put(a, BOT)
        a.lea(RSI, TOKEN.it.text.address)
        a.mov(ECX, TOKEN.it.length)
        a.rep_movsb()
        put_crlf(a)
    a.mov(mem16(RDI, ref=TEXT_OUT), CRLF)
    a.lea(RCX, mem8(RDI, 2, ref=TEXT_OUT))
    a.sub(RCX, R12)
    a.call(tls_commit)
    a.inc(D.requests)
    a.mov(D.state, DiscoveryState.HEAD)
    a.ret()
