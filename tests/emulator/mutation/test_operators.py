"""Each operator makes what it promises, of the same length, and nothing where it cannot."""

import iced_x86 as ix
import pytest

from emulator.mutation.operators import OPERATORS, mutants
from tests.support.mutants import PLAN, TALLY, Tally, count_small, keys
from toolchain.asm import (
    AL,
    EAX,
    ECX,
    NE,
    RAX,
    RBX,
    RCX,
    RSI,
    XMM0,
    XMM1,
    Asm,
    Region,
    Routine,
    Z,
    conditions,
    mem32,
    routine,
)
from toolchain.layout import Global, Struct, u8, u32, u64
from toolchain.link import Linker


class Row(Struct):
    """Fields of three sizes."""

    SIZE = 0x28
    first = u32(0x00, "a")
    second = u32(0x04, "b")
    wide = u64(0x08, "c")
    third = u32(0x10, "d")
    small = u8(0x14, "e")
    last = u64(0x20, "f")


ROW = Global("row", Row, "a row")


def build(emit, **contract):
    """Return a routine of instructions that need no sense; only its mutants are looked at."""

    def body(a: Asm) -> None:
        emit(a)

    class Unchecked(Routine):
        def lines(self):
            if self._lines is None:
                a = Asm(self.name, 64, (), 0, ("tests", 1))
                self.body(a)
                self._lines = a.lines
            return self._lines

    template = routine(source="tests")(body)
    return Unchecked("subject", __name__, "", template.contract, emit, (), "tests:1")


def made(emit, operator):
    return list(keys(build(emit), operator))


@pytest.mark.parametrize(
    ("condition", "others"),
    [
        ("b", ["ae", "be", "l"]),
        ("a", ["be", "ae", "g"]),
        ("g", ["le", "ge", "a"]),
        ("le", ["g", "l", "be"]),
        ("e", ["ne"]),
        ("ns", ["s"]),
        ("o", ["no"]),
    ],
)
def test_a_condition_is_turned_around_and_its_edge_and_sign_change(condition, others):
    def branch(a):
        out = a.label("out")
        a.j(getattr(conditions, condition.upper()), out)
        a.place(out)
        a.ret()

    assert made(branch, "condition") == [f"j{condition} out -> j{o} out" for o in others]


def test_setcc_and_cmovcc_have_conditions_too():
    assert made(lambda a: a.set(Z, AL), "condition") == ["sete al -> setne al"]
    assert made(lambda a: a.cmov(NE, EAX, ECX), "condition") == [
        "cmovne eax, ecx -> cmove eax, ecx"
    ]


def test_a_long_branch_keeps_its_length():
    def branch(a):
        out = a.label("out")
        a.jz(out)
        for _ in range(200):
            a.nop()
        a.place(out)
        a.ret()

    (mutant,) = [m for m in mutants(build(branch)) if m.operator == "condition"]
    assert mutant.patched(bytes.fromhex("0f84c8000000")) == bytes.fromhex("0f85c8000000")


def test_operands_are_exchanged_in_both_directions():
    row = Row.at(RBX)
    assert made(lambda a: a.cmp(EAX, ECX), "operands") == ["cmp eax, ecx -> cmp ecx, eax"]
    assert made(lambda a: a.mov(EAX, row.first), "operands") == [
        "mov eax, dword Row.first -> mov dword Row.first, eax"
    ]
    assert made(lambda a: a.sub(row.wide, RAX), "operands") == [
        "sub qword Row.wide, rax -> sub rax, qword Row.wide"
    ]
    assert made(lambda a: a.cmov(Z, RAX, RCX), "operands") == ["cmove rax, rcx -> cmove rcx, rax"]
    assert made(lambda a: a.movdqa(XMM0, XMM1), "operands") == [
        "movdqa xmm0, xmm1 -> movdqa xmm1, xmm0"
    ]


@pytest.mark.parametrize(
    "emit",
    [
        lambda a: a.xor(EAX, EAX),  # the same either way
        lambda a: a.test(EAX, ECX),  # commutative
        lambda a: a.cmp(EAX, 5),
        lambda a: a.inc(EAX),
        lambda a: a.movzx(EAX, AL),  # of two sizes
    ],
)
def test_operands_that_cannot_be_exchanged_make_no_mutant(emit):
    assert made(emit, "operands") == []


