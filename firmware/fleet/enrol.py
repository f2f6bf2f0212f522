"""Enrolment: a node without a token makes a key pair, announces it, and waits for what is sealed to it.

Only a node of a fleet does; all others have their token in the image. Until it has one it claims nothing.
"""

from __future__ import annotations

from firmware.abi import CALLER_SAVED
from firmware.bus.link import bus_fail
from firmware.bus.names import put_bot, put_node
from firmware.bus.send import bus_close, bus_open, bus_put_inbox, bus_request_id
from firmware.crypto.drbg import drbg_u64
from firmware.crypto.hpke import hpke_generate
from firmware.crypto.sha256 import sha256_finish, sha256_start, sha256_update
from firmware.fleet.enrol_text import enrol_body, enrol_facts
from firmware.layouts.bus import BUS, LINKS, Bus, BusLink, LinkState
from firmware.layouts.bus_sites import RELOGIN
from firmware.layouts.clock import NEVER
from firmware.layouts.crypto import HASH
from firmware.layouts.enrol import (
    ANNOUNCE_JITTER_MS,
    ANNOUNCE_MIN_MS,
    ANNOUNCED_MOST,
    ENROL,
    ENROL_CRYPTO,
    ENROL_UNHEARD,
    ENROL_WEAK,
    LINE_MAX,
    PUB_TEXT,
    ROOM_MS,
    SUBJECT_TEXT,
    Enrol,
    EnrolState,
)
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC, FleetConfig
from firmware.layouts.log import ENROL_IMPOSSIBLE, ENROL_WAITING
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.shard import ShardContext
from firmware.layouts.text import TEXT_OUT
from firmware.layouts.token import TOKEN, BotToken
from firmware.layouts.variants import VARIANTS, Variants
from firmware.layouts.x25519 import X25519_BYTES
from firmware.log import log, log_write
from firmware.text import put, put_byte, put_crlf, put_decimal
from toolchain.asm import (
    BE,
    CF,
    EAX,
    ECX,
    EDX,
    NE,
    NZ,
    R12,
    R12D,
    RAX,
    RBP,
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
    Out,
    mem8,
    routine,
)


@routine(
    clobbers=CALLER_SAVED,
    reads=[FleetConfig.magic, BotToken.length, Variants.usable, Enrol.digest],
    writes=[Enrol.state, Enrol.error, Bus.enrolling],
    calls=[hpke_generate, sha256_start, sha256_update, sha256_finish, enrol_facts, log_write],
    source="firmware/docs/enrol.md#boot",
)
def enrol_begin(a: Asm) -> None:
    """Make the key pair of this boot when the node is part of a fleet and has no token."""
    state, impossible = ENROL.it, a.label("impossible")
    a.cmp(FLEET_CONFIG.it.magic, FLEET_MAGIC)
    with a.if_(NE):
        a.ret()
    a.cmp(TOKEN.it.length, 0)
    with a.if_(NE):
        a.ret()
    a.mov(EDX, ENROL_CRYPTO.code)
    a.cmp(VARIANTS.it.usable, 0)
    a.j(E, impossible)
    a.lea(RDI, state.keys.private.address)
    a.call(hpke_generate)
    a.mov(EDX, ENROL_WEAK.code)
    a.j(C, impossible)
    a.call(enrol_facts)
    a.lea(RDI, HASH.address)
    a.call(sha256_start)
    a.lea(RDI, HASH.address)
    a.lea(RSI, state.keys.public.address)
    a.mov(ECX, X25519_BYTES)
    a.call(sha256_update)
    a.lea(RDI, HASH.address)
    a.lea(RSI, state.digest.address)
    a.call(sha256_finish)
    a.mov(BUS.it.enrolling, 1)
    a.mov(state.state, EnrolState.WAITING)
    a.mov(RDX, state.digest.m64())
    a.bswap(RDX)
    log(a, ENROL_WAITING)
    a.ret()
    a.place(impossible)
    a.mov(state.error, EDX)
    a.mov(state.state, EnrolState.IMPOSSIBLE)
    a.shr(EDX, 16)
    a.and_(EDX, 0xFF)
    log(a, ENROL_IMPOSSIBLE)
    a.ret()


