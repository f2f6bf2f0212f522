"""Hooks that the library calls directly: they see what runs, and their errors end the run."""

import pytest
import unicorn as uc

from emulator.bare_hook import BareHook
from emulator.machine import ARENA, Machine
from toolchain.asm import Asm, routine
from toolchain.link import Linker, SectionPlan

START = 0x6000_0000


@routine(source="tests")
def nothing(a: Asm) -> None:
    """Leave room for the code of a test."""
    for _ in range(9):
        a.nop()
    a.ret()


@pytest.fixture
def machine():
    plan = (SectionPlan(".text", START, executable=True),)
    machine = Machine(Linker((nothing,), plan).link())
    machine.write(START, bytes.fromhex("c707 78563412 668b07 c3"))  # store 4 bytes, load 2, return
    return machine


def watched(machine, kind, *span):
    """Call the code with a hook; return what the hook was told, and its handle."""
    told = []
    handle = machine.hook_bare(BareHook(kind, lambda _engine, *what: told.append(what[:-1])), *span)
    machine.call("nothing", {"rdi": ARENA})
    return told, handle


def test_each_instruction_is_told(machine):
    told, _ = watched(machine, uc.UC_HOOK_CODE)
    assert told == [(START, 6), (START + 6, 3), (START + 9, 1)]


def test_each_store_and_each_load_is_told(machine):
    told, _ = watched(machine, uc.UC_HOOK_MEM_WRITE)
    assert told == [(uc.UC_MEM_WRITE, ARENA, 4, 0x1234_5678)]
    told, _ = watched(machine, uc.UC_HOOK_MEM_READ, ARENA, ARENA)
    assert [what[1:3] for what in told] == [(ARENA, 2)]


def test_nothing_is_told_outside_its_range_or_after_its_end(machine):
    told, handle = watched(machine, uc.UC_HOOK_MEM_WRITE, ARENA + 4, ARENA + 8)
    assert told == []
    machine.unhook(handle)
    told, handle = watched(machine, uc.UC_HOOK_CODE)
    machine.unhook(handle)
    machine.call("nothing", {"rdi": ARENA})
    assert len(told) == 3


def test_the_first_error_ends_the_run(machine):
    seen = []

    def refuse(_engine, address, _size, _data):
        seen.append(address)
        machine.stop_with(LookupError(f"{address:#x}"))

    machine.hook_bare(BareHook(uc.UC_HOOK_CODE, refuse))
    with pytest.raises(LookupError, match=f"^{START:#x}$"):
        machine.call("nothing", {"rdi": ARENA})
    assert machine.read(ARENA, 1) != b"\x78", "the instruction did not run"
