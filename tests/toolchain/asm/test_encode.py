"""Encodings chosen by hand-checked bytes; every form is judged by NASM in test_listing_forms."""

import enum
from pathlib import Path

import pytest

from tests.support.program import Engine, Mode
from toolchain.asm import (
    AL,
    AX,
    DS,
    EAX,
    ECX,
    GS,
    R13,
    RAX,
    RBP,
    RBX,
    RCX,
    RDX,
    RSP,
    XMM0,
    XMM1,
    Asm,
    AsmError,
    Offset,
    Region,
    mem32,
    mem64,
)  # fmt: skip
from toolchain.asm.encode import encoded, select
from toolchain.layout import Data

PLACE = Region("place", "anywhere")
WORD = Data("word", 8)


@pytest.mark.parametrize(
    ("mnemonic", "ops", "wanted"),
    [
        # The choices of NASM -Ox that a literal table entry would miss.
        ("mov", (RAX, 5), "b805000000"),
        ("mov", (RAX, 0xFFFF_FFFF), "b8ffffffff"),
        ("mov", (RAX, -1), "48c7c0ffffffff"),
        ("mov", (RAX, 0x1_0000_0000), "48b80000000001000000"),
        ("mov", (RAX, RCX), "4889c8"),
        ("add", (RAX, 0x1000), "480500100000"),
        ("add", (RCX, 1), "4883c101"),
        ("cmp", (EAX, 0x1000), "3d00100000"),
        ("cmp", (AX, 1), "6683f801"),
        ("test", (AL, 1), "a801"),
        ("and", (RAX, 0xFFFF_FFFF_FFFF_FFF0), "4883e0f0"),
        ("imul", (RAX, 5000), "4869c088130000"),
        ("imul", (RAX, 5), "486bc005"),
        ("xchg", (RAX, RCX), "4891"),
        ("xchg", (RCX, RAX), "4891"),
        ("xchg", (EAX, EAX), "87c0"),
        ("shl", (RAX, 1), "48d1e0"),
        ("shl", (RDX, 32), "48c1e220"),
        ("lea", (RAX, mem64(None, index=RCX, scale=2, ref=PLACE)), "488d0409"),
        ("lea", (RAX, mem64(None, index=RCX, ref=PLACE)), "488d01"),
        ("mov", (RAX, mem64(RBP, ref=PLACE)), "488b4500"),
        ("mov", (RAX, mem64(R13, ref=PLACE)), "498b4500"),
        ("mov", (RAX, mem64(RSP, 8, ref=PLACE)), "488b442408"),
        ("mov", (EAX, mem32(None, 0x10, segment=GS, ref=PLACE)), "658b042510000000"),
        ("mov", (DS, RAX), "8ed8"),
        ("push", (5,), "6a05"),
        ("movdqa", (XMM0, XMM1), "660f6fc1"),
        ("movq", (RAX, XMM1), "66480f7ec8"),
        ("rep movsw", (), "f366a5"),
    ],
)
def test_select_64_bit(mnemonic, ops, wanted):
    assert encoded(select(mnemonic, ops, 64), 64).hex() == wanted


@pytest.mark.parametrize(
    ("bits", "mnemonic", "ops", "wanted"),
    [
        (16, "mov", (AX, mem32(None, 0x10, ref=PLACE)), None),
        (32, "mov", (EAX, mem32(None, 0xFEE0_0030, ref=PLACE)), "a13000e0fe"),
        (32, "mov", (ECX, mem32(None, 0xFEE0_0030, ref=PLACE)), "8b0d3000e0fe"),
        (16, "mov", (DS, AX), "8ed8"),
        (32, "mov", (DS, AX), "8ed8"),
        (32, "push", (5,), "6a05"),
        (32, "ltr", (AX,), "0f00d8"),
        (16, "ltr", (AX,), "0f00d8"),
        (16, "mov", (EAX, 1), "66b801000000"),
        (32, "mov", (RAX, 1), None),
    ],
)
def test_select_other_modes(bits, mnemonic, ops, wanted):
    if wanted is None:
        with pytest.raises(AsmError, match=f"no {bits}-bit form of {mnemonic}"):
            select(mnemonic, ops, bits)
    else:
        assert encoded(select(mnemonic, ops, bits), bits).hex() == wanted


@pytest.mark.parametrize("value", [-129, 256])
def test_byte_immediates_have_a_range(value):
    with pytest.raises(AsmError):
        select("mov", (AL, value), 64)


@pytest.mark.parametrize("value", [-128, 0, 127, 255])
def test_byte_immediates_signed_or_unsigned(value):
    assert encoded(select("mov", (AL, value), 64), 64) == bytes([0xB0, value & 0xFF])


def test_select_takes_enum_members_and_plain_numbers():
    field = Engine.at(RBX).mode
    assert encoded(select("mov", (field, Mode.BUSY), 64), 64).hex() == "c60305"
    assert encoded(select("mov", (field, 5), 64), 64).hex() == "c60305"


def test_select_refuses_a_member_of_another_enum():
    class Other(enum.IntEnum):
        FIVE = 5

    with pytest.raises(AsmError) as caught:
        select("mov", (Engine.at(RBX).mode, Other.FIVE), 64)
    assert str(caught.value) == "Engine.mode holds Mode, not Other.FIVE; use a member of Mode"


def test_a_refused_encoding_leaves_nothing_behind():
    with pytest.raises(AsmError):
        select("mov", (RAX, mem64(RBX, 0xFEE0_0000, ref=PLACE)), 64)
    assert encoded(select("nop", (), 64), 64) == b"\x90"


def test_offsets_take_the_full_width():
    assert len(encoded(select("mov", (RAX, Offset(WORD)), 64), 64)) == 10
    assert len(encoded(select("mov", (EAX, Offset(WORD)), 32), 32)) == 5
    assert len(encoded(select("mov", (AX, Offset(WORD)), 16), 16)) == 3


def test_emit_records_the_line_of_the_caller():
    a = Asm("here")
    a.nop()  # this line
    line = a.lines[0]
    assert line.file == __file__
    text = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert text[line.lineno - 1].endswith("# this line")
