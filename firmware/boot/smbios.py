"""SMBIOS: the machine's UUID and serial number, read once through device windows.

Nothing that a table says is believed beyond its own length: whatever is odd ends the search, and the
node goes on without these facts.
"""

from __future__ import annotations

from dataclasses import dataclass

from firmware.abi import CALLER_SAVED
from firmware.layouts.smbios import (
    END_OF_TABLE,
    ENTRY_BYTES,
    SERIAL_MAX,
    SMBIOS,
    SMBIOS_AREA,
    SMBIOS_AREA_BYTES,
    SMBIOS_ENTRY,
    SMBIOS_TABLE,
    STRUCTURE_HEAD_BYTES,
    SYSTEM_BYTES_MIN,
    SYSTEM_INFORMATION,
    SYSTEM_SERIAL,
    SYSTEM_UUID,
    TABLE_BYTES_MAX,
    UUID_LITTLE_ENDIAN_VERSION,
    Smbios,
    SmbiosEntry,
)
from firmware.limits import PAGE
from firmware.memory import mmio_map
from toolchain.asm import (
    AE,
    AL,
    BE,
    CF,
    CL,
    DL,
    DX,
    EAX,
    EBX,
    ECX,
    EDI,
    EDX,
    ESI,
    NE,
    NZ,
    R8,
    R8D,
    R9,
    R9D,
    R12,
    R12D,
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
    In,
    Label,
    Out,
    Reg32,
    Reg64,
    Z,
    mem8,
    mem16,
    mem32,
    mem64,
    routine,
)


@dataclass(frozen=True)
class _Form:
    """Where an entry point has what (DSP0134 5.2.1 and 5.2.2)."""

    entry: SmbiosEntry
    signature: bytes
    second: bytes
    second_at: int
    length_at: int
    length_min: int
    version_at: int


_FORMS = (
    _Form(SmbiosEntry.BITS64, b"_SM3", b"_", 4, 6, 0x18, 7),
    _Form(SmbiosEntry.BITS32, b"_SM_", b"_DMI", 0x10, 5, 0x1E, 6),
)
"""The 64-bit form counts where both are there."""
SIZE_64_AT, ADDRESS_64_AT = 0x0C, 0x10
SIZE_32_AT, ADDRESS_32_AT = 0x16, 0x18
SPACE, FIRST, LAST = 0x20, 0x21, 0x7E
"""Printable ASCII without the space is FIRST to LAST."""


def _refuse_unless(a: Asm, form: _Form, no: Label) -> None:
    """Leave to `no` unless an entry point of this form lies at RSI."""
    a.cmp(mem32(RSI, ref=SMBIOS_ENTRY), int.from_bytes(form.signature, "little"))
    a.leave(NE, no)
    if len(form.second) == 1:
        a.cmp(mem8(RSI, form.second_at, ref=SMBIOS_ENTRY), form.second[0])
    else:
        second = int.from_bytes(form.second, "little")
        a.cmp(mem32(RSI, form.second_at, ref=SMBIOS_ENTRY), second)
    a.leave(NE, no)
    a.movzx(ECX, mem8(RSI, form.length_at, ref=SMBIOS_ENTRY))
    a.lea(EDX, mem8(RCX, -form.length_min, ref=SMBIOS_ENTRY))
    a.cmp(EDX, ENTRY_BYTES - form.length_min)
    a.leave(A, no)
    a.xor(EDX, EDX)
    with a.loop() as byte:
        a.add(DL, mem8(RSI, -1, index=RCX, ref=SMBIOS_ENTRY))
        a.dec(ECX)
        a.again(NZ, byte)
    a.test(DL, DL)
    a.leave(NZ, no)


