"""Subtle rules of the SDM, one row each. Section numbers are Vol. 2 mnemonic entries or Vol. 1."""

from dataclasses import dataclass, field

import pytest
from iced_x86 import Decoder

from emulator.semantics import (
    Outside,
    ProcessorFault,
    UnsupportedInstructionError,
    compile_instruction,
    supports,
)
from tests.support.one_step import (
    AF,
    CF,
    DF,
    FILL,
    OF,
    ONES,
    PF,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RIP,
    RSI,
    RSP,
    SF,
    ZF,
    decode,
    run,
)


@dataclass(frozen=True)
class Row:
    """One rule: what goes in, what must come out."""

    rule: str
    data: str
    before: dict[int, int] = field(default_factory=dict)
    flags: int = 0x202
    after: dict[int, int] = field(default_factory=dict)
    set_flags: int = 0
    clear_flags: int = 0
    undefined: int | None = None
    writes: list[tuple[int, int, int]] = field(default_factory=list)
    memory: dict[int, bytes] = field(default_factory=dict)


ROWS = [
    # Vol. 1, 3.4.1.1: a 32-bit result is zero-extended, 8 and 16 bits keep the rest.
    Row("32 bits clear the upper half", "89d8", {RAX: ONES, RBX: 5}, after={RAX: 5}),
    Row("16 bits keep the rest", "6689d8", {RAX: ONES, RBX: 5}, after={RAX: ONES - 0xFFFA}),
    Row("8 bits keep the rest", "88d8", {RAX: ONES, RBX: 5}, after={RAX: ONES - 0xFA}),
    Row("AH is bits 15:8", "88dc", {RAX: 0, RBX: 0xFE}, after={RAX: 0xFE00}),
    Row("with REX the same encoding is SPL", "4088dc", {RSP: 0, RBX: 0xFE}, after={RSP: 0xFE}),
    # Shifts: count masked to 5 or 6 bits, zero changes no flag, OF for one only.
    Row(
        "count 32 masks to 0: flags stay",
        "d3e0",
        {RAX: FILL, RCX: 32},
        flags=0x202 | CF | OF | ZF,
        after={RAX: FILL & 0xFFFF_FFFF},
        set_flags=CF | OF | ZF,
        undefined=0,
    ),
    Row(
        "SHL by one: OF is sign XOR carry",
        "d1e0",
        {RAX: 0x4000_0000},
        after={RAX: 0x8000_0000},
        set_flags=OF | SF,
        clear_flags=CF,
        undefined=AF,
    ),
    Row(
        "SHR by one: OF is the old sign",
        "48d1e8",
        {RAX: 1 << 63},
        set_flags=OF,
        clear_flags=CF | SF,
        undefined=AF,
    ),
    Row(
        "SHL above one: OF undefined",
        "48c1e004",
        {RAX: 1 << 60},
        after={RAX: 0},
        set_flags=CF | ZF | PF,
        undefined=AF | OF,
    ),
    Row(
        "SHL of 8 bits by 9: CF undefined too",
        "c0e009",
        {RAX: 0x80},
        after={RAX: 0},
        undefined=AF | OF | CF,
    ),
    Row("SAR of a negative by 31", "c1f81f", {RAX: 1 << 31}, after={RAX: 0xFFFF_FFFF}),
    # ROL/ROR: SF ZF AF PF unaffected; a masked count that is a multiple of the size sets CF.
    Row(
        "ROL of 8 bits by 8 copies bit 0 to CF",
        "c0c008",
        {RAX: 0x81},
        flags=0x202 | ZF | SF | PF | AF,
        after={RAX: 0x81},
        set_flags=CF | ZF | SF | PF | AF,
        undefined=OF,
    ),
    # RCL: modulo 9 and 17 for 8 and 16 bits.
    Row(
        "RCL of 8 bits by 9 is the identity",
        "c0d009",
        {RAX: 0x5A},
        flags=0x203,
        after={RAX: 0x5A},
        set_flags=CF,
        undefined=OF,
    ),
    Row("SHLD shifts in from the top", "480fa4d804", {RAX: 0, RBX: 0xF << 60}, after={RAX: 0xF}),
    # INC and DEC: CF unaffected.
    Row("INC keeps CF", "48ffc0", {RAX: ONES}, flags=0x203, after={RAX: 0}, set_flags=CF | ZF),
    Row("DEC overflows at the minimum", "48ffc8", {RAX: 1 << 63}, set_flags=OF | AF | PF),
    Row("NEG of the minimum", "48f7d8", {RAX: 1 << 63}, after={RAX: 1 << 63}, set_flags=CF | OF),
    Row("SBB of equal values with borrow", "4819c0", {RAX: 7}, flags=0x203, after={RAX: ONES}),
    # AND, OR, XOR, TEST: CF and OF clear, AF undefined.
    Row("XOR clears CF and OF", "31c0", flags=0xA03, set_flags=ZF | PF, clear_flags=CF | OF),
    Row("AND leaves AF undefined", "4821d8", undefined=AF),
    # MUL and IMUL: CF = OF = the upper half counts, the other four undefined.
    Row(
        "MUL fills RDX",
        "48f7e3",
        {RAX: ONES, RBX: ONES},
        after={RAX: 1, RDX: ONES - 1},
        set_flags=CF | OF,
        undefined=SF | ZF | AF | PF,
    ),
    Row("MUL of 8 bits fills AX alone", "f6e3", {RAX: 0x10, RBX: 0x10}, after={RAX: 0x100}),
    Row("IMUL with immediate", "486bc3ff", {RBX: 5}, after={RAX: ONES - 4}, clear_flags=CF | OF),
    Row("IMUL that does not fit", "480fafc3", {RAX: 1 << 62, RBX: 2}, set_flags=CF | OF),
    # DIV and IDIV: truncation towards zero, all six flags undefined.
    Row(
        "IDIV truncates towards zero",
        "48f7fb",
        {RAX: ONES - 6, RDX: ONES, RBX: 2},
        after={RAX: ONES - 2, RDX: ONES},
        undefined=CF | PF | AF | ZF | SF | OF,
    ),
    Row("DIV of 8 bits: AH remainder, AL quotient", "f6f3", {RAX: 100, RBX: 7}, after={RAX: 0x20E}),
    Row(
        "MULX with one destination keeps the high half",
        "c4e2fbf6c3",
        {RDX: ONES, RBX: 2},
        after={RAX: 1},
    ),
    # BT with a register offset reaches beyond the operand, signed.
    Row(
        "BTS [mem], -1 sets the bit below",
        "480fab03",
        {RBX: 0x7000, RAX: ONES},
        memory={0x6FF8: bytes(8)},
        writes=[(0x6FF8, 8, 1 << 63)],
        clear_flags=CF,
        undefined=OF | SF | AF | PF,
    ),
    Row("TZCNT of zero is the size", "f3480fbcc3", {RBX: 0}, after={RAX: 64}, set_flags=CF),
    Row("LZCNT of one", "f3480fbdc3", {RBX: 1}, after={RAX: 63}, clear_flags=CF | ZF),
    Row("POPCNT clears five flags", "f3480fb8c3", {RBX: 7}, flags=0xAD7, after={RAX: 3}),
    # PUSH RSP stores the old value; POP [RSP] addresses with the new one.
    Row("PUSH RSP", "54", {RSP: 0x8000}, after={RSP: 0x7FF8}, writes=[(0x7FF8, 8, 0x8000)]),
    Row("PUSH imm8 is sign-extended", "6aff", {RSP: 0x8000}, writes=[(0x7FF8, 8, ONES)]),
    Row("POP RSP", "5c", memory={FILL: (9).to_bytes(8, "little")}, after={RSP: 9}),
    Row(
        "POP [RSP] writes above",
        "8f0424",
        {RSP: 0x8000},
        memory={0x8000: (9).to_bytes(8, "little")},
        after={RSP: 0x8008},
        writes=[(0x8008, 8, 9)],
    ),
    Row(
        "LEAVE",
        "c9",
        {RBP: 0x8000},
        memory={0x8000: (7).to_bytes(8, "little")},
        after={RSP: 0x8008, RBP: 7},
    ),
    Row("XCHG with memory", "488703", {RBX: 0x10}, memory={0x10: bytes(8)}, after={RAX: 0}),
    Row(
        "XADD of a register with itself doubles",
        "480fc1c0",
        {RAX: 3},
        after={RAX: 6},
        clear_flags=CF,
    ),
    # CMOVcc: the upper half is cleared even when the condition is false.
    Row("CMOVE not taken clears the upper half", "0f44c3", {RAX: ONES}, after={RAX: 0xFFFF_FFFF}),
    Row("CMPXCHG equal", "480fb1cb", {RAX: 4, RBX: 4, RCX: 9}, after={RBX: 9}, set_flags=ZF),
    Row("CMPXCHG unequal", "480fb1cb", {RAX: 4, RBX: 5}, after={RAX: 5}, clear_flags=ZF),
    Row(
        "CMPXCHG of memory always writes",
        "480fb10b",
        {RAX: 4, RBX: 0x10, RCX: 9},
        memory={0x10: (5).to_bytes(8, "little")},
        after={RAX: 5},
        writes=[(0x10, 8, 5)],
    ),
    Row("CBW", "6698", {RAX: 0x80}, after={RAX: 0xFF80}),
    Row("CDQE", "4898", {RAX: 0x8000_0000}, after={RAX: 0xFFFF_FFFF_8000_0000}),
    Row("CQO", "4899", {RAX: 1 << 63}, after={RDX: ONES}),
    Row("LAHF: bit 1 is one", "9f", {RAX: 0}, flags=0x203, after={RAX: 0x300}),
    Row("SAHF ignores the reserved bits", "9e", {RAX: 0xFF00}, set_flags=0xD5, clear_flags=OF),
    Row("STD", "fd", set_flags=DF),
    # Addressing: Vol. 1, 3.7.5, and Vol. 2, 2.2.1.6 for RIP.
    Row("LEA wraps at 64 bits", "488d430a", {RBX: ONES}, after={RAX: 9}),
    Row("LEA with 32-bit address", "67488d430a", {RBX: ONES}, after={RAX: 9}),
    Row(
        "RIP counts from the next instruction",
        "488b0510000000",
        memory={RIP + 0x17: bytes(8)},
        after={RAX: 0},
    ),
    Row(
        "no base: disp32 is sign-extended",
        "488b0425f8ffffff",
        memory={ONES - 7: bytes(8)},
        after={RAX: 0},
    ),
    # Strings: DF chooses the direction; RCX = 0 does nothing.
    Row(
        "MOVSQ downwards",
        "48a5",
        {RSI: 0x100, RDI: 0x200},
        flags=0x602,
        memory={0x100: (3).to_bytes(8, "little")},
        after={RSI: 0xF8, RDI: 0x1F8},
        writes=[(0x200, 8, 3)],
    ),
    Row(
        "REP MOVSB over itself spreads the first byte",
        "f3a4",
        {RCX: 3, RSI: 0x100, RDI: 0x101},
        memory={0x100: b"\x07\x01\x02\x03"},
        after={RCX: 0, RSI: 0x103, RDI: 0x104},
        writes=[(0x101, 1, 7), (0x102, 1, 7), (0x103, 1, 7)],
    ),
    Row("REP STOSB of nothing", "f3aa", {RCX: 0, RDI: 5}, after={RDI: 5, RCX: 0}),
    Row(
        "REPE CMPSB of nothing keeps the flags",
        "f3a6",
        {RCX: 0},
        flags=0xA43,
        set_flags=CF | ZF | OF,
        undefined=0,
    ),
    Row(
        "REPNE SCASB stops behind the match",
        "f2ae",
        {RAX: 2, RCX: 9, RDI: 0x100},
        memory={0x100: b"\x05\x02\x02"},
        after={RDI: 0x102, RCX: 7},
        set_flags=ZF,
    ),
    Row("CRC32 of a byte", "f20f38f0c3", {RAX: ONES, RBX: 0x61}, after={RAX: 0x3E2FBCCF}),
    Row("BSWAP", "480fc8", {RAX: 0x0102030405060708}, after={RAX: 0x0807060504030201}),
    Row("ADOX uses OF alone", "f3480f38f6c3", {RAX: ONES, RBX: 0}, flags=0xA02, after={RAX: 0}),
    Row("PEXT", "c4e2e2f5c1", {RBX: 0xABCD, RCX: 0xFF00}, after={RAX: 0xAB}),
    Row("BZHI above the size", "c4e2f0f5c3", {RBX: ONES, RCX: 64}, after={RAX: ONES}, set_flags=CF),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.rule)
