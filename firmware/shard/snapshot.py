"""A session as a snapshot: taken, judged, and made a shard's own again.

The pages that a warm reset keeps and the provider's store hold the same snapshot, so one routine
judges both.
"""

from firmware.abi import CALLER_SAVED
from firmware.gateway.host import gateway_host_allowed
from firmware.gateway.url import CHARS, HOST_CHAR, ID_CHAR
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.gateway import UrlFault
from firmware.layouts.log import GATEWAY_URL, SESSION_IGNORED, SESSION_RESTORED
from firmware.layouts.node import PLAN, Plan
from firmware.layouts.policy import SessionProvider
from firmware.layouts.sessions import (
    AGE_MAX_MS,
    FUTURE_MAX_MS,
    HANDED_OVER,
    SESSION_KEPT_BYTES,
    SESSIONS,
    SNAPSHOT_MAGIC,
    SessionProblem,
    Sessions,
    SessionSnapshot,
)
from firmware.layouts.shard import SSES_VALID, Session, SessionLoad, ShardContext, ShardFlag
from firmware.limits import RESUME_HOST_MAX, SESSION_ID_MAX
from firmware.log import log, log_write
from firmware.shard.identity import QUADS, session_identity
from firmware.websocket.request import ws_build_request
from toolchain.asm import (
    AE,
    AL,
    CF,
    EAX,
    ECX,
    EDX,
    NC,
    NE,
    NZ,
    R8,
    R8D,
    R12,
    R13,
    R13D,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    C,
    E,
    In,
    Label,
    Mem8,
    Out,
    Reg32,
    Reg64,
    Z,
    mem8,
    routine,
)

