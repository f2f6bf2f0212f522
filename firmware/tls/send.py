"""Records of ours: reserved behind their header, filled by the caller, sealed in place (RFC 8446 5)."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import TcpContext
from firmware.layouts.tls import (
    FIRST_VERSION,
    LEGACY_VERSION,
    RECORD_COST,
    RECORD_HEADER_BYTES,
    RECORD_OUT,
    TAG_BYTES,
    HandshakeType,
    RecordType,
    TlsContext,
    TlsDirection,
    TlsFlag,
    TlsState,
)
from firmware.layouts.tls_sites import Alert
from firmware.tcp.reliable import tcp_commit, tcp_reserve
from firmware.tls.protect import tls_next_secret, tls_seal
from toolchain.asm import (
    AL,
    AX,
    CF,
    CX,
    EAX,
    ECX,
    EDI,
    EDX,
    NZ,
    R12,
    R12B,
    R12D,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    C,
    E,
    In,
    Out,
    Reg32,
    mem8,
    mem16,
    mem32,
    routine,
)

WARNING, FATAL = 1, 2
"""RFC 8446 6: AlertLevel."""
KEY_UPDATE_MESSAGE = bytes((HandshakeType.KEY_UPDATE, 0, 0, 1, 0))
"""KeyUpdate with update_not_requested (RFC 8446 4.6.3)."""
CCS_RECORD = bytes((RecordType.CHANGE_CIPHER_SPEC, 3, 3, 0, 1, 1))


def _version(value: int) -> int:
    """Return a version as a word in memory."""
    return int.from_bytes(value.to_bytes(2, "big"), "little")


@routine(
    inputs=[In(RBX, ShardContext, "the shard"), In(ECX, int, "bytes of the content, at most 2^14")],
    outputs=[Out(RDI, "where the content goes"), Out(CF, "1 = no room now")],
    clobbers=[RAX, RCX, RDX, RSI],
    calls=[tcp_reserve],
    source="RFC 8446 5.1 and 5.2",
)
def tls_reserve_record(a: Asm, shard: ShardContext, length: Reg32) -> None:
    """Reserve one record; nothing is sent before `tls_commit_record`."""
    full = a.label("full")
    a.add(length, RECORD_COST)
    a.call(tcp_reserve)
    a.j(C, full)
    a.add(RDI, RECORD_HEADER_BYTES)
    a.clc()
    a.place(full)
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(EAX, int, "RecordType of the content"),
        In(ECX, int, "bytes of the content, at most as reserved"),
    ],
    clobbers=CALLER_SAVED,
    reads=[ShardContext.tx_base, TcpContext.tx_end, TlsContext.flags, TlsContext.state],
    writes=[RECORD_OUT],
    calls=[tls_seal, tcp_commit],
    saves=[R12],
    source="RFC 8446 5.1 and 5.2",
)
def tls_commit_record(a: Asm, shard: ShardContext, kind: Reg32, length: Reg32) -> None:
    """Write the header, seal when we write with keys, hand the record to TCP."""
    a.mov(EDI, shard.tcp.tx_end)
    a.add(RDI, shard.tx_base)
    a.mov(R12D, length)
    a.test(shard.tls.flags, TlsFlag.SEALING)
    with a.if_(NZ):
        a.mov(mem8(RDI, ref=RECORD_OUT), RecordType.APPLICATION_DATA)
        a.mov(mem16(RDI, 1, ref=RECORD_OUT), _version(LEGACY_VERSION))
        # The type stands behind the content; both are sealed.
        a.mov(mem8(RDI, RECORD_HEADER_BYTES, index=R12, ref=RECORD_OUT), AL)
        a.lea(EDX, mem8(R12, 1, ref=RECORD_OUT))
        a.lea(ECX, mem8(R12, 1 + TAG_BYTES, ref=RECORD_OUT))
        a.rol(CX, 8)
        a.mov(mem16(RDI, 3, ref=RECORD_OUT), CX)
        a.lea(RSI, mem8(RDI, RECORD_HEADER_BYTES, ref=RECORD_OUT))
        a.call(tls_seal)
        a.lea(ECX, mem8(R12, RECORD_COST, ref=RECORD_OUT))
        a.jmp(tcp_commit)
    a.mov(mem8(RDI, ref=RECORD_OUT), AL)
    # RFC 8446 5.1: the first ClientHello names the oldest version, for the sake of old servers.
    a.mov(EAX, _version(LEGACY_VERSION))
    a.cmp(shard.tls.state, TlsState.IDLE)
    with a.if_(E):
        a.mov(EAX, _version(FIRST_VERSION))
    a.mov(mem16(RDI, 1, ref=RECORD_OUT), AX)
    a.mov(ECX, R12D)
    a.rol(CX, 8)
    a.mov(mem16(RDI, 3, ref=RECORD_OUT), CX)
    a.lea(ECX, mem8(R12, RECORD_HEADER_BYTES, ref=RECORD_OUT))
    a.jmp(tcp_commit)


@routine(
    inputs=[In(RBX, ShardContext, "the shard"), In(EDX, int, "Alert")],
    outputs=[Out(CF, "1 = no room now")],
    clobbers=CALLER_SAVED,
    writes=[RECORD_OUT],
    calls=[tls_reserve_record, tls_commit_record],
    saves=[R12],
    source="RFC 8446 6",
)
def tls_alert(a: Asm, shard: ShardContext, alert: Reg32) -> None:
    """Tell the server why we end; without room it is told nothing."""
    full = a.label("full")
    a.mov(R12D, alert)
    a.mov(ECX, 2)
    a.call(tls_reserve_record)
    a.j(C, full)
    a.mov(AL, FATAL)
    a.cmp(R12D, Alert.CLOSE_NOTIFY)
    with a.if_(E):
        a.mov(AL, WARNING)
    a.mov(mem8(RDI, ref=RECORD_OUT), AL)
    a.mov(mem8(RDI, 1, ref=RECORD_OUT), R12B)
    a.mov(EAX, RecordType.ALERT)
    a.mov(ECX, 2)
    a.call(tls_commit_record)
    a.clc()
    a.place(full)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    outputs=[Out(CF, "1 = no room now")],
    clobbers=[RAX, RCX, RDX, RSI, RDI],
    reads=[TlsContext.flags],
    writes=[TlsContext.flags, RECORD_OUT],
    calls=[tcp_reserve, tcp_commit],
    source="RFC 8446 D.4",
)
def tls_change_cipher_spec(a: Asm, shard: ShardContext) -> None:
    """Send the record that middleboxes wait for, once and never sealed."""
    full = a.label("full")
    a.test(shard.tls.flags, TlsFlag.CCS_SENT)  # CF = 0
    a.j(NZ, full)
    a.mov(ECX, len(CCS_RECORD))
    a.call(tcp_reserve)
    a.j(C, full)
    a.mov(mem32(RDI, ref=RECORD_OUT), int.from_bytes(CCS_RECORD[:4], "little"))
    a.mov(mem16(RDI, 4, ref=RECORD_OUT), int.from_bytes(CCS_RECORD[4:], "little"))
    a.or_(shard.tls.flags, TlsFlag.CCS_SENT)
    a.mov(ECX, len(CCS_RECORD))
    a.call(tcp_commit)
    a.clc()
    a.place(full)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a CONNECTED shard")],
    outputs=[Out(CF, "1 = no room now")],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.flags],
    writes=[TlsContext.flags, RECORD_OUT],
    calls=[tls_reserve_record, tls_commit_record, tls_next_secret],
    source="RFC 8446 4.6.3",
)
def tls_update_keys(a: Asm, shard: ShardContext) -> None:
    """Send KeyUpdate, and write with new keys from then on."""
    full = a.label("full")
    a.mov(ECX, len(KEY_UPDATE_MESSAGE))
    a.call(tls_reserve_record)
    a.j(C, full)
    a.mov(mem32(RDI, ref=RECORD_OUT), int.from_bytes(KEY_UPDATE_MESSAGE[:4], "little"))
    a.mov(mem8(RDI, 4, ref=RECORD_OUT), KEY_UPDATE_MESSAGE[4])
    a.mov(EAX, RecordType.HANDSHAKE)
    a.mov(ECX, len(KEY_UPDATE_MESSAGE))
    a.call(tls_commit_record)
    a.lea(RDI, shard.tls_keys.send.secret.m8(-TlsDirection.secret.offset))
    a.call(tls_next_secret)
    a.and_(shard.tls.flags, ~TlsFlag.KEY_UPDATE_OWED & 0xFFFF_FFFF)
    a.place(full)
    a.ret()
