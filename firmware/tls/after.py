"""Messages behind the handshake: tickets are read and forgotten, keys are updated (RFC 8446 4.6).

They have no buffer: whatever record or segment their bytes come in, a few fields know where they are.
"""

from firmware.abi import CALLER_SAVED
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import (
    HANDSHAKE_HEADER_BYTES,
    MEANINGLESS_MAX,
    RECORD_IN,
    Action,
    HandshakeType,
    RecordType,
    TlsContext,
    TlsDirection,
    TlsFlag,
    TlsState,
)
from firmware.layouts.tls_sites import (
    KEY_CHANGE,
    KEY_UPDATE,
    MESSAGE,
    MESSAGE_FORM,
    RECORD_FLOOD,
)
from firmware.tls.fail import tls_fail
from firmware.tls.moves import tls_find_move
from firmware.tls.protect import tls_next_secret
from firmware.tls.refuse import Refusals
from toolchain.asm import (
    AE,
    AL,
    CL,
    EAX,
    ECX,
    EDX,
    NE,
    NZ,
    R8D,
    R12,
    R13,
    R13D,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    E,
    In,
    Reg32,
    Reg64,
    Z,
    mem8,
    routine,
)

FIXED, NONCE_LENGTH, NONCE, TICKET_LENGTH, TICKET_LENGTH_2 = range(5)
TICKET, EXTENSIONS_LENGTH, EXTENSIONS_LENGTH_2, EXTENSIONS, END = range(5, 10)
"""Fields of NewSessionTicket (RFC 8446 4.6.1); the two-byte lengths are two fields each."""
FIXED_BYTES = 8
"""Lifetime and age_add."""
LENGTHS = sum(
    1 << field
    for field in (
        NONCE_LENGTH, TICKET_LENGTH, TICKET_LENGTH_2, EXTENSIONS_LENGTH, EXTENSIONS_LENGTH_2,
    )
)  # fmt: skip
SKIPPED = 1 << NONCE | 1 << TICKET | 1 << EXTENSIONS
"""Fields that may be empty, by what their length says."""


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard, within a NewSessionTicket"),
        In(EAX, int, "its next byte; `message_left` counts what comes behind it"),
    ],
    clobbers=[RCX, RDX, R8D],
    reads=[TlsContext.field, TlsContext.field_left, TlsContext.message_left],
    writes=[TlsContext.field, TlsContext.field_left],
    source="RFC 8446 4.6.1",
)
def tls_ticket_byte(a: Asm, shard: ShardContext, byte: Reg32) -> None:
    """Follow the fields of a ticket; one whose lengths do not add up never reaches END."""
    tls, field, left, lengths = shard.tls, ECX, EDX, R8D
    skip, store, onward, out = map(a.label, ("skip", "store", "onward", "out"))
    a.movzx(field, tls.field)
    a.mov(left, tls.field_left)
    a.mov(lengths, LENGTHS)
    a.bt(lengths, field)
    a.j(AE, skip)
    a.shl(left, 8)
    a.or_(left, byte)
    a.inc(field)
    with a.block() as judged:
        a.cmp(field, TICKET)
        with a.if_(E):
            # A ticket has at least one byte.
            a.test(left, left)
            a.leave(NE, judged)
            a.mov(field, END + 1)
            a.jmp(store)
        a.cmp(field, EXTENSIONS)
        a.leave(NE, judged)
        a.cmp(left, tls.message_left)
        a.leave(E, judged)
        a.mov(field, END + 1)
        a.jmp(store)
    # An empty field is over before its first byte.
    a.mov(lengths, SKIPPED)
    a.bt(lengths, field)
    a.j(AE, store)
    a.jmp(onward)
    a.place(skip)
    a.cmp(field, END)
    a.j(AE, out)
    a.dec(left)
    a.place(onward)
    a.test(left, left)
    with a.if_(Z):
        a.inc(field)
    a.place(store)
    a.mov(tls.field, CL)
    a.mov(tls.field_left, left)
    a.place(out)
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "a CONNECTED shard"),
        In(RSI, int, "content of a handshake record"),
        In(ECX, int, "its bytes; at least one"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        RECORD_IN,
        TlsContext.message_have,
        TlsContext.message_left,
        TlsContext.message_type,
        TlsContext.field,
        TlsContext.key_updates,
        TlsContext.flags,
    ],
    writes=[
        TlsContext.message_have,
        TlsContext.message_left,
        TlsContext.message_type,
        TlsContext.field,
        TlsContext.field_left,
        TlsContext.key_updates,
        TlsContext.flags,
    ],
    calls=[tls_find_move, tls_ticket_byte, tls_next_secret, tls_fail],
    saves=[R12, R13],
    source="RFC 8446 4.6; firmware/docs/tls.md#after-the-handshake",
)
def tls_take_after(a: Asm, shard: ShardContext, content: Reg64, length: Reg32) -> None:
    """Take what a record carries of messages behind the handshake."""
    tls, at, left, kind = shard.tls, R12, R13D, EDX
    bad = Refusals(
        a,
        (MESSAGE, MESSAGE_FORM),
        {KEY_CHANGE: HandshakeType.KEY_UPDATE, RECORD_FLOOD: RecordType.HANDSHAKE},
    )
    failed, out, body, update, form = map(a.label, ("failed", "out", "body", "update", "form"))
    a.mov(at, content)
    a.mov(left, length)
    with a.loop() as each:
        a.sub(left, 1)
        a.j(B, out)
        a.movzx(EAX, mem8(at, ref=RECORD_IN))
        a.inc(at)
        a.cmp(tls.message_have, HANDSHAKE_HEADER_BYTES)
        a.j(E, body)

        # The header: type, then three bytes of length.
        a.inc(tls.message_have)
        a.cmp(tls.message_have, 1)
        with a.if_(E):
            a.mov(tls.message_type, AL)
            a.mov(tls.message_left, 0)
            a.jmp(each.top)
        a.mov(ECX, tls.message_left)
        a.shl(ECX, 8)
        a.or_(ECX, EAX)
        a.mov(tls.message_left, ECX)
        a.cmp(tls.message_have, HANDSHAKE_HEADER_BYTES)
        a.again(NE, each)
        a.movzx(kind, tls.message_type)
        a.mov(EAX, TlsState.CONNECTED)
        a.call(tls_find_move)
        a.cmp(EAX, Action.KEY_UPDATE)
        with a.if_(E):
            a.mov(EAX, HandshakeType.KEY_UPDATE)
            a.cmp(tls.message_left, 1)
            a.j(NE, bad[MESSAGE_FORM])
            a.jmp(each.top)
        a.cmp(EAX, Action.TICKET)
        with a.if_(NE):
            a.movzx(EAX, tls.message_type)
            a.or_(EAX, TlsState.CONNECTED << 8)
            a.jmp(bad[MESSAGE])
        a.mov(tls.field, FIXED)
        a.mov(tls.field_left, FIXED_BYTES)
        a.cmp(tls.message_left, 0)
        a.again(NE, each)
        a.place(form)
        a.mov(EAX, HandshakeType.NEW_SESSION_TICKET)
        a.jmp(bad[MESSAGE_FORM])

        a.place(body)
        a.dec(tls.message_left)
        a.cmp(tls.message_type, HandshakeType.KEY_UPDATE)
        a.j(E, update)
        a.call(tls_ticket_byte)
        a.cmp(tls.message_left, 0)
        a.again(NE, each)
        a.cmp(tls.field, END)
        a.j(NE, form)
        a.mov(tls.message_have, 0)
        a.jmp(each.top)
    # KeyUpdate: everything behind it is under the next key, so its record ends with it.
    a.place(update)
    a.cmp(EAX, 1)
    a.j(A, bad[KEY_UPDATE])
    a.test(left, left)
    a.j(NZ, bad[KEY_CHANGE])
    a.cmp(tls.key_updates, MEANINGLESS_MAX)
    a.j(AE, bad[RECORD_FLOOD])
    a.inc(tls.key_updates)
    a.mov(tls.message_have, 0)
    a.test(EAX, EAX)
    with a.if_(NZ):
        a.or_(tls.flags, TlsFlag.KEY_UPDATE_OWED)
    a.lea(RDI, shard.tls_keys.receive.secret.m8(-TlsDirection.secret.offset))
    a.call(tls_next_secret)
    a.jmp(out)
    bad.emit(failed)
    a.place(failed)
    a.call(tls_fail)
    a.place(out)
    a.ret()