SESSION_AT = SessionSnapshot.session.offset


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(RDI, SessionSnapshot, "where the snapshot goes"),
        In(EDX, int, "the sequence that a Resume shall name"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.shard_id,
        ShardContext.shard_total,
        ShardContext.profile,
        Session,
        Plan.generation,
        Sessions.bot,
        Sessions.endpoint,
    ],
    writes=[SessionSnapshot],
    calls=[session_identity],
    saves=[R12, R13],
    source="firmware/docs/lifecycle.md#session-snapshots",
)
def snapshot_take(a: Asm, shard: ShardContext, snapshot: SessionSnapshot, sequence: Reg32) -> None:
    """Write down the session and whose it is."""
    kept = SessionSnapshot.at(R12)
    a.mov(R12, RDI)
    a.mov(R13D, sequence)
    a.call(session_identity)
    a.mov(kept.magic, SNAPSHOT_MAGIC)
    a.mov(kept.sequence, R13D)
    for source, target in (
        (shard.shard_id, kept.shard_id),
        (shard.shard_total, kept.shard_total),
        (PLAN.it.generation, kept.plan_generation),
    ):  # fmt: skip - three values, unrolled
        a.mov(EAX, source)
        a.mov(target, EAX)
    a.mov(AL, shard.profile)
    a.mov(kept.profile, AL)
    for at in QUADS:  # unrolled: two quadwords of each digest
        a.mov(RAX, SESSIONS.it.endpoint.m64(at))
        a.mov(kept.endpoint.m64(at), RAX)
        a.mov(RAX, SESSIONS.it.bot.m64(at))
        a.mov(kept.bot.m64(at), RAX)
    a.lea(RSI, shard.session.valid)
    a.lea(RDI, kept.session.m8())
    a.mov(ECX, SESSION_KEPT_BYTES // 8)
    a.rep_movsq()
    a.ret()


def _letters(a: Asm, text: Mem8[int], bit: int, bad: Label) -> None:
    """Go to `bad` unless each of the ECX > 0 letters of a text is of the kind `bit` in CHARS at RDI."""
    a.lea(RSI, text)
    with a.loop() as each:
        a.movzx(R8D, mem8(RSI, -1, index=RCX, ref=CHARS))
        a.test(mem8(RDI, index=R8, ref=CHARS), bit)
        a.j(Z, bad)
        a.dec(ECX)
        a.again(NZ, each)


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard that would take it over"),
        In(RSI, SessionSnapshot, "the snapshot"),
        In(RDX, int, "its age in milliseconds, signed"),
    ],
    outputs=[Out(EAX, "SessionProblem; 0 = fine")],
    clobbers=CALLER_SAVED,
    reads=[
        SessionSnapshot,
        Session,
        CHARS,
        ShardContext.shard_id,
        ShardContext.shard_total,
        ShardContext.profile,
        Plan.generation,
        Sessions.bot,
        Sessions.endpoint,
    ],
    calls=[session_identity],
    saves=[R12, R13],
    source="firmware/docs/lifecycle.md#session-snapshots",
)
def snapshot_problem(a: Asm, shard: ShardContext, snapshot: SessionSnapshot, age: Reg64) -> None:
    """Judge a snapshot: form, age, endpoint, plan, bot, generation; the first problem counts."""
    kept, session = SessionSnapshot.at(R12), Session.at(R12, SESSION_AT)
    bad, dated = a.label("bad"), a.label("dated")
    a.mov(R12, RSI)
    a.mov(R13, age)

    a.mov(EAX, SessionProblem.MALFORMED)
    a.cmp(kept.magic, SNAPSHOT_MAGIC)
    a.j(NE, bad)
    a.cmp(session.valid, SSES_VALID)
    a.j(NE, bad)
    a.mov(ECX, session.session_id_len)
    a.lea(EDX, mem8(RCX, -1, ref=CHARS))
    a.cmp(EDX, SESSION_ID_MAX)
    a.j(AE, bad)
    a.lea(RDI, CHARS.address)
    _letters(a, session.session_id.m8(), ID_CHAR, bad)
    a.mov(ECX, session.resume_host_len)
    a.test(ECX, ECX)
    with a.if_(NZ):
        a.cmp(ECX, RESUME_HOST_MAX)
        a.j(A, bad)
        a.cmp(session.resume_port, 0)
        a.j(E, bad)
        _letters(a, session.resume_host.m8(), HOST_CHAR, bad)

    # One unsigned comparison holds the age against both ends of its window.
    a.lea(RCX, Session.at(R13, FUTURE_MAX_MS).valid)
    a.cmp(RCX, AGE_MAX_MS + FUTURE_MAX_MS)
    a.j(B, dated)
    a.shr(R13, 63)
    a.lea(EAX, Session.at(R13, SessionProblem.TOO_OLD).valid)  # the next problem when negative
    a.place(bad)
    a.ret()

    a.place(dated)
    a.call(session_identity)
    with a.if_(NC):
        # While the gateway is not discovered the attempt looks at this later.
        a.mov(EAX, SessionProblem.ANOTHER_ENDPOINT)
        for at in QUADS:  # unrolled: two quadwords
            a.mov(RCX, kept.endpoint.m64(at))
            a.cmp(RCX, SESSIONS.it.endpoint.m64(at))
            a.j(NE, bad)
    a.mov(EAX, SessionProblem.ANOTHER_ENDPOINT)
    a.movzx(ECX, kept.profile)
    a.movzx(EDX, shard.profile)
    a.cmp(ECX, EDX)
    a.j(NE, bad)
    a.mov(EAX, SessionProblem.ANOTHER_PLAN)
    for mine, its in ((shard.shard_id, kept.shard_id), (shard.shard_total, kept.shard_total)):
        # two values, unrolled
        a.mov(ECX, its)
        a.cmp(ECX, mine)
        a.j(NE, bad)
    a.mov(EAX, SessionProblem.ANOTHER_BOT)
    for at in QUADS:  # unrolled: two quadwords
        a.mov(RCX, kept.bot.m64(at))
        a.cmp(RCX, SESSIONS.it.bot.m64(at))
        a.j(NE, bad)
    a.mov(EAX, SessionProblem.ANOTHER_GENERATION)
    a.mov(ECX, kept.plan_generation)
    a.cmp(ECX, HANDED_OVER)
    with a.if_(NE):
        a.cmp(ECX, PLAN.it.generation)
        a.j(NE, bad)
    a.xor(EAX, EAX)
    a.ret()