@routine(
    outputs=[
        Out(RAX, "physical address of the structure table; 0 = there is none"),
        Out(ECX, "its bytes"),
    ],
    clobbers=CALLER_SAVED,
    reads=[SMBIOS_ENTRY],
    writes=[Smbios.entry, Smbios.version],
    calls=[mmio_map],
    source="DMTF DSP0134 5.2",
)
def smbios_entry(a: Asm) -> None:
    """Find an entry point: on 16 bytes, with its anchors, bytes that sum to zero."""
    none = a.label("none")
    a.mov(EDI, SMBIOS_AREA)
    a.mov(ESI, SMBIOS_AREA_BYTES // PAGE)
    a.call(mmio_map)
    a.test(RAX, RAX)
    a.jz(none)
    a.mov(R9, RAX)
    a.lea(R8, mem8(RAX, SMBIOS_AREA_BYTES - ENTRY_BYTES, ref=SMBIOS_ENTRY))
    for form in _FORMS:  # unrolled: two forms
        a.mov(RSI, R9)
        with a.loop() as search:
            with a.block() as no:
                _refuse_unless(a, form, no)
                if form.entry == SmbiosEntry.BITS64:
                    a.mov(ECX, mem32(RSI, SIZE_64_AT, ref=SMBIOS_ENTRY))
                    a.mov(RAX, mem64(RSI, ADDRESS_64_AT, ref=SMBIOS_ENTRY))
                else:
                    a.movzx(ECX, mem16(RSI, SIZE_32_AT, ref=SMBIOS_ENTRY))
                    a.mov(EAX, mem32(RSI, ADDRESS_32_AT, ref=SMBIOS_ENTRY))
                a.mov(DX, mem16(RSI, form.version_at, ref=SMBIOS_ENTRY))
                a.rol(DX, 8)
                a.mov(SMBIOS.it.version, DX)
                a.mov(SMBIOS.it.entry, form.entry)
                a.ret()
            a.add(RSI, 16)
            a.cmp(RSI, R8)
            a.again(BE, search)
    a.place(none)
    a.xor(EAX, EAX)
    a.xor(ECX, ECX)
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "the structure System Information; its formatted area is within the table"),
    ],
    clobbers=[RAX, RCX],
    reads=[SMBIOS_TABLE, Smbios.version, Smbios.uuid],
    writes=[Smbios.uuid],
    source="DMTF DSP0134 7.2.1",
)
def smbios_uuid(a: Asm, structure: Reg64) -> None:
    """Keep the UUID in the order in which it is written; all zeros and all ones are none."""
    a.cmp(mem8(structure, 1, ref=SMBIOS_TABLE), SYSTEM_BYTES_MIN)
    with a.if_(B):
        a.ret()
    low, high = (mem64(structure, SYSTEM_UUID + 8 * n, ref=SMBIOS_TABLE) for n in range(2))
    a.mov(RAX, low)
    a.mov(RCX, high)
    a.or_(RAX, RCX)
    with a.if_(Z):
        a.ret()
    a.and_(RCX, low)
    a.inc(RCX)
    with a.if_(Z):
        a.ret()
    uuid = SMBIOS.it.uuid
    a.mov(RAX, low)
    a.mov(uuid.m64(), RAX)
    a.mov(RAX, high)
    a.mov(uuid.m64(8), RAX)
    a.cmp(SMBIOS.it.version, UUID_LITTLE_ENDIAN_VERSION)
    with a.if_(AE):
        a.mov(EAX, uuid.m32())
        a.bswap(EAX)
        a.mov(uuid.m32(), EAX)
        for at in (4, 6):  # unrolled: two words
            a.rol(uuid.m16(at), 8)
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "the strings of a structure"),
        In(RDX, int, "the end of the table"),
        In(EAX, int, "number of the string, from 1; 0 = none"),
    ],
    outputs=[
        Out(RSI, "its first byte"),
        Out(CF, "1 = there is no such string"),
    ],
    clobbers=[RAX],
    reads=[SMBIOS_TABLE],
    source="DMTF DSP0134 6.1.3",
)
def smbios_string(a: Asm, strings: Reg64, end: Reg64, number: Reg32) -> None:
    """Find a string of a structure; the set ends with an empty one."""
    none = a.label("none")
    a.sub(number, 1)
    a.j(B, none)
    with a.loop() as each:
        a.cmp(strings, end)
        a.j(AE, none)
        a.cmp(mem8(strings, ref=SMBIOS_TABLE), 0)
        a.jz(none)
        a.sub(number, 1)
        with a.if_(B):
            a.clc()
            a.ret()
        with a.loop() as byte:
            a.cmp(strings, end)
            a.j(AE, none)
            a.inc(strings)
            a.cmp(mem8(strings, -1, ref=SMBIOS_TABLE), 0)
            a.again(NZ, byte)
        a.jmp(each.top)
    a.place(none)
    a.stc()
    a.ret()


