"""Compare-and-swap: a new value for a key whose last revision is known."""

from firmware.abi import CALLER_SAVED
from firmware.bus.send import bus_close, bus_open, bus_put_inbox, bus_request_id
from firmware.fleet.texts import EXPECTED, PUBLISH
from firmware.layouts.bus import BUS, CONTROL, BusLink
from firmware.layouts.fleet import (
    CAS_LINE_MAX,
    FLEET_OUT,
    Outgoing,
)
from firmware.layouts.text import TEXT_OUT
from firmware.text import CRLF_TWICE, put, put_byte, put_crlf, put_decimal
from toolchain.asm import (
    CF,
    EAX,
    ECX,
    EDI,
    R12,
    R12D,
    RAX,
    RBP,
    RBX,
    RDI,
    RDX,
    RSI,
    Asm,
    C,
    In,
    Out,
    Reg64,
    mem32,
    routine,
)


def control(a: Asm) -> BusLink:
    """RBP, RBX := the control link and its workspace."""
    link = BusLink.at(RBP)
    a.lea(RBP, BUS.it.links.m8(CONTROL * BusLink.SIZE))
    a.mov(RBX, link.context)
    return link


@routine(
    inputs=[In(RAX, int, "revision that the value replaces; 0 = the key must be new")],
    outputs=[
        Out(CF, "1 = it was not sent: the link is not UP, or no room now"),
        Out(EAX, "number of the request"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        Outgoing.key_len,
        Outgoing.value_len,
        Outgoing.header_len,
        BusLink.context,
    ],
    writes=[Outgoing.header_len, TEXT_OUT],
    calls=[bus_open, bus_close, bus_request_id, bus_put_inbox, put_decimal],
    saves=[RBX, RBP, R12],
    source="firmware/docs/fleet.md#compare-and-swap",
)
def cas_send(a: Asm, expected: Reg64) -> None:
    """Ask for the record in FLEET_OUT to replace that revision, on the control link."""
    out, refused = FLEET_OUT.it, a.label("refused")
    a.mov(R12, expected)
    control(a)
    a.mov(ECX, out.value_len)
    a.add(ECX, CAS_LINE_MAX)
    a.call(bus_open)
    a.j(C, refused)
    a.mov(RAX, R12)
    a.mov(R12, RDI)

    # The headers first, because the line before them says how long they are.
    a.lea(RDI, out.header.address)
    a.mov(RDX, RAX)
    put(a, EXPECTED)
    a.mov(RAX, RDX)
    a.call(put_decimal)
    a.mov(mem32(RDI, ref=TEXT_OUT), CRLF_TWICE)
    a.lea(RAX, out.header.m8(-4))
    a.sub(RDI, RAX)
    a.mov(out.header_len, EDI)

    a.mov(RDI, R12)
    a.call(bus_request_id)
    a.mov(R12D, EAX)
    put(a, PUBLISH)
    a.lea(RSI, out.key.address)
    a.mov(ECX, out.key_len)
    a.rep_movsb()
    put_byte(a, " ")
    a.call(bus_put_inbox)
    a.mov(EAX, R12D)
    a.call(put_decimal)
    put_byte(a, " ")
    a.mov(EAX, out.header_len)
    a.call(put_decimal)
    put_byte(a, " ")
    a.mov(EAX, out.header_len)
    a.add(EAX, out.value_len)
    a.call(put_decimal)
    put_crlf(a)
    a.lea(RSI, out.header.address)
    a.mov(ECX, out.header_len)
    a.rep_movsb()
    a.lea(RSI, out.value.address)
    a.mov(ECX, out.value_len)
    a.rep_movsb()
    put_crlf(a)
    a.call(bus_close)
    a.mov(EAX, R12D)
    a.clc()
    a.ret()
    a.place(refused)
    a.xor(EAX, EAX)
    a.stc()
    a.ret()