def test_rule(row: Row) -> None:
    step = run(row.data, row.before, flags=row.flags, memory=row.memory)
    for number, value in row.after.items():
        assert step.registers[number] == value, f"{number}: {step.registers[number]:#x}"
    assert step.flags & row.set_flags == row.set_flags
    assert step.flags & row.clear_flags == 0
    if row.undefined is not None:
        assert step.undefined_flags == row.undefined
    if row.writes:
        assert list(step.writes) == row.writes
    assert step.rip == RIP + len(row.data) // 2


def test_the_scan_of_zero_leaves_the_destination_undefined() -> None:
    """BSF and BSR, SDM Vol. 2: the destination is undefined, not unchanged."""
    assert run("480fbcc3", {RBX: 0}).undefined_registers == ((RAX, ONES),)
    assert run("480fbcc3", {RBX: 8}).undefined_registers == ()


def test_a_double_shift_beyond_the_size_is_undefined() -> None:
    """SHLD, SDM Vol. 2: a count above 16 leaves a 16-bit destination and all flags undefined."""
    step = run("660fa4d811")
    assert step.undefined_registers == ((RAX, 0xFFFF),)
    assert step.undefined_flags == CF | PF | AF | ZF | SF | OF
    memory = {FILL: bytes(2)}
    assert list(run("660fa40311", memory=memory).writes) == [(FILL, 2, None)]