@routine(
    inputs=[In(RSI, int, "a string"), In(RDX, int, "the end of the table")],
    clobbers=[RAX, RCX, RSI, RDI, R8, R9],
    reads=[SMBIOS_TABLE],
    writes=[Smbios.serial, Smbios.serial_len],
    source="DMTF DSP0134 7.2; firmware/docs/enrol.md#identity",
)
def smbios_serial(a: Asm, string: Reg64, end: Reg64) -> None:
    """Keep a serial number as one token: `_` for what would end it or hide, no spaces behind it."""
    done, count = a.label("done"), ECX
    machine = Smbios.at(RDI)
    a.lea(RDI, SMBIOS.address)
    a.xor(count, count)
    with a.loop() as character:
        a.cmp(string, end)
        a.j(AE, done)
        a.movzx(EAX, mem8(string, ref=SMBIOS_TABLE))
        a.test(EAX, EAX)
        a.jz(done)
        a.inc(string)
        a.mov(R8D, EAX)
        a.lea(R9D, mem8(RAX, -FIRST, ref=SMBIOS_TABLE))
        a.cmp(R9D, LAST - FIRST)
        with a.if_(A):
            a.mov(EAX, ord("_"))
        a.mov(machine.serial.m8(index=RCX), AL)
        a.inc(count)
        a.cmp(R8D, SPACE)
        with a.if_(NE):
            a.mov(machine.serial_len, CL)
        a.cmp(count, SERIAL_MAX)
        a.again(B, character)
    a.place(done)
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "the structure System Information; its formatted area is within the table"),
        In(RDI, int, "its strings"),
        In(RDX, int, "the end of the table"),
    ],
    clobbers=[RAX, RCX, RSI, RDI, R8, R9],
    reads=[SMBIOS_TABLE],
    calls=[smbios_uuid, smbios_string, smbios_serial],
    saves=[RBX],
    source="DMTF DSP0134 7.2",
)
def smbios_system(a: Asm, structure: Reg64, strings: Reg64, end: Reg64) -> None:
    """Keep what System Information says of the machine."""
    a.mov(RBX, structure)
    a.call(smbios_uuid)
    a.cmp(mem8(RBX, 1, ref=SMBIOS_TABLE), SYSTEM_SERIAL)
    with a.if_(BE):
        a.ret()
    a.movzx(EAX, mem8(RBX, SYSTEM_SERIAL, ref=SMBIOS_TABLE))
    a.mov(RSI, RDI)
    a.call(smbios_string)
    with a.if_(C):
        a.ret()
    a.call(smbios_serial)
    a.ret()


@routine(
    inputs=[In(RSI, int, "the structure table"), In(RDX, int, "its end")],
    clobbers=[RAX, RCX, RSI, RDI, R8, R9],
    reads=[SMBIOS_TABLE],
    calls=[smbios_system],
    source="DMTF DSP0134 6.1",
)
def smbios_walk(a: Asm, table: Reg64, end: Reg64) -> None:
    """Go from structure to structure until System Information, or until one leaves the table."""
    done = a.label("done")
    with a.loop() as structures:
        a.mov(RAX, end)
        a.sub(RAX, table)
        a.cmp(RAX, STRUCTURE_HEAD_BYTES)
        a.j(B, done)
        a.movzx(ECX, mem8(table, 1, ref=SMBIOS_TABLE))
        a.cmp(ECX, STRUCTURE_HEAD_BYTES)
        a.j(B, done)
        a.cmp(RCX, RAX)
        a.j(A, done)
        a.lea(RDI, mem8(table, index=RCX, ref=SMBIOS_TABLE))
        a.cmp(mem8(table, ref=SMBIOS_TABLE), SYSTEM_INFORMATION)
        with a.if_(Z):
            a.jmp(smbios_system)
        a.cmp(mem8(table, ref=SMBIOS_TABLE), END_OF_TABLE)
        a.jz(done)
        # Two zeros end the strings, which may be none.
        with a.loop() as strings:
            a.lea(RCX, mem8(RDI, 2, ref=SMBIOS_TABLE))
            a.cmp(RCX, end)
            a.j(A, done)
            a.inc(RDI)
            a.cmp(mem16(RDI, -1, ref=SMBIOS_TABLE), 0)
            a.again(NZ, strings)
        a.lea(table, mem8(RDI, 1, ref=SMBIOS_TABLE))
        a.jmp(structures.top)
    a.place(done)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    calls=[smbios_entry, mmio_map, smbios_walk],
    saves=[RBX, R12],
    source="DMTF DSP0134 5.2; firmware/docs/enrol.md#identity",
)
def smbios_read(a: Asm) -> None:
    """Find the structure table and keep what it says of the machine; nothing when it is odd."""
    none = a.label("none")
    a.call(smbios_entry)
    a.test(RAX, RAX)
    a.jz(none)
    # A table above 4 GB is no table of a BIOS; the window would have to trust the address.
    a.mov(RDX, RAX)
    a.shr(RDX, 32)
    a.j(NZ, none)
    a.cmp(ECX, TABLE_BYTES_MAX)
    with a.if_(A):
        a.mov(ECX, TABLE_BYTES_MAX)
    a.mov(R12D, ECX)
    a.mov(EBX, EAX)
    a.and_(EBX, PAGE - 1)
    a.lea(ESI, mem8(RBX, PAGE - 1, index=RCX, ref=SMBIOS_TABLE))
    a.shr(ESI, PAGE.bit_length() - 1)
    a.and_(EAX, -PAGE)
    a.mov(EDI, EAX)
    a.call(mmio_map)
    a.test(RAX, RAX)
    a.jz(none)
    a.lea(RSI, mem8(RAX, index=RBX, ref=SMBIOS_TABLE))
    a.lea(RDX, mem8(RSI, index=R12, ref=SMBIOS_TABLE))
    a.jmp(smbios_walk)
    a.place(none)
    a.ret()
