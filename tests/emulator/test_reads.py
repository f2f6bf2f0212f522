"""A load of a byte that the model never looks at is refused, wherever it lies."""

import pytest

from emulator.effects import World, model
from emulator.lockstep import Mismatch
from emulator.machine import ARENA, MachineError
from emulator.memory import PAGE
from emulator.reads import merged
from firmware.layouts.shard import ShardContext
from firmware.limits import RING_BYTES
from tests.support.lab import INPUT, INPUT_BYTES, Lab
from toolchain.asm import (
    EAX,
    ECX,
    RAX,
    RSI,
    Asm,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    mem8,
    mem32,
    routine,
)
from toolchain.asm.operands import Region

TEXT = Region("a text", "bounded by its length")
BOTH = [In(RSI, int, "a text"), In(ECX, int, "its bytes")]


@routine(source="tests", inputs=BOTH, outputs=[Out(EAX, "its last byte")], reads=[TEXT])
def last_byte(a: Asm, text: Reg64, length: Reg32) -> None:
    """Load the last byte."""
    a.mov(EAX, length)
    a.movzx(EAX, mem8(text, -1, index=RAX, ref=TEXT))
    a.ret()


@routine(source="tests", inputs=BOTH, outputs=[Out(EAX, "its last byte")], reads=[TEXT])
def wide_last_byte(a: Asm, text: Reg64, length: Reg32) -> None:
    """Load four bytes and keep one of them."""
    a.mov(EAX, length)
    a.mov(EAX, mem32(text, -1, index=RAX, ref=TEXT))
    a.and_(EAX, 0xFF)
    a.ret()


@routine(source="tests", inputs=BOTH, outputs=[Out(EAX, "its first byte")], reads=[TEXT])
def first_word(a: Asm, text: Reg64, length: Reg32) -> None:
    """Load four bytes at a fixed place and keep one of them."""
    a.mov(EAX, mem32(text, ref=TEXT))
    a.and_(EAX, 0xFF)
    a.ret()


@routine(
    source="tests", inputs=BOTH, outputs=[Out(EAX, "its last byte")], reads=[TEXT], writes=[TEXT]
)
def marked_last_byte(a: Asm, text: Reg64, length: Reg32) -> None:
    """Store a byte behind the text, look at it again, then load the last byte."""
    a.mov(EAX, length)
    a.mov(mem8(text, 0, index=RAX, ref=TEXT), 7)
    a.cmp(mem8(text, 0, index=RAX, ref=TEXT), 7)
    with a.if_(E):
        a.movzx(EAX, mem8(text, -1, index=RAX, ref=TEXT))
    a.ret()


def _last(w: World, text: int, length: int) -> int:
    """Look at the text and at nothing else."""
    return w.read(text, length)[-1]


def _marked(w: World, text: int, length: int) -> int:
    w.write(text + length, b"\7")
    return _last(w, text, length)


def _first(w: World, text: int, length: int) -> int:
    return w.read(text, length)[0]


RULES = {first_word: _first, last_byte: _last, wide_last_byte: _last, marked_last_byte: _marked}
for subject, rule in RULES.items():

    def named(*args, rule=rule, **kwargs):
        return rule(*args, **kwargs)

    named.__name__, named.__module__ = subject.name, subject.module
    setattr(named, "__wrapped__", rule)  # noqa: B010 - the signature to bind
    model(named)

LAB = Lab(*RULES)
SHARD = LAB.shard()
RING = LAB.view(ShardContext, SHARD).ring_base


@pytest.fixture(autouse=True)
def _fresh():
    LAB.reset()


def call(subject, at, length):
    return LAB.call(subject, text=at, length=length).outputs["eax"]


def arena(text):
    at = LAB.machine.alloc(64)
    LAB.machine.write(at, text)
    return at


def test_reads_within_the_input_are_fine():
    assert call(last_byte, arena(b"abc"), 3) == ord("c")


def test_reads_of_what_the_routine_itself_stored_are_fine():
    assert call(marked_last_byte, arena(b"abc"), 3) == ord("c")


def test_reads_behind_the_input_are_named():
    at = arena(b"abc")
    offset = at - ARENA + 3
    wanted = (
        rf"wide_last_byte: wide_last_byte\+0x2 \(.*test_reads.py:\d+\) loads 4 bytes from "
        rf"{at + 2:#x}; the byte at {at + 3:#x} \(arena\+{offset:#x}\) is none that the model "
        r"looked at: bound the load by the length of the input, or let the model read what the "
        r"rule needs"
    )
    with pytest.raises(Mismatch, match=wanted):
        call(wide_last_byte, at, 3)


@pytest.mark.parametrize("length", [-3, 0, 3])
def test_reads_before_the_input_are_named_even_across_pages(length):
    """An address near a page's end, the page of the model's bytes, and the one behind it."""
    at = INPUT + PAGE - 4
    LAB.machine.write(at, b"abcdefgh")
    with pytest.raises(Mismatch, match=f"the byte at {at + 4 + length:#x} "):
        call(wide_last_byte, at, 4 + length)


def test_reads_through_an_alias_count_for_the_same_bytes():
    """The ring lies twice in a row; a text that wraps is looked at where it goes on."""
    at = RING + RING_BYTES - 2
    LAB.machine.write(at, b"wrap")
    assert call(last_byte, at, 4) == ord("p")
    with pytest.raises(Mismatch, match=r"\(ring0\+0x2\) is none"):
        call(wide_last_byte, at, 4)


def test_reads_of_our_own_structs_are_judged_where_the_address_is_computed():
    at = LAB.shard()
    LAB.machine.write(at, b"abc")
    assert call(last_byte, at, 3) == ord("c")
    with pytest.raises(Mismatch, match=r"\(state0\+0x3\) is none"):
        call(wide_last_byte, at, 3)


def test_reads_of_a_plain_field_are_left_to_the_contract():
    at = LAB.shard()
    LAB.machine.write(at, b"abc")
    assert call(first_word, at, 3) == ord("a")


def test_put_lays_an_input_at_the_edge_of_memory():
    text = b"abc"
    at = LAB.put(text)
    assert (at + 3, call(last_byte, at, 3)) == (INPUT + INPUT_BYTES, ord("c"))
    with pytest.raises(MachineError, match=f"read of unmapped {INPUT + INPUT_BYTES:#x}"):
        call(last_byte, at, 4)
    at = LAB.put(text, first=True)
    assert (at, LAB.machine.read(at, 3)) == (INPUT, text)
    with pytest.raises(MachineError, match=f"read of unmapped {INPUT - 1:#x}"):
        call(last_byte, at, 0)


@pytest.mark.parametrize("first", [False, True])
def test_put_gives_an_empty_input_no_byte_that_could_be_read(first):
    at = LAB.put(b"", first=first)
    with pytest.raises(MachineError, match=f"no memory at {at:#x}"):
        LAB.machine.read(at, 1)


def test_merged_joins_what_touches_and_keeps_what_does_not():
    assert merged([(10, 2), (0, 4), (4, 2), (11, 5), (20, 1)]) == ([0, 10, 20], [6, 16, 21])
