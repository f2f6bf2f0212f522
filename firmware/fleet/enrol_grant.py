"""What is released to a node: opened, judged, taken; or refused, counted and waited for again."""

from __future__ import annotations

from firmware.abi import CALLER_SAVED
from firmware.crypto.hpke import hpke_open
from firmware.errors import Site
from firmware.layouts.bus import BUS, BUS_IN, Bus, BusMessage
from firmware.layouts.credentials import CREDENTIALS, Credentials
from firmware.layouts.enrol import (
    ENROL,
    ENROL_GRANT,
    ENROL_LENGTH,
    ENROL_LOGIN,
    ENROL_SEAL,
    ENROL_TOKEN,
    GRANT_MAGIC,
    NO_RESPONDERS,
    SEALED_BYTES,
    UNHEARD_COUNTS,
    Enrol,
    EnrolState,
    Grant,
)
from firmware.layouts.fleet_config import CREDENTIAL_MAX, BusAuth
from firmware.layouts.hpke import HPKE_ENC_BYTES
from firmware.layouts.log import ENROL_DONE, ENROL_REFUSED
from firmware.layouts.text import TEXT_IN
from firmware.layouts.token import TOKEN, BotToken
from firmware.layouts.x25519 import X25519_BYTES
from firmware.limits import TOKEN_MAX
from firmware.log import log, log_write
from toolchain.asm import (
    AE,
    CF,
    DL,
    EAX,
    ECX,
    EDX,
    NE,
    NZ,
    R8D,
    R9,
    R10D,
    R12,
    R12D,
    RAX,
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
    Reg32,
    mem8,
    routine,
)

DETAIL_MAX = 0xFFFF


@routine(
    inputs=[In(EDX, int, "why: layer << 24 | site << 16 | detail")],
    clobbers=CALLER_SAVED,
    reads=[Enrol.refused],
    writes=[Enrol.refused, Enrol.error],
    calls=[log_write],
    source="firmware/docs/enrol.md#refusals",
)
def enrol_refuse(a: Asm, error: Reg32) -> None:
    """Count an answer that is no grant of this boot; the first, second, fourth, eighth, ... is told."""
    a.mov(ENROL.it.error, error)
    a.mov(ECX, ENROL.it.refused)
    a.mov(EAX, ECX)
    a.inc(ECX)
    a.mov(ENROL.it.refused, ECX)
    a.test(EAX, ECX)
    with a.if_(NZ):
        a.ret()
    a.shr(error, 16)
    a.movzx(EDX, DL)
    log(a, ENROL_REFUSED)
    a.ret()


@routine(
    inputs=[In(RSI, Grant, "a grant that was sealed for this boot")],
    outputs=[Out(EAX, "an error; 0 = it can be taken")],
    clobbers=[RCX],
    reads=[
        Grant.magic, Grant.token_len, Credentials.auth, Credentials.user_len,
        Credentials.password_len,
    ],
    source="firmware/docs/enrol.md#grant",
)  # fmt: skip
def grant_judge(a: Asm, grant: Grant) -> None:
    """Bound every length of a grant, whoever sealed it."""
    length, bad_login = ECX, a.label("bad_login")
    a.mov(EAX, ENROL_GRANT.code)
    a.cmp(grant.magic, GRANT_MAGIC)
    with a.if_(NE):
        a.ret()
    a.mov(length, grant.token_len)
    a.lea(EAX, mem8(RCX, -1, ref=TEXT_IN))
    a.cmp(EAX, TOKEN_MAX)
    with a.if_(AE):
        _detail(a, ENROL_TOKEN)
        a.ret()
    a.cmp(grant.login.auth, max(BusAuth))
    a.j(A, bad_login)
    for size in (grant.login.user_len, grant.login.password_len):  # unrolled: two names
        a.cmp(size, CREDENTIAL_MAX)
        a.j(A, bad_login)
    a.xor(EAX, EAX)
    a.ret()
    a.place(bad_login)
    a.mov(EAX, ENROL_LOGIN.code)
    a.ret()


def _detail(a: Asm, site: Site) -> None:
    """EAX := the error of a site with a length in ECX as detail, which has two bytes. ECX changes."""
    a.mov(EAX, DETAIL_MAX)
    a.cmp(ECX, EAX)
    a.cmov(A, ECX, EAX)
    a.lea(EAX, mem8(RCX, site.code, ref=TEXT_IN))