def test_segment_bases_come_from_outside() -> None:
    """Only FS and GS have a base in 64-bit mode. SDM Vol. 1, 3.4.2.1; LEA ignores it."""
    outside = Outside(fs_base=0x100, gs_base=0x200)
    memory = {0x210: (5).to_bytes(8, "little"), 0x110: (6).to_bytes(8, "little")}
    got = run("65488b4310", {RBX: 0}, memory=memory, outside=outside)
    assert got.registers[RAX] == 5
    got = run("64488b4310", {RBX: 0}, memory=memory, outside=outside)
    assert got.registers[RAX] == 6
    assert run("65488d4310", {RBX: 0}, outside=outside).registers[RAX] == 0x10


def test_clock_and_entropy_come_from_outside() -> None:
    outside = Outside(tsc=0x1_2345_6789, tsc_aux=7, random=ONES)
    clock = run("0f31", {RAX: ONES, RDX: ONES}, outside=outside)
    assert clock.registers[:3] == [0x2345_6789, FILL, 1]
    assert run("0f01f9", outside=outside).registers[RCX] == 7
    entropy = run("0fc7f0", flags=0xAD6, outside=outside)
    assert entropy.registers[RAX] == 0xFFFF_FFFF
    assert entropy.flags == 0x203
    none = run("480fc7f8", flags=0xAD7)
    assert (none.registers[RAX], none.flags) == (0, 0x202)


