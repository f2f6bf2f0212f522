"""Records of the server: judged by their header, opened where they lie in the ring (RFC 8446 5)."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import (
    CIPHERTEXT_MAX,
    CONTENT_MAX,
    RECORD_HEADER_BYTES,
    RECORD_IN,
    TAG_BYTES,
    RecordType,
    TlsContext,
    TlsFlag,
    TlsState,
)
from firmware.layouts.tls_sites import (
    ALERT_FORM,
    BAD_RECORD_MAC,
    CHANGE_CIPHER_SPEC,
    RECORD_EMPTY,
    RECORD_NO_ROOM,
    RECORD_OVERFLOW,
    RECORD_TYPE,
)
from firmware.limits import RING_BYTES
from firmware.tcp.ring import tcp_readable
from firmware.tls.fail import tls_fail
from firmware.tls.protect import tls_open
from firmware.tls.refuse import Refusals
from toolchain.asm import (
    AE,
    AX,
    CF,
    EAX,
    ECX,
    EDX,
    ESI,
    NE,
    R12,
    R13,
    R13D,
    R14,
    R14D,
    RAX,
    RBX,
    RSI,
    A,
    Asm,
    B,
    C,
    E,
    In,
    Out,
    Z,
    mem8,
    mem16,
    routine,
)

ALERT_BYTES = 2


@routine(
    inputs=[In(RBX, ShardContext, "the shard, CONNECTED or in a handshake")],
    outputs=[
        Out(CF, "1 = none is whole yet, or the connection failed"),
        Out(EAX, "RecordType of its content"),
        Out(RSI, "the content, where it lies in the ring"),
        Out(ECX, "its bytes"),
        Out(EDX, "bytes of the whole record"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        TlsContext.state,
        TlsContext.flags,
        TlsContext.plain_left,
        TlsContext.gap,
        RECORD_IN,
    ],
    calls=[tcp_readable, tls_open, tls_fail],
    saves=[R12, R13, R14],
    source="RFC 8446 5.1, 5.2 and 5.4; firmware/docs/tls.md#records",
)
def tls_next_record(a: Asm, shard: ShardContext) -> None:
    """Open the next record behind what is shown already; nothing is taken from TCP."""
    kind, size, at = EAX, R13D, R14D
    record = R12
    bad, tls = Refusals(a, (RECORD_TYPE,)), shard.tls
    none, failed, plain, sealed, whole, judge, out = map(
        a.label, ("none", "failed", "plain", "sealed", "whole", "judge", "out")
    )
    a.call(tcp_readable)
    a.mov(at, tls.plain_left)
    a.add(at, tls.gap)
    a.lea(record, mem8(RSI, index=R14, ref=RECORD_IN))
    a.sub(ECX, at)
    a.cmp(ECX, RECORD_HEADER_BYTES)
    a.j(B, none)
    a.movzx(EAX, mem16(record, 3, ref=RECORD_IN))
    a.rol(AX, 8)
    a.mov(size, EAX)
    a.movzx(kind, mem8(record, ref=RECORD_IN))

    # The header tells whether the record may come at all, before it is waited for.
    a.cmp(kind, RecordType.CHANGE_CIPHER_SPEC)
    with a.if_(E):
        a.cmp(tls.state, TlsState.CONNECTED)
        a.j(AE, bad[RECORD_TYPE])
        a.cmp(size, 1)
        a.j(NE, bad[CHANGE_CIPHER_SPEC])
        a.jmp(whole)
    a.test(tls.flags, TlsFlag.OPENING)
    a.j(Z, plain)
    a.cmp(kind, RecordType.APPLICATION_DATA)
    a.j(E, sealed)
    # A server that cannot follow our key share has no keys for its alert.
    a.cmp(kind, RecordType.ALERT)
    a.j(NE, bad[RECORD_TYPE])
    a.cmp(tls.state, TlsState.WAIT_EXTENSIONS)
    a.j(NE, bad[RECORD_TYPE])
    a.place(plain)
    a.lea(ECX, mem8(RAX, -RecordType.ALERT, ref=RECORD_IN))
    a.cmp(ECX, RecordType.HANDSHAKE - RecordType.ALERT)
    a.j(A, bad[RECORD_TYPE])
    a.cmp(size, CONTENT_MAX)
    a.j(A, bad[RECORD_OVERFLOW])
    a.jmp(whole)
    a.place(sealed)
    a.cmp(size, CIPHERTEXT_MAX)
    a.j(A, bad[RECORD_OVERFLOW])
    a.cmp(size, TAG_BYTES + 1)
    a.j(B, bad[BAD_RECORD_MAC])

    a.place(whole)
    a.lea(ECX, mem8(R14, RECORD_HEADER_BYTES, index=R13, ref=RECORD_IN))
    a.cmp(ECX, RING_BYTES)
    a.j(A, bad[RECORD_NO_ROOM])
    a.mov(at, ECX)
    a.call(tcp_readable)
    a.cmp(ECX, at)
    a.j(B, none)
    a.lea(RSI, mem8(record, RECORD_HEADER_BYTES, ref=RECORD_IN))
    a.lea(at, mem8(R13, RECORD_HEADER_BYTES, ref=RECORD_IN))
    a.movzx(kind, mem8(record, ref=RECORD_IN))
    a.cmp(kind, RecordType.CHANGE_CIPHER_SPEC)
    with a.if_(E):
        a.cmp(mem8(RSI, ref=RECORD_IN), 1)
        a.j(NE, bad[CHANGE_CIPHER_SPEC])
        a.jmp(out)
    a.cmp(kind, RecordType.APPLICATION_DATA)
    a.j(NE, judge)

    a.lea(EDX, mem8(R13, -TAG_BYTES, ref=RECORD_IN))
    a.call(tls_open)
    a.j(C, bad[BAD_RECORD_MAC])
    a.sub(size, TAG_BYTES)
    a.cmp(size, CONTENT_MAX + 1)
    a.j(A, bad[RECORD_OVERFLOW])
    # Padding is zeros behind the type (RFC 8446 5.4).
    a.lea(RSI, mem8(record, RECORD_HEADER_BYTES, ref=RECORD_IN))
    with a.loop() as padding:
        a.sub(size, 1)
        a.j(B, bad[RECORD_EMPTY])
        a.movzx(kind, mem8(RSI, index=R13, ref=RECORD_IN))
        a.test(kind, kind)
        a.again(Z, padding)
    a.cmp(kind, RecordType.APPLICATION_DATA)
    with a.if_(E):
        a.cmp(tls.state, TlsState.CONNECTED)
        a.j(NE, bad[RECORD_TYPE])
        a.jmp(out)

    a.place(judge)
    a.test(size, size)
    a.j(Z, bad[RECORD_EMPTY])
    a.cmp(kind, RecordType.HANDSHAKE)
    with a.if_(NE):
        a.cmp(kind, RecordType.ALERT)
        a.j(NE, bad[RECORD_TYPE])
        a.cmp(size, ALERT_BYTES)
        a.j(NE, bad[ALERT_FORM])
    a.place(out)
    a.mov(ECX, size)
    a.mov(EDX, at)
    a.clc()
    a.ret()
    bad.emit(failed)
    a.place(failed)
    a.call(tls_fail)
    a.place(none)
    a.xor(EAX, EAX)
    a.xor(ESI, ESI)
    a.xor(ECX, ECX)
    a.xor(EDX, EDX)
    a.stc()
    a.ret()
