"""A TLS client that sends every byte back, each bit turned, so that any server can judge the layer.

Test builds only. Nothing is kept: what finds no room in the transmit buffer stays unread, so the ring
and the server's window hold the rest.
"""

from firmware.abi import CALLER_SAVED
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import TlsContext, TlsState
from firmware.layouts.tls_echo import (
    ECHO_RECORD_MAX,
    SHORT_RUN,
    STORE_MAX,
    STREAM_IN,
    STREAM_OUT,
    TLS_ECHO,
    TlsEcho,
)
from firmware.layouts.tls_pool import TLS_POOL, TlsPool
from firmware.layouts.trust import TRUST_MAGIC, TrustStore
from firmware.layouts.x509_chain import KNOWN_CHAINS, KnownChains
from firmware.tls.stream import tls_ended
from firmware.tls.transport import tls_commit, tls_consume, tls_more, tls_readable, tls_reserve
from toolchain.asm import (
    AE,
    AL,
    CF,
    EAX,
    ECX,
    NE,
    NZ,
    R12,
    R13,
    R13D,
    RAX,
    RBX,
    RCX,
    RDI,
    RSI,
    A,
    Asm,
    B,
    C,
    E,
    In,
    Out,
    Reg32,
    Z,
    mem8,
    routine,
)


@routine(
    inputs=[
        In(RSI, TrustStore, "a datagram that may be a trust store"),
        In(ECX, int, "its bytes"),
    ],
    outputs=[Out(CF, "1 = it is none")],
    clobbers=[RAX, RCX, RSI, RDI],
    reads=[TrustStore],
    writes=[TlsEcho.store, TlsPool.trust, KnownChains],
    source="firmware/docs/test-roles.md#tls-echo",
)
def tls_echo_trust(a: Asm, store: TrustStore, length: Reg32) -> None:
    """Believe the anchors of a datagram from now on, and no others."""
    echo, none = TLS_ECHO.it, a.label("none")
    a.cmp(length, TrustStore.SIZE)
    a.j(B, none)
    a.cmp(length, STORE_MAX)
    a.j(A, none)
    a.cmp(store.magic, TRUST_MAGIC)
    a.j(NE, none)
    a.cmp(store.size, length)
    a.j(NE, none)
    a.lea(RDI, echo.store.address)
    a.mov(TLS_POOL.it.trust, RDI)
    a.mov(ECX, length)
    a.rep_movsb()
    # Chains that led to an anchor of before would count without one of now.
    a.lea(RDI, KNOWN_CHAINS.it.turn)
    a.xor(EAX, EAX)
    a.mov(ECX, KnownChains.SIZE // 8)
    a.rep_stosq()
    a.clc()
    a.ret()
    a.place(none)
    a.stc()
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a CONNECTED shard that runs the role")],
    outputs=[Out(CF, "1 = no room yet")],
    clobbers=CALLER_SAVED,
    reads=[TlsEcho.say_len, TlsEcho.say],
    writes=[TlsEcho.say_len, STREAM_OUT],
    calls=[tls_reserve, tls_commit],
    source="firmware/docs/test-roles.md#tls-echo",
)
def tls_echo_say(a: Asm, shard: ShardContext) -> None:
    """Say what the role says before it listens, once."""
    echo = TLS_ECHO.it
    a.mov(ECX, echo.say_len)
    a.test(ECX, ECX)
    with a.if_(Z):
        a.ret()  # CF = 0
    a.call(tls_reserve)
    with a.if_(C):
        a.ret()
    a.lea(RSI, echo.say.address)
    a.mov(ECX, echo.say_len)
    a.rep_movsb()
    a.mov(ECX, echo.say_len)
    a.call(tls_commit)
    a.mov(echo.say_len, 0)
    a.clc()
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard that runs the role, its handshake over")],
    outputs=[Out(CF, "0 = the server has ended the stream, or the role has heard enough")],
    clobbers=CALLER_SAVED,
    reads=[TlsEcho.quiet, TlsEcho.limit, TlsEcho.received, TlsContext.state, STREAM_IN],
    writes=[TlsEcho.received, STREAM_OUT],
    calls=[tls_readable, tls_more, tls_reserve, tls_commit, tls_consume, tls_ended],
    saves=[R12, R13],
    source="firmware/docs/test-roles.md#tls-echo",
)
def tls_echo_poll(a: Asm, shard: ShardContext) -> None:
    """Send back all that came and finds room, each byte XOR 0xff; count it."""
    echo, start, size = TLS_ECHO.it, R12, R13D
    full, over = a.label("full"), a.label("over")
    with a.loop() as runs:
        a.call(tls_readable)
        a.cmp(ECX, SHORT_RUN)
        with a.if_(B):
            a.call(tls_more)
            a.call(tls_readable)
        a.test(ECX, ECX)
        a.leave(Z, runs)
        a.mov(start, RSI)
        a.mov(size, ECHO_RECORD_MAX)
        a.cmp(ECX, size)
        a.cmov(B, size, ECX)
        a.cmp(echo.quiet, 0)
        with a.if_(E):
            a.mov(ECX, size)
            a.call(tls_reserve)
            a.j(C, full)
            a.mov(RSI, start)
            a.mov(ECX, size)
            with a.loop() as each:
                a.mov(AL, mem8(RSI, ref=STREAM_IN))
                a.not_(AL)
                a.mov(mem8(RDI, ref=STREAM_OUT), AL)
                a.inc(RSI)
                a.inc(RDI)
                a.dec(ECX)
                a.again(NZ, each)
            a.mov(ECX, size)
            a.call(tls_commit)
        a.add(echo.received, size)
        a.mov(ECX, size)
        a.call(tls_consume)
        a.jmp(runs.top)
    a.mov(EAX, echo.limit)
    a.test(EAX, EAX)
    with a.if_(NZ):
        a.cmp(echo.received, EAX)
        a.j(AE, over)
    a.jmp(tls_ended)
    # Nothing is sent any more once the server has ended its stream.
    a.place(full)
    a.cmp(shard.tls.state, TlsState.ENDED)
    a.j(E, over)
    a.stc()
    a.ret()
    a.place(over)
    a.clc()
    a.ret()