def restored(a: Asm, shard: ShardContext) -> None:
    """Let the first try of a shard that has not started be a Resume from the sequence in EAX."""
    a.mov(shard.sequence, EAX)
    a.mov(shard.gap_from, EAX)
    a.or_(shard.flags, ShardFlag.SEQ_VALID | ShardFlag.RESTORED)
    a.mov(shard.load, SessionLoad.SETTLED)


@routine(
    inputs=[
        In(RBX, ShardContext, "a shard that has not started"),
        In(RSI, SessionSnapshot, "a snapshot without a problem"),
        In(RDX, int, "its age in milliseconds, signed"),
    ],
    clobbers=CALLER_SAVED,
    reads=[SessionSnapshot, ShardContext.flags],
    writes=[
        ShardContext.sequence,
        ShardContext.flags,
        ShardContext.gap_from,
        ShardContext.load,
        ShardContext.restored_endpoint,
        Session,
    ],
    calls=[log_write],
    source="firmware/docs/lifecycle.md#session-snapshots",
)
def snapshot_restore(a: Asm, shard: ShardContext, snapshot: SessionSnapshot, age: Reg64) -> None:
    """Make the session the shard's own: its first try is a Resume."""
    a.mov(EAX, snapshot.sequence)
    restored(a, shard)
    for at in QUADS:  # unrolled: two quadwords
        a.mov(RAX, snapshot.endpoint.m64(at))
        a.mov(shard.restored_endpoint.m64(at), RAX)
    a.lea(RSI, snapshot.session.m8())
    a.lea(RDI, shard.session.valid)
    a.mov(ECX, SESSION_KEPT_BYTES // 8)
    a.rep_movsq()
    # A clock that went back makes it no younger than new.
    a.mov(RAX, age)
    a.shr(RAX, 63)
    a.dec(RAX)
    a.and_(RDX, RAX)
    log(a, SESSION_RESTORED, RBX)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard that would resume a restored session")],
    outputs=[Out(CF, "1 = the session is dropped")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.restored_endpoint,
        ShardContext.sequence,
        ShardContext.flags,
        Sessions.endpoint,
        Session.resume_host_len,
        ConfigBlob.session_provider,
    ],
    writes=[ShardContext.flags, Session.valid, Session.resume_host_len],
    calls=[session_identity, gateway_host_allowed, ws_build_request, log_write],
    source="firmware/docs/lifecycle.md#session-snapshots",
)
def session_confirm(a: Asm, shard: ShardContext) -> None:
    """Drop a restored session of another gateway than discovery found, and a foreign resume host."""
    another, ours = a.label("another"), a.label("ours")
    # The store of a fleet is that of one bot at one service.
    a.cmp(CONFIG.it.session_provider, SessionProvider.BUS)
    a.j(E, ours)
    a.call(session_identity)
    with a.if_(NC):
        for at in QUADS:  # unrolled: two quadwords
            a.mov(RAX, shard.restored_endpoint.m64(at))
            a.cmp(RAX, SESSIONS.it.endpoint.m64(at))
            a.j(NE, another)
    a.place(ours)
    # Its resume host comes from outside: the token goes there under the same rule as READY's (I7).
    a.lea(RSI, shard.session.resume_host.address)
    a.mov(ECX, shard.session.resume_host_len)
    a.test(ECX, ECX)
    with a.if_(NZ):
        a.call(gateway_host_allowed)
        with a.if_(C):
            a.mov(EDX, UrlFault.FOREIGN)
            a.mov(ECX, shard.session.resume_host_len)
            a.mov(shard.session.resume_host_len, 0)
            log(a, GATEWAY_URL, RBX)
            a.call(ws_build_request)
    a.clc()
    a.ret()
    a.place(another)
    a.xor(EAX, EAX)
    a.mov(shard.session.valid, EAX)
    a.mov(shard.session.resume_host_len, EAX)
    a.and_(shard.flags, ~(ShardFlag.SEQ_VALID | ShardFlag.RESTORED) & 0xFFFF_FFFF)
    a.mov(EDX, SessionProblem.ANOTHER_ENDPOINT)
    a.mov(ECX, shard.sequence)
    log(a, SESSION_IGNORED, RBX)
    a.stc()
    a.ret()
