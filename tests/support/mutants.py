"""Small routines with models, in which the tests of mutation plant faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.effects import model
from emulator.lockstep import Lockstep
from emulator.machine import Machine
from emulator.mutation.operators import mutants
from emulator.mutation.record import Corpus
from toolchain.asm import (
    CF,
    EAX,
    ECX,
    EDX,
    NZ,
    RAX,
    RCX,
    RDX,
    Asm,
    B,
    In,
    Out,
    Reg32,
    routine,
)
from toolchain.layout import Global, Struct, u32
from toolchain.link import Linker, SectionPlan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from emulator.effects import World
    from emulator.mutation.operators import Mutant
    from toolchain.asm import Routine

PLAN = (
    SectionPlan(".text", 0x6000_0000, executable=True),
    SectionPlan(".bss", align=4096, writable=True),
)


class Tally(Struct):
    """What the routines of this file count."""

    SIZE = 0x10
    seen = u32(0x00, "calls")
    kept = u32(0x04, "values below the limit")
    last = u32(0x08, "the last of them")
    spare = u32(0x0C, "nobody writes it")


TALLY = Global("tally", Tally, "what was counted")
LIMIT = 10


@routine(
    inputs=[In(ECX, int, "a value")],
    outputs=[Out(CF, "1 = kept")],
    clobbers=[RAX],
    reads=[Tally.kept],
    writes=[Tally.seen, Tally.kept, Tally.last],
    source="tests",
)
def count_small(a: Asm, value: Reg32) -> None:
    """Count a value; keep it when it is below the limit. The CLC is not needed."""
    a.inc(TALLY.it.seen)
    a.cmp(value, LIMIT)
    with a.if_(B):
        a.mov(EAX, TALLY.it.kept)
        a.add(EAX, 1)
        a.mov(TALLY.it.kept, EAX)
        a.mov(TALLY.it.last, value)
        a.stc()
        a.ret()
    a.clc()
    a.ret()


@routine(inputs=[In(EDX, int, "a port's value")], clobbers=[RAX], source="tests")
def tell_port(a: Asm, value: Reg32) -> None:
    """Write what a port says, and a value, to another port."""
    a.in_(EAX, 0x40)
    a.add(EAX, value)
    a.out(0x80, EAX)
    a.ret()


@routine(inputs=[In(ECX, int, "turns")], clobbers=[RCX], source="tests")
def spin(a: Asm, turns: Reg32) -> None:
    """Count down."""
    with a.loop() as top:
        a.dec(turns)
        a.again(NZ, top)
    a.ret()


@routine(
    inputs=[In(ECX, int, "a value")],
    clobbers=[RAX, RCX, RDX],
    writes=[Tally.spare],
    calls=[count_small],
    source="tests",
)
def count_twice(a: Asm, value: Reg32) -> None:
    """Count a value and the limit itself, which is never kept."""
    a.mov(EDX, value)
    a.call(count_small)
    a.mov(ECX, LIMIT)
    a.call(count_small)
    a.mov(TALLY.it.spare, EDX)
    a.ret()


def _count_small(w: World, value: int) -> int:
    tally = w.g(TALLY)
    tally.seen += 1
    if value >= LIMIT:
        return 0
    tally.kept += 1
    tally.last = value
    return 1


def _tell_port(w: World, value: int) -> None:
    w.port_out(0x80, w.port_in(0x40, 4) + value, 4)


def _spin(_w: World, turns: int) -> None:
    assert turns > 0


def _register(subject: Routine, rule: Any) -> Any:
    """Make a rule the model of a routine; models and routines of one name share no file."""
    rule.__name__, rule.__module__ = subject.name, subject.module
    return model(rule)


MODELS = {
    subject: _register(subject, rule)
    for subject, rule in ((count_small, _count_small), (tell_port, _tell_port), (spin, _spin))
}


def _count_twice(w: World, value: int) -> None:
    MODELS[count_small](w, value)
    MODELS[count_small](w, LIMIT)
    w.g(TALLY).spare = value


MODELS[count_twice] = _register(count_twice, _count_twice)
ROUTINES = (count_small, tell_port, spin, count_twice)
IMAGE = Linker(ROUTINES, PLAN, keep=(TALLY,)).link()


class Recorded:
    """A machine whose lockstep calls are recorded."""

    def __init__(self, *wanted: Routine) -> None:
        self.corpus = Corpus(r.name for r in wanted)
        self.machine = Machine(IMAGE)
        self.lockstep = Lockstep(self.machine)
        self.lockstep.recorder = self.corpus  # type: ignore[misc]  # this one alone

    def tally(self, **values: int) -> None:
        """Set the counters."""
        raw = b"".join(values.get(f.name, 0).to_bytes(4, "little") for f in Tally.fields())
        self.machine.write(IMAGE.address(TALLY), raw)


def mutant_of(subject: Routine, key: str) -> Mutant:
    """Return the one mutant that reads so."""
    (found,) = [m for m in mutants(subject) if m.key == key]
    return found


def keys(subject: Routine, operator: str) -> Iterator[str]:
    """Yield how the mutants of one operator read."""
    return (m.key for m in mutants(subject) if m.operator == operator)
