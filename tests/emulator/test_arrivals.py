"""What a device stores while a routine runs comes to the model at the same access, not before."""

import pytest

from emulator.effects import World, model
from emulator.environment import Environment
from emulator.lockstep import Lockstep, Mismatch
from emulator.machine import Machine
from toolchain.asm import EAX, RAX, Asm, Z, routine
from toolchain.layout import Global, Struct, u32
from toolchain.link import Linker, SectionPlan

PLAN = (
    SectionPlan(".text", 0x6000_0000, executable=True),
    SectionPlan(".bss", align=4096, writable=True),
)
ASK, LOOK = 0x80, 0x40


class Mailbox(Struct):
    """Where a device answers."""

    SIZE = 0x10
    ready = u32(0x00, "1 = the answer is there")
    answer = u32(0x04, "stored by the device")
    kept = u32(0x08, "what the routine makes of it")
    asked = u32(0x0C, "1 = the device was asked")


MAILBOX = Global("mailbox", Mailbox, "where the device of this file answers")


@routine(
    clobbers=[RAX],
    reads=[Mailbox.ready, Mailbox.answer],
    writes=[Mailbox.kept, Mailbox.asked, Mailbox.ready],
    source="tests",
)
def ask_device(a: Asm) -> None:
    """Ask, look until the answer is there, keep it."""
    a.mov(MAILBOX.it.ready, 0)
    a.mov(MAILBOX.it.asked, 1)
    a.xor(EAX, EAX)
    a.out(ASK, EAX)
    with a.loop() as look:
        a.in_(EAX, LOOK)
        a.cmp(MAILBOX.it.ready, 0)
        a.again(Z, look)
    a.mov(EAX, MAILBOX.it.answer)
    a.mov(MAILBOX.it.kept, EAX)
    a.ret()


IMAGE = Linker((ask_device,), PLAN, keep=(MAILBOX,)).link()


def use(rule):
    """Register a rule as the model of the routine."""

    def ask_device(w: World) -> None:
        rule(w)

    ask_device.__module__ = __name__
    model(ask_device)


def good(w):
    box = w.g(MAILBOX)
    box.ready, box.asked = 0, 1
    w.port_out(ASK, 0, 4)
    w.port_in(LOOK, 4)
    while not box.ready:
        w.port_in(LOOK, 4)
    box.kept = box.answer


class Bench:
    """A machine with a device that answers at its n-th port access, in two stores."""

    def __init__(self, at, **settings):
        self.machine = Machine(IMAGE)
        self.machine.write(IMAGE.address(MAILBOX), bytes(Mailbox.SIZE))
        self.lockstep = Lockstep(self.machine, **settings)
        self.at, self.accesses = at, 0

    def access(self, *_):
        self.accesses += 1
        if self.accesses == self.at:
            self.machine.write(IMAGE.address(MAILBOX) + 4, (77).to_bytes(4, "little"))
            self.machine.write(IMAGE.address(MAILBOX), b"\1")
        return 0

    def call(self):
        environment = Environment(on_port_in=self.access, on_port_out=self.access)
        self.lockstep.call(ask_device, environment)
        return self.machine.read(IMAGE.address(MAILBOX), Mailbox.SIZE)


@pytest.mark.parametrize("settings", [{}, {"semantics": True}])
@pytest.mark.parametrize("at", [1, 2, 5])
def test_an_answer_comes_when_the_device_gave_it(at, settings):
    use(good)
    bench = Bench(at, **settings)
    word = b"\0\0\0"
    assert bench.call() == b"\1" + word + b"\x4d" + word + b"\x4d" + word + b"\1" + word
    assert bench.accesses == max(at, 2)
    assert bench.machine.watchers == []


def test_a_model_that_looks_too_early_sees_what_was_there_before():
    def hasty(w):
        answer = w.g(MAILBOX).answer
        good(w)
        w.g(MAILBOX).kept = answer

    use(hasty)
    with pytest.raises(Mismatch, match=r"leaves 0x4d in Mailbox.kept; the model wants 0x00"):
        Bench(1).call()


def test_a_model_that_looks_less_often_is_found():
    def impatient(w):
        box = w.g(MAILBOX)
        box.ready, box.asked = 0, 1
        w.port_out(ASK, 0, 4)
        w.port_in(LOOK, 4)
        box.kept = box.answer

    use(impatient)
    with pytest.raises(Mismatch, match=r"nothing stores Mailbox\.kept"):
        Bench(4).call()
