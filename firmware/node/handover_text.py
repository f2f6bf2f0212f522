"""Records of sessions: the key, the value, the request for one, and what a record says."""

from firmware.abi import CALLER_SAVED
from firmware.bus.names import put_bot
from firmware.bus.send import bus_close, bus_open, bus_put_inbox, bus_request_id
from firmware.fleet.cas import control
from firmware.fleet.texts import PREFIX, key_end, value_end
from firmware.fleet.tokens import SPACE, TEXT, number_take, word_take
from firmware.gateway.url import CHARS, ID_CHAR, PORTS, WEB_SOCKET, url_authority, url_scheme
from firmware.layouts.bus import BusLink
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.events import EventStream
from firmware.layouts.fleet import FLEET_OUT, NOBODY, RECORD_FORMAT, Outgoing
from firmware.layouts.fleet_config import FleetConfig
from firmware.layouts.handover import (
    ASK_MAX,
    DIRECT_GET,
    HANDOVER,
    SESSION_ROOM,
    URL_LEAST,
    FoundSession,
)
from firmware.layouts.shard import Session, ShardContext
from firmware.layouts.text import TEXT_OUT
from firmware.limits import SESSION_ID_MAX
from firmware.text import put, put_byte, put_decimal
from toolchain.asm import (
    AX,
    CF,
    DX,
    EAX,
    ECX,
    EDX,
    NE,
    NZ,
    R8,
    R12,
    R12D,
    R13,
    R13D,
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
    Label,
    Mem32,
    Out,
    Reg32,
    Reg64,
    Z,
    mem8,
    routine,
)
from toolchain.layout.data import Data, constant


def _text(name: str, contents: bytes) -> Data:
    return constant("handover_text_" + name, contents, "a part of a record of a session")


ASK, ASK_END = _text("ask", DIRECT_GET), _text("ask_end", b" 0\r\n\r\n")
ROOM, FORMAT = _text("room", SESSION_ROOM), _text("format", b"%d " % RECORD_FORMAT)
NO_SESSION, NO_HOST = _text("no_session", b" 0 - -"), _text("no_host", NOBODY)
SCHEME, SECURE_SCHEME = _text("scheme", b"ws://"), _text("secure_scheme", b"wss://")
DASH = ord(NOBODY)
FOUND = HANDOVER.it.found


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=[RAX, RCX, RDX, RSI, RDI, R8],
    reads=[ShardContext.shard_id, FleetConfig.bot, FleetConfig.bot_len],
    writes=[Outgoing.key, Outgoing.key_len, TEXT_OUT],
    calls=[put_decimal],
    source="firmware/docs/fleet.md#sessions",
)
def session_key(a: Asm, shard: ShardContext) -> None:
    """Write the key of the shard's record into FLEET_OUT."""
    a.lea(RDI, FLEET_OUT.it.key.address)
    put(a, PREFIX)
    put_bot(a)
    put(a, ROOM)
    a.mov(EAX, shard.shard_id)
    a.call(put_decimal)
    key_end(a)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard with a session"), In(RDI, int, "where it goes")],
    outputs=[Out(RDI, "the first byte after it")],
    clobbers=[RAX, RCX, RDX, RSI, R8],
    reads=[
        Session.resume_host,
        Session.resume_host_len,
        Session.resume_port,
        ConfigBlob.gateway_secure,
    ],
    writes=[TEXT_OUT],
    calls=[put_decimal],
    source="firmware/docs/fleet.md#sessions",
)
def session_put_url(a: Asm, shard: ShardContext, text: Reg64) -> None:
    """Write the URL that a Resume goes to; a dash when that is the gateway's own."""
    session, done = shard.session, a.label("done")
    a.cmp(session.resume_host_len, 0)
    with a.if_(E):
        put(a, NO_HOST)
        a.ret()
    a.mov(EDX, PORTS[0])
    a.cmp(CONFIG.it.gateway_secure, 0)
    with a.if_(E):
        put(a, SCHEME)
    with a.else_():
        put(a, SECURE_SCHEME)
        a.mov(EDX, PORTS[1])
    a.lea(RSI, session.resume_host.address)
    a.mov(ECX, session.resume_host_len)
    a.rep_movsb()
    a.movzx(EAX, session.resume_port)
    a.cmp(EAX, EDX)
    a.j(E, done)
    put_byte(a, ":")
    a.call(put_decimal)
    a.place(done)
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(EDX, int, "the sequence that a Resume shall name"),
        In(ECX, int, "1 = the session of the shard, 0 = there is none"),
    ],
    clobbers=[RAX, RCX, RDX, RSI, RDI, R8],
    reads=[
        EventStream.fence,
        ShardContext.shard_total,
        Session.session_id,
        Session.session_id_len,
    ],
    writes=[Outgoing.value, Outgoing.value_len, TEXT_OUT],
    calls=[put_decimal, session_put_url],
    saves=[R12, R13],
    source="firmware/docs/fleet.md#sessions",
)
def session_text(a: Asm, shard: ShardContext, sequence: Reg32, live: Reg32) -> None:
    """Write the value of the shard's record into FLEET_OUT."""
    a.mov(R12D, sequence)
    a.mov(R13D, live)
    a.lea(RDI, FLEET_OUT.it.value.address)
    put(a, FORMAT)
    a.mov(EAX, shard.events.fence)
    a.call(put_decimal)
    put_byte(a, " ")
    a.mov(EAX, shard.shard_total)
    a.call(put_decimal)
    a.test(R13D, R13D)
    with a.if_(Z):
        put(a, NO_SESSION)
    with a.else_():
        put_byte(a, " ")
        a.mov(EAX, R12D)
        a.call(put_decimal)
        put_byte(a, " ")
        a.lea(RSI, shard.session.session_id.address)
        a.mov(ECX, shard.session.session_id_len)
        a.rep_movsb()
        put_byte(a, " ")
        a.call(session_put_url)
    value_end(a)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    outputs=[
        Out(CF, "1 = it was not sent: the link is not UP, or no room now"),
        Out(EAX, "number of the request"),
    ],
    clobbers=CALLER_SAVED,
    reads=[BusLink.context, Outgoing.key, Outgoing.key_len],
    writes=[TEXT_OUT],
    calls=[session_key, bus_open, bus_close, bus_request_id, bus_put_inbox, put_decimal],
    saves=[RBX, RBP, R12],
    source="firmware/docs/fleet.md#sessions",
)
def session_ask(a: Asm, shard: ShardContext) -> None:
    """Ask for the shard's record, on the control link."""
    refused = a.label("refused")
    a.call(session_key)
    control(a)
    a.mov(ECX, ASK_MAX)
    a.call(bus_open)
    a.j(C, refused)
    a.call(bus_request_id)
    a.mov(R12D, EAX)
    put(a, ASK)
    a.lea(RSI, FLEET_OUT.it.key.address)
    a.mov(ECX, FLEET_OUT.it.key_len)
    a.rep_movsb()
    put_byte(a, " ")
    a.call(bus_put_inbox)
    a.mov(EAX, R12D)
    a.call(put_decimal)
    put(a, ASK_END)
    a.call(bus_close)
    a.mov(EAX, R12D)
    a.clc()
    a.ret()
    a.place(refused)
    a.xor(EAX, EAX)
    a.stc()
    a.ret()


