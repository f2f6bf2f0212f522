"""READY: what of it is believed, and where a Resume will go."""

from firmware.abi import CALLER_SAVED
from firmware.gateway.fail import gateway_violate
from firmware.gateway.host import gateway_host_allowed
from firmware.gateway.profile import profile_table
from firmware.gateway.url import CHARS, ID_CHAR, URL, WEB_SOCKET, url_authority, url_scheme
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.gateway import (
    READY_SESSION,
    READY_SHARD,
    GatewayContext,
    GatewayState,
    UrlFault,
)
from firmware.layouts.json import RESUME_URL_MAX, USER_ID_MAX, JsonField, JsonKind, JsonParser
from firmware.layouts.log import GATEWAY_URL
from firmware.layouts.profile import ProfileTable
from firmware.layouts.shard import SSES_VALID, Session, ShardContext, ShardFlag
from firmware.limits import SESSION_ID_MAX
from firmware.log import log, log_write
from toolchain.asm import (
    EAX,
    ECX,
    EDX,
    NZ,
    R8,
    R8D,
    R9,
    R9D,
    R12,
    R13,
    R13D,
    R14,
    R14D,
    R14W,
    R15,
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
    Mem8,
    Mem32,
    Out,
    mem8,
    routine,
)


def kind(shard: ShardContext, field: JsonField) -> Mem8[int]:
    """Return the kind of a kept value."""
    return shard.gateway.parser.kinds.m8(field)


def value(shard: ShardContext, field: JsonField) -> Mem32[int]:
    """Return the integer, or the length of the text, of a kept value."""
    return shard.gateway.parser.values.m32(4 * field)