def test_the_interrupt_flag_changes_at_level_0_only() -> None:
    """POPFQ, SDM Vol. 2, table 4-15."""
    memory = {0x8000: (0x3002).to_bytes(8, "little")}
    kernel = run("9d", {RSP: 0x8000}, flags=0x202, memory=memory)
    user = run("9d", {RSP: 0x8000}, flags=0x202, memory=memory, outside=Outside(cpl=3))
    assert (kernel.flags, user.flags) == (0x3002, 0x202)


@pytest.mark.parametrize(
    ("data", "registers", "message"),
    [
        ("48f7f3", {RBX: 0}, "#DE: division by zero"),
        ("48f7f3", {RBX: 1, RDX: 1}, "#DE: quotient 0x11111111111111111 does not fit"),
        ("48f7fb", {RAX: 1 << 63, RDX: ONES, RBX: ONES}, "#DE: quotient 0x8000000000000000"),
    ],
)
def test_division_faults(data: str, registers: dict[int, int], message: str) -> None:
    with pytest.raises(ProcessorFault, match=message) as caught:
        run(data, {RAX: FILL, **registers})
    assert caught.value.vector == 0


@pytest.mark.parametrize(
    "data",
    [
        "0f6fc1",  # MOVQ mm: another register class
        "660f6fc1",  # MOVDQA
        "f20f10c1",  # MOVSD xmm shares its mnemonic with the string instruction
        "c5f1fec2",  # VPADDD
        "0f22d8",  # MOV CR3
        "8ed8",  # MOV DS
        "ec",  # IN
        "f4",  # HLT
        "fa",  # CLI
        "67a4",  # MOVSB with 32-bit addresses
        "ff1b",  # CALL far
    ],
)
def test_other_instructions_are_refused_with_advice(data: str) -> None:
    ins = decode(data)
    assert not supports(ins)
    with pytest.raises(
        UnsupportedInstructionError, match=r"at 0x60000000.*call supports\(\) first"
    ):
        compile_instruction(ins)


def test_sixteen_bit_code_is_not_taken_for_64_bit_code() -> None:
    assert not supports(Decoder(16, bytes.fromhex("01d8"), ip=0x7C00).decode())
