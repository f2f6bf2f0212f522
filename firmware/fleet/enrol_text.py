"""What a node says of itself when it enrols: its identity, the info of the seal, the announcement."""

from __future__ import annotations

from firmware.bus.names import put_bot, put_node
from firmware.layouts.bus import Bus
from firmware.layouts.config import CONFIG
from firmware.layouts.enrol import (
    BUILD_ID_BYTES,
    ENROL,
    ENROLLED_TEXT,
    INFO_TEXT,
    MAC_BYTES,
    NOTHING,
    WAITING_TEXT,
    Enrol,
    EnrolState,
)
from firmware.layouts.fleet_config import FleetConfig
from firmware.layouts.node import NETWORK, Network
from firmware.layouts.smbios import SMBIOS, UUID_BYTES, Smbios
from firmware.layouts.text import TEXT_IN, TEXT_OUT
from firmware.layouts.x25519 import X25519_BYTES
from firmware.text import put, put_byte, put_decimal, put_hex
from toolchain.asm import (
    EAX,
    ECX,
    EDI,
    EDX,
    NZ,
    R8,
    R8D,
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    mem32,
    routine,
)

CLOBBERS = (RAX, RCX, RDX, RSI, R8)
WORD = 4
HALF = 2 * (MAC_BYTES - WORD)
"""Digits of the end of a hardware address."""


@routine(
    inputs=[
        In(RDI, int, "where the digits go"),
        In(RSI, int, "the bytes"),
        In(ECX, int, "how many groups of four"),
    ],
    outputs=[Out(RDI, "the first byte after the digits")],
    clobbers=CLOBBERS,
    reads=[TEXT_IN],
    calls=[put_hex],
    source="firmware/docs/enrol.md#announcement",
)
def put_hex_bytes(a: Asm, text: Reg64, source: Reg64, groups: Reg32) -> None:
    """Write bytes as hexadecimal digits, the first byte first."""
    a.mov(R8D, groups)
    with a.loop() as each:
        a.mov(EDX, mem32(source, ref=TEXT_IN))
        a.bswap(EDX)
        a.call(put_hex)
        a.add(source, WORD)
        a.dec(R8D)
        a.again(NZ, each)
    a.ret()


@routine(
    inputs=[In(RDI, int, "where it goes; up to IDENTITY_MAX bytes")],
    outputs=[Out(RDI, "the first byte after it")],
    clobbers=CLOBBERS,
    reads=[Network.mac, Smbios.uuid, Smbios.serial_len],
    writes=[TEXT_OUT],
    calls=[put_hex_bytes, put_hex],
    source="firmware/docs/enrol.md#announcement",
)
def enrol_identity(a: Asm, text: Reg64) -> None:
    """Write `<mac> <uuid> <serial> <build id>`; `-` stands for what the machine does not tell."""
    machine = SMBIOS.it
    a.lea(RSI, NETWORK.it.mac.address)
    a.mov(ECX, 1)
    a.call(put_hex_bytes)
    a.movzx(EDX, NETWORK.it.mac.m16(WORD))
    a.bswap(EDX)
    a.call(put_hex)
    a.sub(text, 8 - HALF)  # half of the digits are of nothing
    put_byte(a, " ")

    a.mov(RAX, machine.uuid.m64())
    a.or_(RAX, machine.uuid.m64(8))
    with a.if_(NZ):
        a.lea(RSI, machine.uuid.address)
        a.mov(ECX, UUID_BYTES // WORD)
        a.call(put_hex_bytes)
    with a.else_():
        put_byte(a, NOTHING)
    put_byte(a, " ")

    a.movzx(ECX, machine.serial_len)
    a.test(ECX, ECX)
    with a.if_(NZ):
        a.lea(RSI, machine.serial.address)
        a.rep_movsb()
    with a.else_():
        put_byte(a, NOTHING)
    put_byte(a, " ")
    a.lea(RSI, CONFIG.it.build_id.address)
    a.mov(ECX, BUILD_ID_BYTES // WORD)
    a.call(put_hex_bytes)
    a.ret()


@routine(
    clobbers=(*CLOBBERS, RDI),
    reads=[FleetConfig.bot_len, Bus.node_len, Enrol.identity_len],
    writes=[Enrol.identity_len, Enrol.info_len, TEXT_OUT],
    calls=[enrol_identity],
    source="firmware/docs/enrol.md#seal",
)
def enrol_facts(a: Asm) -> None:
    """Lay identity and info down: both stay the same for the whole boot."""
    state = ENROL.it
    a.lea(RDI, state.identity.address)
    a.call(enrol_identity)
    a.lea(RSI, state.identity.address)
    a.sub(RDI, RSI)
    a.mov(state.identity_len, EDI)

    a.lea(RDI, state.info.address)
    put(a, INFO_TEXT)
    put_bot(a)
    put_byte(a, " ")
    put_node(a)
    put_byte(a, " ")
    a.lea(RSI, state.identity.address)
    a.mov(ECX, state.identity_len)
    a.rep_movsb()
    a.lea(RSI, state.info.address)
    a.sub(RDI, RSI)
    a.mov(state.info_len, EDI)
    a.ret()


@routine(
    outputs=[Out(ECX, "bytes of `Enrol.body`")],
    clobbers=[RAX, RDX, RSI, R8, RDI],
    reads=[Enrol.state, Enrol.refused, Enrol.identity_len],
    writes=[TEXT_OUT],
    calls=[put_hex_bytes, put_decimal],
    source="firmware/docs/enrol.md#announcement",
)
def enrol_body(a: Asm) -> None:
    """Write `1 <waiting or enrolled> <refused> <public key> <identity>`."""
    state = ENROL.it
    a.lea(RDI, state.body.address)
    a.cmp(state.state, EnrolState.WAITING)
    with a.if_(E):
        put(a, WAITING_TEXT)
    with a.else_():
        put(a, ENROLLED_TEXT)
    a.mov(EAX, state.refused)
    a.call(put_decimal)
    put_byte(a, " ")
    a.lea(RSI, state.keys.public.address)
    a.mov(ECX, X25519_BYTES // WORD)
    a.call(put_hex_bytes)
    put_byte(a, " ")
    a.lea(RSI, state.identity.address)
    a.mov(ECX, state.identity_len)
    a.rep_movsb()
    a.lea(RSI, state.body.address)
    a.mov(RCX, RDI)
    a.sub(RCX, RSI)
    a.ret()