@routine(
    inputs=[In(RBX, ShardContext, "the shard; session_ptr is set")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.session_ptr,
        ShardContext.profile,
        ProfileTable.names_resume_host,
        JsonParser.kinds,
        JsonParser.values,
        JsonParser.resume_url,
        URL,
    ],
    writes=[Session.resume_host, Session.resume_host_len, Session.resume_port],
    calls=[url_scheme, url_authority, gateway_host_allowed, log_write],
    saves=[R12, R13, R14, R15],
    source="firmware/docs/gateway.md#resume-url",
)
def gateway_resume_url(a: Asm, shard: ShardContext) -> None:
    """Take host and port of resume_gateway_url; one that cannot be used is ignored, loudly."""
    session = Session.at(R12)
    at, end, size, name = RSI, R8, ECX, R15
    ignored, absent = a.label("ignored"), a.label("absent")
    a.mov(R12, shard.session_ptr)
    a.mov(session.resume_host_len, 0)

    a.cmp(kind(shard, JsonField.RESUME_URL), JsonKind.STRING)
    a.jne(absent)
    a.mov(EAX, UrlFault.TOO_LONG)
    a.mov(R8D, value(shard, JsonField.RESUME_URL))
    a.cmp(R8D, RESUME_URL_MAX)
    a.j(A, ignored)
    a.lea(at, shard.gateway.parser.resume_url.address)
    a.add(end, at)
    a.mov(EAX, WEB_SOCKET)
    a.call(url_scheme)
    a.test(EAX, EAX)
    a.jnz(ignored)
    a.mov(name, at)
    a.call(url_authority)
    a.test(EAX, EAX)
    a.jnz(ignored)
    # The token goes to no other host than the gateway's own and those of its domain (I7).
    a.mov(R13D, size)
    a.mov(R14D, EDX)
    a.mov(RSI, name)
    a.call(gateway_host_allowed)
    a.mov(EAX, UrlFault.FOREIGN)
    a.j(C, ignored)
    a.mov(size, R13D)
    a.mov(session.resume_port, R14W)
    a.mov(session.resume_host_len, size)
    a.mov(RSI, name)
    a.lea(RDI, session.resume_host.address)
    a.rep_movsb()
    a.ret()

    # Where the service names none, a Resume goes where the Identify went.
    a.place(absent)
    a.mov(EAX, UrlFault.ABSENT)
    table = profile_table(a, shard, RCX, RDX)
    a.cmp(table.names_resume_host, 0)
    with a.if_(E):
        a.ret()
    a.place(ignored)
    a.mov(EDX, EAX)
    a.mov(ECX, value(shard, JsonField.RESUME_URL))
    log(a, GATEWAY_URL, RBX)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard; the parser holds READY")],
    outputs=[Out(RAX, "the bot's user id; 0 = none that is a number")],
    clobbers=[RCX, RDX, RSI, R8, R9],
    reads=[JsonParser.kinds, JsonParser.values, JsonParser.user_id, URL],
    source="firmware/docs/gateway.md#ready",
)
def gateway_user_id(a: Asm, shard: ShardContext) -> None:
    """Read the bot's own user id: a snowflake, digits of 64 bits."""
    none, left, digit = a.label("none"), ECX, R8
    a.cmp(kind(shard, JsonField.USER_ID), JsonKind.STRING)
    a.jne(none)
    a.mov(left, value(shard, JsonField.USER_ID))
    a.lea(EAX, mem8(RCX, -1, ref=URL))
    a.cmp(EAX, USER_ID_MAX)
    a.jae(none)
    a.lea(RSI, shard.gateway.parser.user_id.address)
    a.xor(EAX, EAX)
    a.mov(R9D, 10)
    with a.loop() as digits:
        a.movzx(R8D, mem8(RSI, ref=URL))
        a.sub(R8D, ord("0"))
        a.cmp(R8D, 10)
        a.jae(none)
        a.mul(R9)
        a.j(C, none)
        a.add(RAX, digit)
        a.j(C, none)
        a.inc(RSI)
        a.dec(left)
        a.again(NZ, digits)
    a.ret()
    a.place(none)
    a.xor(EAX, EAX)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard in WAIT_READY; the parser holds READY")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.shard_id,
        ShardContext.shard_total,
        ShardContext.flags,
        ConfigBlob.identify_shards,
        JsonParser.kinds,
        JsonParser.values,
        JsonParser.session_id,
        CHARS,
        URL,
    ],
    writes=[
        ShardContext.session_ptr,
        ShardContext.sequence,
        ShardContext.flags,
        ShardContext.phase_deadline,
        ShardContext.user_id,
        GatewayContext.state,
        GatewayContext.seq_acked,
        Session.session_id,
        Session.session_id_len,
        Session.unanswered_resumes,
        Session.valid,
    ],
    calls=[gateway_resume_url, gateway_user_id, gateway_violate],
    saves=[R12],
    source="firmware/docs/gateway.md#ready",
)
def gateway_ready(a: Asm, shard: ShardContext) -> None:
    """Store the session that READY describes, after checking that it is ours."""
    gateway, session = shard.gateway, Session.at(R12)
    bad_session, bad_shard, named, fail = map(
        a.label, ("bad_session", "bad_shard", "named", "fail")
    )
    size, chars = ECX, RDX

    # A shard pair that was sent with Identify has to be named in the answer (case E15).
    a.cmp(CONFIG.it.identify_shards, 0)
    a.je(named)
    a.cmp(kind(shard, JsonField.SHARD_ID), JsonKind.INTEGER)
    a.jne(bad_shard)
    a.cmp(kind(shard, JsonField.SHARD_TOTAL), JsonKind.INTEGER)
    a.jne(bad_shard)
    a.cmp(kind(shard, JsonField.SHARD_MORE), JsonKind.ABSENT)
    a.jne(bad_shard)
    a.mov(EAX, value(shard, JsonField.SHARD_ID))
    a.cmp(EAX, shard.shard_id)
    a.jne(bad_shard)
    a.mov(EAX, value(shard, JsonField.SHARD_TOTAL))
    a.cmp(EAX, shard.shard_total)
    a.jne(bad_shard)
    a.place(named)

    # The id goes back into a JSON text as it is, so it must need no escapes.
    a.cmp(kind(shard, JsonField.SESSION_ID), JsonKind.STRING)
    a.jne(bad_session)
    a.mov(size, value(shard, JsonField.SESSION_ID))
    a.lea(EAX, mem8(RCX, -1, ref=URL))
    a.cmp(EAX, SESSION_ID_MAX)
    a.jae(bad_session)
    a.lea(chars, CHARS.address)
    a.mov(R8D, size)
    with a.loop() as letters:
        a.movzx(EAX, gateway.parser.session_id.m8(-1, index=R8))
        a.test(mem8(chars, index=RAX, ref=CHARS), ID_CHAR)
        a.jz(bad_session)
        a.dec(R8D)
        a.again(NZ, letters)

    a.lea(R12, shard.session.valid)
    a.mov(shard.session_ptr, R12)
    a.mov(session.session_id_len, size)
    a.mov(session.unanswered_resumes, 0)
    a.lea(RSI, gateway.parser.session_id.address)
    a.lea(RDI, session.session_id.address)
    a.rep_movsb()
    a.call(gateway_resume_url)
    a.mov(session.valid, SSES_VALID)
    a.call(gateway_user_id)
    a.mov(shard.user_id, RAX)

    a.mov(EAX, value(shard, JsonField.S))
    a.mov(shard.sequence, EAX)
    a.mov(gateway.seq_acked, EAX)
    a.mov(EAX, shard.flags)
    a.and_(EAX, ~ShardFlag.RESUMED & 0xFFFF_FFFF)
    a.or_(EAX, ShardFlag.SEQ_VALID)
    a.mov(shard.flags, EAX)
    a.xor(EAX, EAX)
    a.mov(shard.phase_deadline, RAX)
    a.mov(gateway.state, GatewayState.READY)
    a.ret()

    a.place(bad_session)
    a.mov(R9D, READY_SESSION.code)
    a.jmp(fail)
    a.place(bad_shard)
    a.mov(R9D, READY_SHARD.code)
    a.place(fail)
    a.call(gateway_violate)
    a.ret()
