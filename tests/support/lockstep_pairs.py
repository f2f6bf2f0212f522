"""Routines with right models, and a bench on which a test plants a fault in one of the two."""

from collections.abc import Callable
from typing import Any

import pytest

from emulator.effects import World, model
from emulator.lockstep import Lockstep, Mismatch
from emulator.machine import Machine
from toolchain.asm import (
    CF,
    EAX,
    ECX,
    RAX,
    RBX,
    RCX,
    RDX,
    XMM0,
    XMM1,
    Asm,
    In,
    Out,
    Reg32,
    Reg64,
    Routine,
    Xmm,
    routine,
)  # fmt: skip
from toolchain.layout import Global, Struct, u32
from toolchain.link import Linker, SectionPlan

PLAN = (
    SectionPlan(".text", 0x6000_0000, executable=True),
    SectionPlan(".bss", align=4096, writable=True),
)


class Pair(Struct):
    """Words for the routines of this file."""

    SIZE = 0x10
    first = u32(0x00, "one word")
    second = u32(0x04, "another word")
    ready = u32(0x08, "tells that both are there")
    spare = u32(0x0C, "nobody writes it")


PAIR = Global("pair", Pair, "what the routines of this file change")


def pad(a: Asm) -> None:
    for _ in range(24):
        a.nop()


@routine(clobbers=[RAX], writes=[Pair.first, Pair.second], source="tests")
def store_two(a: Asm) -> None:
    """Set both words."""
    a.mov(EAX, 1)
    a.mov(PAIR.it.first, EAX)
    a.mov(PAIR.it.second, 2)
    pad(a)
    a.ret()


@routine(
    inputs=[In(EAX, int, "a number"), In(RCX, int, "another")],
    outputs=[Out(RAX, "their sum"), Out(CF, "1 = it wrapped")],
    source="tests",
)
def add_up(a: Asm, number: Reg32, other: Reg64) -> None:
    """Add a 32-bit number to a 64-bit one."""
    a.mov(EAX, number)
    a.add(RAX, other)
    pad(a)
    a.ret()


@routine(inputs=[In(XMM0, int, "a vector")], outputs=[Out(XMM1, "the same vector")], source="tests")
def copy_vector(a: Asm, vector: Xmm) -> None:
    """Copy a vector."""
    a.movdqa(XMM1, vector)
    a.ret()


@routine(
    outputs=[Out(RAX, "three")],
    clobbers=[RCX],
    writes=[Pair.second],
    calls=[add_up, store_two],
    saves=[RBX],
    source="tests",
)
def caller(a: Asm) -> None:
    """Store, add, store again."""
    a.call(store_two)
    a.mov(EAX, 1)
    a.mov(ECX, 2)
    a.call(add_up)
    a.mov(RBX, RAX)
    a.mov(PAIR.it.second, 3)
    a.mov(RAX, RBX)
    a.ret()


@routine(
    inputs=[In(EAX, int, "a number"), In(RCX, int, "another")],
    outputs=[Out(RAX, "their sum"), Out(CF, "1 = it wrapped")],
    clobbers=[RCX],
    calls=[add_up],
    source="tests",
)
def tail(a: Asm, number: Reg32, other: Reg64) -> None:
    """Count RCX up and let `add_up` return for us."""
    a.inc(other)
    a.jmp(add_up)


@routine(writes=[Pair.first, Pair.second, Pair.ready], ordered=[Pair.ready], source="tests")
def publish(a: Asm) -> None:
    """Set both words, then tell."""
    a.mov(PAIR.it.first, 1)
    a.mov(PAIR.it.second, 2)
    a.mov(PAIR.it.ready, 1)
    pad(a)
    a.ret()


@routine(clobbers=[RAX, RDX], writes=[Pair.first], source="tests")
def ask_clock(a: Asm) -> None:
    """Store the low half of the clock and tell a port."""
    a.rdtsc()
    a.mov(PAIR.it.first, EAX)
    a.mov(EAX, 7)
    a.out(0x80, EAX)
    a.ret()


@routine(inputs=[In(ECX, int, "turns, at least one")], clobbers=[RCX], source="tests")
def spin(a: Asm, turns: Reg32) -> None:
    """Count down; the top of the loop is the first instruction."""
    again = a.label("again")
    a.place(again)
    a.dec(turns)
    a.jnz(again)
    a.ret()


def good_store_two(w: World) -> None:
    pair = w.g(PAIR)
    pair.second = 2
    pair.first = 1


def good_add_up(_w: World, number: int, other: int) -> tuple[int, int]:
    total = number + other
    return total, total >> 64


def good_copy_vector(_w: World, vector: int) -> int:
    return vector


def good_caller(w: World) -> int:
    MODELS[store_two](w)
    total, _ = MODELS[add_up](w, 1, 2)
    w.g(PAIR).second = 3
    return int(total)


def good_tail(w: World, number: int, other: int) -> tuple[int, int]:
    total, carry = MODELS[add_up](w, number, (other + 1) % 2**64)
    return int(total), int(carry)


def good_publish(w: World) -> None:
    pair = w.g(PAIR)
    pair.first = 1
    pair.second = 2
    pair.ready = 1


def good_ask_clock(w: World) -> None:
    w.g(PAIR).first = w.rdtsc()
    w.port_out(0x80, 7, 4)


def good_spin(_w: World, turns: int) -> None:
    assert turns > 0


GOOD = {
    store_two: good_store_two,
    add_up: good_add_up,
    copy_vector: good_copy_vector,
    caller: good_caller,
    tail: good_tail,
    publish: good_publish,
    ask_clock: good_ask_clock,
    spin: good_spin,
}
MODELS: dict[Routine, Callable[..., Any]] = {}
IMAGE = Linker(tuple(GOOD), PLAN, keep=(PAIR,)).link()


def use(subject, rule):
    """Register a model for a routine."""

    def named(*args, **kwargs):
        return rule(*args, **kwargs)

    named.__name__, named.__module__ = subject.name, subject.module
    setattr(named, "__wrapped__", rule)  # noqa: B010 - the signature to bind
    MODELS[subject] = model(named)


class Bench:
    def __init__(self, **settings):
        self.machine = Machine(IMAGE)
        self.lockstep = Lockstep(self.machine, **settings)

    def patch(self, subject, code, at=None):
        """Put bytes over the NOPs of a routine, or at an offset."""
        placed = IMAGE.symbols[subject.name]
        old = self.machine.read(placed.address, placed.size)
        offset = old.index(b"\x90" * 8) if at is None else at
        self.machine.write(placed.address + offset, bytes.fromhex(code))

    def call(self, subject, environment=None, /, **inputs):
        return self.lockstep.call(subject, environment, **inputs)

    def fails(self, message, subject, environment=None, /, **inputs):
        with pytest.raises(Mismatch, match=message) as e:
            self.call(subject, environment, **inputs)
        return str(e.value)