@routine(
    clobbers=CALLER_SAVED,
    reads=[
        BusMessage.body, Enrol.info_len, Enrol.announced, Enrol.refused, Grant.token_len,
        Credentials.auth, TEXT_IN,
    ],
    writes=[Enrol, BotToken, Credentials, Bus.enrolling],
    calls=[hpke_open, grant_judge, enrol_refuse, log_write],
    saves=[R12],
    source="firmware/docs/enrol.md#grant",
)  # fmt: skip
def enrol_take(a: Asm) -> None:
    """Open the message in hand, SEALED_BYTES long, and take what it grants; wipe what it was opened in."""
    state, grant, refused = ENROL.it, Grant.at(RSI), a.label("refused")
    a.mov(RSI, BUS_IN.it.body)
    a.lea(RDI, state.sealed.address)
    a.mov(ECX, SEALED_BYTES // 8)
    a.rep_movsq()
    a.lea(RDI, state.keys.private.address)
    a.lea(RSI, state.sealed.address)
    a.mov(ECX, SEALED_BYTES)
    a.lea(RDX, state.info.address)
    a.mov(R8D, state.info_len)
    a.mov(R9, RDX)
    a.xor(R10D, R10D)  # no additional data
    a.call(hpke_open)
    a.mov(R12D, ENROL_SEAL.code)
    a.j(C, refused)
    a.lea(RSI, state.sealed.m8(HPKE_ENC_BYTES))
    a.call(grant_judge)
    a.mov(R12D, EAX)
    a.test(EAX, EAX)
    a.j(NZ, refused)

    a.mov(EAX, grant.token_len)
    a.mov(TOKEN.it.length, EAX)
    a.mov(state.relogin, 1)
    a.mov(BUS.it.enrolling, 0)
    a.cmp(grant.login.auth, BusAuth.NONE)
    with a.if_(NE):
        a.lea(RSI, state.sealed.m8(HPKE_ENC_BYTES + Grant.login.offset))
        a.lea(RDI, CREDENTIALS.address)
        a.mov(ECX, Credentials.SIZE // 8)
        a.rep_movsq()
    a.lea(RSI, state.sealed.m8(HPKE_ENC_BYTES + Grant.token.offset))
    a.lea(RDI, TOKEN.it.text.address)
    a.mov(ECX, TOKEN_MAX // 8)
    a.rep_movsq()
    a.lea(RDI, state.keys.private.address)
    a.mov(ECX, X25519_BYTES // 8)
    a.xor(EAX, EAX)
    a.rep_stosq()
    a.mov(state.state, EnrolState.ENROLLED)
    a.mov(state.announce_at, RAX)
    a.mov(EDX, state.announced)
    a.mov(ECX, state.refused)
    log(a, ENROL_DONE)
    a.xor(R12D, R12D)

    a.place(refused)
    a.lea(RDI, state.sealed.address)
    a.mov(ECX, SEALED_BYTES // 8)
    a.xor(EAX, EAX)
    a.rep_stosq()
    a.mov(EDX, R12D)
    a.test(EDX, EDX)
    with a.if_(NZ):
        a.call(enrol_refuse)
    a.ret()


@routine(
    outputs=[Out(CF, "1 = the message in hand is no answer to an announcement of this node")],
    clobbers=CALLER_SAVED,
    reads=[BusMessage.inbox, BusMessage.status, BusMessage.body_len, Enrol.inbox, Enrol.state],
    writes=[Enrol.unheard, Enrol.here, Enrol.late],
    calls=[enrol_take, enrol_refuse],
    source="firmware/docs/enrol.md#refusals",
)
def enrol_input(a: Asm) -> None:
    """Look at a message of CONTROL; take what it releases, count what it is instead."""
    state, got, mine = ENROL.it, BUS_IN.it, a.label("mine")
    with a.block() as other:
        a.mov(EAX, state.inbox)
        a.test(EAX, EAX)
        a.leave(E, other)
        a.cmp(EAX, got.inbox)
        a.j(E, mine)
    a.stc()
    a.ret()
    a.place(mine)
    a.cmp(got.status, NO_RESPONDERS)
    with a.if_(E):
        a.inc(state.unheard)
        a.add(state.here, UNHEARD_COUNTS - 1)
        a.clc()
        a.ret()
    a.cmp(state.state, EnrolState.WAITING)
    with a.if_(NE):
        a.inc(state.late)
        a.clc()
        a.ret()
    a.mov(ECX, got.body_len)
    a.cmp(ECX, SEALED_BYTES)
    with a.if_(E):
        a.call(enrol_take)
    with a.else_():
        _detail(a, ENROL_LENGTH)
        a.mov(EDX, EAX)
        a.call(enrol_refuse)
    a.clc()
    a.ret()