@routine(
    inputs=[In(RBP, BusLink, "CONTROL"), In(RBX, ShardContext, "its workspace")],
    outputs=[Out(CF, "1 = the link is not UP, or has no room now")],
    clobbers=CALLER_SAVED,
    reads=[Enrol.state, Enrol.inbox, FleetConfig.bot_len, Bus.node_len],
    writes=[Enrol.inbox, Enrol.announced, Enrol.here, TEXT_OUT],
    calls=[enrol_body, bus_open, bus_request_id, bus_put_inbox, bus_close, put_decimal],
    saves=[R12],
    source="firmware/docs/enrol.md#announcement",
)
def enrol_announce(a: Asm, link: BusLink, shard: ShardContext) -> None:
    """Publish who waits, with the inbox for what is released; or, once, that nobody waits any more."""
    state = ENROL.it
    a.call(enrol_body)
    a.mov(R12D, ECX)
    a.mov(ECX, LINE_MAX)
    a.call(bus_open)
    with a.if_(C):
        a.ret()  # CF = 1
    put(a, PUB_TEXT)
    put_bot(a)
    put(a, SUBJECT_TEXT)
    put_node(a)
    put_byte(a, " ")
    a.cmp(state.state, EnrolState.WAITING)
    with a.if_(E):
        # One number for the whole boot: an answer may take as long as a person does.
        a.cmp(state.inbox, 0)
        with a.if_(E):
            a.call(bus_request_id)
            a.mov(state.inbox, EAX)
        a.call(bus_put_inbox)
        a.mov(EAX, state.inbox)
        a.call(put_decimal)
        put_byte(a, " ")
    a.mov(EAX, R12D)
    a.call(put_decimal)
    put_crlf(a)
    a.lea(RSI, state.body.address)
    a.mov(ECX, R12D)
    a.rep_movsb()
    put_crlf(a)
    a.call(bus_close)
    a.inc(state.announced)
    a.inc(state.here)
    a.clc()
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[BusLink.state, BusLink.context],
    writes=[Enrol.relogin],
    calls=[bus_fail],
    saves=[RBX, RBP, R12],
    source="firmware/docs/enrol.md#login",
)
def enrol_relogin(a: Asm) -> None:
    """Reset both links: they come back as the token's owner, with the inbox of a whole node."""
    link = BusLink.at(RBP)
    a.mov(ENROL.it.relogin, 0)
    a.lea(RBP, BUS.it.links.address)
    a.mov(R12D, LINKS)
    with a.loop() as links:
        a.cmp(link.state, LinkState.DOWN)
        with a.if_(NE):
            a.mov(RBX, link.context)
            a.mov(EDX, RELOGIN.code)
            a.call(bus_fail)
        a.add(RBP, BusLink.SIZE)
        a.dec(R12D)
        a.again(NZ, links)
    a.ret()


@routine(
    inputs=[In(RBP, BusLink, "CONTROL"), In(RBX, ShardContext, "its workspace")],
    outputs=[Out(RAX, "TSC when it wants to run again; all ones = not before the link changes")],
    clobbers=CALLER_SAVED,
    reads=[
        BusLink.state, Enrol.state, Enrol.relogin, Enrol.told, Enrol.announce_at, Enrol.here,
        FleetConfig.servers_used, CoreState.now, Clock.tsc_cycles_per_ms,
    ],
    writes=[Enrol.announce_at, Enrol.told, Enrol.here],
    calls=[enrol_relogin, enrol_announce, bus_fail, drbg_u64],
    source="firmware/docs/enrol.md#announcement",
)  # fmt: skip
def enrol_tick(a: Asm, link: BusLink, shard: ShardContext) -> None:
    """Announce the node every five seconds until it has a token, then once that it has.

    A server that was cut off from those who could release one does not know it: each has its time.
    """
    state, never, due, later = ENROL.it, a.label("never"), a.label("due"), a.label("later")
    a.cmp(state.relogin, 0)
    with a.if_(NE):
        a.call(enrol_relogin)
    a.cmp(link.state, LinkState.UP)
    a.j(NE, never)
    a.cmp(state.state, EnrolState.WAITING)
    a.j(E, due)
    a.cmp(state.state, EnrolState.ENROLLED)
    a.j(NE, never)
    a.cmp(state.told, 0)
    a.j(NE, never)
    a.place(due)
    a.mov(RAX, state.announce_at)
    a.cmp(RAX, core.now)
    with a.if_(A):
        a.ret()
    with a.block() as stay:
        a.cmp(state.state, EnrolState.WAITING)
        a.leave(NE, stay)
        a.cmp(state.here, ANNOUNCED_MOST)
        a.leave(B, stay)
        a.cmp(FLEET_CONFIG.it.servers_used, 1)
        a.leave(BE, stay)
        a.mov(state.here, 0)
        a.mov(EDX, ENROL_UNHEARD.code)
        a.call(bus_fail)
        a.jmp(never)
    a.call(enrol_announce)
    a.mov(EAX, ROOM_MS)
    a.j(C, later)
    a.cmp(state.state, EnrolState.ENROLLED)
    with a.if_(E):
        a.mov(state.told, 1)
        a.jmp(never)
    a.call(drbg_u64)
    a.xor(EDX, EDX)
    a.mov(ECX, ANNOUNCE_JITTER_MS)
    a.div(RCX)
    a.lea(EAX, mem8(RDX, ANNOUNCE_MIN_MS, ref=TEXT_OUT))
    a.place(later)
    a.mov(EAX, EAX)
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms)
    a.add(RAX, core.now)
    a.mov(state.announce_at, RAX)
    a.ret()
    a.place(never)
    a.mov(RAX, NEVER)
    a.ret()
