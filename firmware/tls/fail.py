"""How the layer ends a connection: one table by site says the alert and what follows."""

from firmware.abi import CALLER_SAVED
from firmware.failure import shard_fail
from firmware.layouts.clock import SECOND_MS
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import TlsContext, TlsFlag, TlsState
from firmware.layouts.tls_sites import (
    NO_ALERT,
    SITES_MAX,
    TLS_ALERTS,
    TLS_ENDS,
    TLS_FLAGS,
    TLS_WAITS,
)
from firmware.tcp.output import tcp_output
from firmware.tls.protect import tls_erase
from firmware.tls.send import tls_alert, tls_change_cipher_spec
from toolchain.asm import (
    EAX,
    ECX,
    EDX,
    NE,
    NZ,
    R8D,
    R9D,
    R12,
    R12D,
    R13,
    R13D,
    RAX,
    RBX,
    Asm,
    E,
    In,
    Reg32,
    mem8,
    routine,
)


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(R9D, int, "the error: a site of the layer, with its detail"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        TlsContext.state,
        TlsContext.flags,
        ShardContext.failure,
        TLS_ALERTS,
        TLS_ENDS,
        TLS_FLAGS,
        TLS_WAITS,
    ],
    writes=[
        TlsContext.state,
        TlsContext.error,
        TlsContext.anchor,
        TlsContext.key_kind,
        ShardContext.required_wait_ms,
    ],
    calls=[tls_change_cipher_spec, tls_alert, tcp_output, tls_erase, shard_fail],
    saves=[R12, R13],
    source="RFC 8446 6.2 and D.4; firmware/docs/tls.md#failures",
)
def tls_fail(a: Asm, shard: ShardContext, error: Reg32) -> None:
    """Tell the server its alert, erase the keys, note the failure; the first one counts."""
    done = a.label("done")
    a.cmp(shard.tls.state, TlsState.FAILED)
    a.j(E, done)
    a.mov(R12D, error)
    a.mov(R13D, error)
    a.shr(R13D, 16)
    a.and_(R13D, SITES_MAX - 1)
    a.lea(RAX, TLS_ALERTS.address)
    a.movzx(EDX, mem8(RAX, index=R13, ref=TLS_ALERTS))
    a.cmp(EDX, NO_ALERT)
    with a.if_(NE):
        a.test(shard.tls.flags, TlsFlag.SEALING)
        with a.if_(NZ):
            # Our first sealed record may be this alert; who waits for the other one reads neither.
            a.call(tls_change_cipher_spec)
            a.lea(RAX, TLS_ALERTS.address)
            a.movzx(EDX, mem8(RAX, index=R13, ref=TLS_ALERTS))
        a.call(tls_alert)
        a.call(tcp_output)  # now: what fails here is reset next
    a.xor(EAX, EAX)
    a.mov(shard.tls.anchor, RAX)
    a.mov(shard.tls.key_kind, EAX)
    a.mov(shard.tls.error, R12D)
    a.mov(shard.tls.state, TlsState.FAILED)
    a.call(tls_erase)
    a.cmp(shard.failure, 0)
    with a.if_(E):
        a.lea(RAX, TLS_WAITS.address)
        a.movzx(EAX, mem8(RAX, index=R13, ref=TLS_WAITS))
        a.imul(EAX, EAX, SECOND_MS)
        a.mov(shard.required_wait_ms, EAX)
    a.lea(RAX, TLS_ENDS.address)
    a.movzx(EDX, mem8(RAX, index=R13, ref=TLS_ENDS))
    a.lea(RAX, TLS_FLAGS.address)
    a.movzx(ECX, mem8(RAX, index=R13, ref=TLS_FLAGS))
    a.xor(R8D, R8D)
    a.mov(R9D, R12D)
    a.call(shard_fail)
    a.place(done)
    a.ret()


def fail(a: Asm, error: int) -> None:
    """Call `tls_fail` with an error that is known when the code is made."""
    a.mov(R9D, error)
    a.call(tls_fail)