@pytest.mark.parametrize(
    ("emit", "values"),
    [
        (lambda a: a.mov(EAX, 7), ["8", "6", "0"]),
        (lambda a: a.mov(EAX, 1), ["2", "0"]),
        (lambda a: a.mov(EAX, 0), ["1", "0xffffffff"]),
        (lambda a: a.mov(EAX, 0xFFFF_FFFF), ["0", "0xfffffffe"]),
        (lambda a: a.add(EAX, 127), ["0x7e", "0"]),  # one more would be -128
        (lambda a: a.add(EAX, -128), ["-0x7f", "0"]),
        (lambda a: a.and_(EAX, 0x7FFF_FFFF), ["-0x80000000", "0x7ffffffe", "0"]),
        (lambda a: a.imul(RAX, RCX, 30_000), ["0x7531", "0x752f", "0"]),
        (lambda a: a.shl(EAX, 5), ["6", "4", "0"]),
    ],
)
def test_an_immediate_gets_one_more_one_less_and_zero(emit, values):
    shown = [key.rpartition(", ")[2] for key in made(emit, "immediate")]
    if "-0x80000000" in values:
        values = ["0x80000000", *values[1:]]
    assert shown == values


def test_an_address_that_the_linker_fills_in_is_no_immediate():
    assert made(lambda a: a.call(count_small), "immediate") == []
    assert made(lambda a: a.lea(RAX, ROW.it.first), "immediate") == []


def test_a_dropped_instruction_becomes_nops_of_its_length():
    found = [m for m in mutants(build(lambda a: a.mov(EAX, 7))) if m.operator == "drop"]
    assert [m.patched(bytes(5)) for m in found] == [b"\x90" * 5]
    assert made(lambda a: a.nop(), "drop") == []
    assert made(lambda a: a.call(count_small), "drop") == ["call count_small -> nop"]
    assert made(lambda a: a.ret(), "drop") == ["ret -> nop"]


def test_a_displacement_takes_both_neighbours_and_another_field():
    row = Row.at(RBX)
    assert made(lambda a: a.mov(EAX, row.second), "displacement") == [
        "mov eax, dword Row.second -> mov eax, dword Row.wide",
        "mov eax, dword Row.second -> mov eax, dword Row.first",
        "mov eax, dword Row.second -> mov eax, dword Row.third",
    ]
    assert made(lambda a: a.mov(RAX, row.wide), "displacement") == [
        "mov rax, qword Row.wide -> mov rax, qword Row.third",
        "mov rax, qword Row.wide -> mov rax, qword Row.first",
        "mov rax, qword Row.wide -> mov rax, qword Row.last",
    ]


def test_a_displacement_without_a_byte_of_its_own_stays():
    assert made(lambda a: a.mov(EAX, Row.at(RBX).first), "displacement") == []


def test_a_displacement_does_not_leave_its_byte():
    far = mem32(RSI, 0x7C, ref=Region("rows", "of a test"))
    assert made(lambda a: a.mov(EAX, far), "displacement") == [
        "mov eax, dword [rsi+0x7c] -> mov eax, dword [rsi+0x7c] moved by -4"
    ]


def test_a_displacement_is_moved_from_where_the_linker_puts_it():
    """The bytes differ from image to image; the mutant holds for all of them."""
    (mutant, *_) = [m for m in mutants(count_small) if m.operator == "displacement"]
    image = Linker((count_small,), PLAN, keep=(TALLY,)).link()
    placed, section = image.symbols["count_small"], image.section(".text")
    start = placed.address - section.address + mutant.offset
    code = section.contents[start : start + mutant.size]
    before = ix.Decoder(64, code, ip=placed.address + mutant.offset).decode()
    after = ix.Decoder(64, mutant.patched(code), ip=placed.address + mutant.offset).decode()
    assert before.memory_displacement == image.address(TALLY)
    assert after.memory_displacement == image.address(TALLY) + Tally.kept.offset
    assert mutant.key == "inc dword Tally.seen -> inc dword Tally.kept"


def test_mutants_that_read_the_same_are_numbered():
    def twice(a):
        a.mov(EAX, 1)
        a.mov(EAX, 1)

    assert made(twice, "immediate") == [
        "mov eax, 1 -> mov eax, 2",
        "mov eax, 1 -> mov eax, 0",
        "mov eax, 1 -> mov eax, 2 #2",
        "mov eax, 1 -> mov eax, 0 #2",
    ]


def test_every_mutant_is_one_instruction_of_the_same_length():
    image = Linker((count_small,), PLAN, keep=(TALLY,)).link()
    placed, section = image.symbols["count_small"], image.section(".text")
    code = section.contents[placed.address - section.address :]
    found = mutants(count_small)
    assert {m.operator for m in found} == set(OPERATORS)
    for mutant in found:
        old = code[mutant.offset : mutant.offset + mutant.size]
        new = mutant.patched(old)
        assert new != old
        assert len(new) == mutant.size
        if mutant.operator != "drop":
            assert ix.Decoder(64, new).decode().len == mutant.size