def _number(a: Asm, field: Mem32[int], bad: Label) -> None:
    """Set a field to the number at RSI, which has 32 bits. Clobbers RAX, RCX, R9."""
    a.call(number_take)
    a.j(C, bad)
    a.mov(RCX, RAX)
    a.shr(RCX, 32)
    a.j(NE, bad)
    a.mov(field, EAX)


def _is_dash(a: Asm) -> None:
    """ZF := the word at RDI of ECX bytes is a dash."""
    with a.block() as longer:
        a.cmp(ECX, 1)
        a.leave(NE, longer)
        a.cmp(mem8(RDI, ref=TEXT), DASH)


@routine(
    inputs=[In(RSI, int, "a record that a message holds"), In(R8, int, "its end")],
    outputs=[Out(CF, "1 = it cannot be read")],
    clobbers=CALLER_SAVED,
    reads=[TEXT, CHARS, FoundSession],
    writes=[FoundSession],
    calls=[number_take, word_take, url_scheme, url_authority],
    source="firmware/docs/fleet.md#sessions",
)
def session_parse(a: Asm, text: Reg64, end: Reg64) -> None:
    """Take a record apart: format, generation, total, sequence, session id, resume URL."""
    bad, plain, hostless = a.label("bad"), a.label("plain"), a.label("hostless")
    a.mov(EDX, SPACE)
    _number(a, FOUND.generation, bad)
    a.cmp(FOUND.generation, RECORD_FORMAT)
    a.j(NE, bad)
    _number(a, FOUND.generation, bad)
    _number(a, FOUND.total, bad)
    _number(a, FOUND.sequence, bad)
    a.call(word_take)
    a.j(C, bad)
    a.mov(FOUND.id, RDI)
    _is_dash(a)
    with a.if_(E):
        a.xor(ECX, ECX)
    a.mov(FOUND.id_len, ECX)
    a.cmp(ECX, SESSION_ID_MAX)
    a.j(A, bad)

    a.call(word_take)
    a.j(C, bad)
    a.cmp(RSI, end)
    a.j(NE, bad)
    _is_dash(a)
    a.j(E, hostless)
    a.cmp(ECX, URL_LEAST)
    a.j(B, bad)
    a.mov(RSI, RDI)
    a.mov(EAX, WEB_SOCKET)
    a.call(url_scheme)
    a.test(EAX, EAX)
    a.j(NZ, bad)
    a.mov(FOUND.host, RSI)
    a.call(url_authority)
    a.test(EAX, EAX)
    a.j(NZ, bad)
    a.mov(FOUND.host_len, ECX)
    a.mov(FOUND.port, DX)
    a.jmp(plain)
    a.place(hostless)
    a.xor(EAX, EAX)
    a.mov(FOUND.host_len, EAX)
    a.mov(FOUND.port, AX)

    a.place(plain)
    a.mov(RSI, FOUND.id)
    a.mov(ECX, FOUND.id_len)
    a.lea(RDI, CHARS.address)
    with a.loop() as letters:
        a.sub(ECX, 1)
        a.leave(B, letters)
        a.movzx(EAX, mem8(RSI, index=RCX, ref=TEXT))
        a.test(mem8(RDI, index=RAX, ref=CHARS), ID_CHAR)
        a.j(Z, bad)
        a.jmp(letters.top)
    a.clc()
    a.ret()
    a.place(bad)
    a.stc()
    a.ret()
