"""The machine: memory with aliases, protection, answered instructions."""

import iced_x86 as ix
import pytest
import unicorn.x86_const as ux

from emulator.environment import Environment, UnansweredError
from emulator.machine import ARENA, ARENA_BYTES, PATTERN, STACK_TOP, STOP, Machine, MachineError
from emulator.memory import Region
from toolchain.asm import AL, DX, EAX, ECX, RAX, RBX, RCX, RDX, Asm, routine
from toolchain.layout import Data
from toolchain.link import Linker, SectionPlan

RING = 0x7000_8000
PLAN = (
    SectionPlan(".text", 0x6000_0000, executable=True),
    SectionPlan(".rodata", align=4096),
    SectionPlan(".data", align=4096, writable=True),
    SectionPlan(".bss", align=4096, writable=True),
)
CONSTANT = Data("constant", 8, section=".rodata", init=b"constant", doc="eight bytes")
VARIABLE = Data("variable", 8, section=".data", init=b"variable", doc="eight bytes")
ZEROS = Data("zeros", 8, section=".bss", doc="eight bytes")


@routine(clobbers=[RAX, RDX, RCX, RBX], source="tests")
def ask_everything(a: Asm) -> None:
    """Ask for all that the environment answers."""
    a.rdtsc()
    a.rdrand(RAX)
    a.rdseed(RAX)
    a.mov(EAX, 7)
    a.xor(ECX, ECX)
    a.cpuid()
    a.mov(ECX, 0x1B)
    a.rdmsr()
    a.wrmsr()
    a.mov(DX, 0x3F8)
    a.in_(AL, DX)
    a.out(DX, AL)
    a.hlt()
    a.ret()


IMAGE = Linker((ask_everything,), PLAN, keep=(CONSTANT, VARIABLE, ZEROS)).link()


@pytest.fixture
def machine():
    return Machine(IMAGE, (Region("ring", RING, 0x5000, aliases=(RING + 0x5000,)),))


def put(machine, code):
    """Put code over the routine."""
    machine.write(IMAGE.address("ask_everything"), bytes.fromhex(code))


def test_sections_hold_the_image_and_the_rest_a_pattern(machine):
    assert machine.read(IMAGE.address(CONSTANT), 8) == b"constant"
    assert machine.read(IMAGE.address(VARIABLE), 8) == b"variable"
    assert machine.read(IMAGE.address(ZEROS), 8) == bytes(8)
    assert machine.read(ARENA, 4) == bytes([PATTERN]) * 4
    assert machine.read(STACK_TOP - 4, 4) == bytes([PATTERN]) * 4


def test_reset_puts_everything_back(machine):
    machine.write(IMAGE.address(VARIABLE), b"changed!")
    machine.write(RING, b"x")
    first = machine.alloc(32)
    machine.reset()
    assert machine.read(IMAGE.address(VARIABLE), 8) == b"variable"
    assert machine.read(RING, 1) == bytes([PATTERN])
    assert machine.alloc(32) == first


def test_a_ring_is_seen_twice_in_a_row(machine):
    machine.write(RING + 0x5000 - 2, b"abcd")
    assert machine.read(RING, 2) == b"cd"
    assert machine.read(RING + 0x5000, 2) == b"cd"
    assert machine.read(RING + 0x5000 - 2, 4) == b"abcd"
    assert machine.canonical(RING + 0x5001) == RING + 1
    assert machine.canonical(RING + 1) == RING + 1
    assert machine.canonical(0x1234) == 0x1234


def test_the_processor_sees_the_ring_twice_too(machine):
    put(machine, f"b8{(RING + 0x5000).to_bytes(4, 'little').hex()}c60077c3")
    machine.call("ask_everything")
    assert machine.read(RING, 1) == b"\x77"


def test_memory_that_is_not_there_is_named(machine):
    with pytest.raises(MachineError, match="no memory at 0x123456"):
        machine.read(0x123456, 1)
    with pytest.raises(MachineError, match=f"no memory at {RING + 0xA000:#x}"):
        machine.write(RING + 0x9FFF, b"ab")


def test_the_arena_ends(machine):
    machine.alloc(ARENA_BYTES - 16)
    with pytest.raises(MachineError, match="the arena has no 32 bytes left; raise ARENA_BYTES"):
        machine.alloc(32)
    assert Machine(IMAGE).alloc(1, align=4096) % 4096 == 0


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("c6042500000060" + "00", "write to read-only 0x60000000"),
        ("c6042500000050" + "00", "write to unmapped 0x50000000"),
        ("8a042500000050", "read of unmapped 0x50000000"),
        ("b800000050ffe0", "jump to unmapped 0x50000000"),
        ("b800000068ffe0", "jump to non-executable 0x68000000"),
    ],
)
def test_a_forbidden_access_names_place_and_address(machine, code, message):
    put(machine, code)
    with pytest.raises(MachineError, match=message):
        machine.call("ask_everything")


def test_a_constant_is_read_only(machine):
    put(machine, f"c60425{IMAGE.address(CONSTANT).to_bytes(4, 'little').hex()}00c3")
    with pytest.raises(MachineError, match=r"ask_everything\+0x0 \(.*test_machine.py:\d+\): write"):
        machine.call("ask_everything")


def test_a_limit_of_instructions(machine):
    put(machine, "ebfe")
    with pytest.raises(MachineError, match="still running after 100 instructions"):
        machine.call("ask_everything", limit=100)


def test_a_wrong_stack_is_found(machine):
    put(machine, "c20800")
    with pytest.raises(MachineError, match=r"ask_everything left RSP \+8 bytes off"):
        machine.call("ask_everything")


def test_instructions_are_answered_by_the_environment(machine):
    asked: list[tuple[object, ...]] = []

    def answer(value, *question):
        asked.append(question)
        return value

    environment = Environment(
        tsc=[0x1_0000_0002],
        random=[(True, 5)],
        seeds=[(True, 8)],
        on_cpuid=lambda leaf, subleaf: answer((1, 2, 3, 4), leaf, subleaf),
        on_rdmsr=lambda msr: answer(0x5_0000_0006, msr),
        on_port_in=lambda port, size: answer(0x41, port, size),
    )
    machine.environment = environment
    machine.hook_special()
    after = machine.call("ask_everything")
    assert asked == [(7, 0), (0x1B,), (0x3F8, 1)]
    assert list(environment.answers) == [
        ("rdtsc", 0x1_0000_0002), ("rdrand", (True, 5)), ("rdseed", (True, 8)),
        ("cpuid", (1, 2, 3, 4)), ("rdmsr", 0x5_0000_0006), ("in", 0x41),
    ]  # fmt: skip
    assert environment.events == [
        ("wrmsr", 0x1B, 0x5_0000_0006), ("in", 0x3F8, 1), ("out", 0x3F8, 1, 0x41),
        ("system", "hlt"),
    ]  # fmt: skip
    assert after["rax"] & 0xFF == 0x41
    assert after["rbx"] == 2


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (Environment(), "the test gave no further value for RDTSC"),
        (Environment(tsc=[1]), "the test gave no further value for RDRAND"),
        (Environment(tsc=[1], random=[(True, 1)]), "the test gave no further value for RDSEED"),
        (
            Environment(tsc=[1], random=[(True, 1)], seeds=[(True, 1)]),
            "unexpected CPUID 0x7.0; set on_cpuid",
        ),
        (
            Environment(
                tsc=[1], random=[(True, 1)], seeds=[(True, 1)], on_cpuid=lambda *_: (0, 0, 0, 0)
            ),
            "unexpected RDMSR 0x1b; set on_rdmsr",
        ),
        (
            Environment(
                tsc=[1],
                random=[(False, 1)],
                seeds=[(False, 1)],
                on_cpuid=lambda *_: (0, 0, 0, 0),
                on_rdmsr=lambda _: 0,
            ),
            r"unexpected IN from port 0x3f8 \(1 bytes\); set on_port_in",
        ),
    ],
)
def test_a_question_without_an_answer_is_named(machine, environment, message):
    machine.environment = environment
    machine.hook_special()
    with pytest.raises(UnansweredError, match=message):
        machine.call("ask_everything")


def test_rdrand_failure_clears_carry_and_narrow_forms_keep_the_rest(machine):
    ins = ix.Decoder(64, bytes.fromhex("660fc7f0"), ip=0x6000_0000).decode()  # RDRAND AX
    machine.environment = Environment(random=[(False, 0), (True, 0x12345678)])
    machine.set_registers({"rax": 0xFFFF_FFFF_FFFF_FFFF})
    machine.engine.reg_write(ux.UC_X86_REG_RFLAGS, 0xAD7)
    machine.answer(ins)
    assert machine.snapshot.take()[17] & 0x8D5 == 0
    assert machine.registers()["rax"] == 0xFFFF_FFFF_FFFF_0000
    machine.answer(ins)
    assert machine.snapshot.take()[17] & 0x8D5 == 1
    assert machine.registers()["rax"] == 0xFFFF_FFFF_FFFF_5678


def test_device_registers_go_to_the_environment(machine):
    stores = []
    machine.environment = Environment(
        on_mmio_read=lambda address, size: address + size,
        on_mmio_write=lambda *access: stores.append(access),
    )
    machine.map_mmio(0x6C00_0000, 0x1000)
    put(machine, "b80000006c8b480889480c c3".replace(" ", ""))
    after = machine.call("ask_everything")
    assert after["rcx"] == 0x6C00_000C
    assert stores == [(0x6C00_000C, 4, 0x6C00_000C)]
    machine.environment = Environment()
    with pytest.raises(UnansweredError, match=r"unexpected MMIO read at 0x6c000008 \(4 bytes\)"):
        machine.call("ask_everything")


def test_a_call_starts_with_its_return_address_on_the_stack(machine):
    leave = machine.prepare_call(IMAGE.address("ask_everything"), {"rcx": 9})
    registers = machine.registers()
    assert registers["rsp"] == leave - 8
    assert machine.read(leave - 8, 8) == STOP.to_bytes(8, "little")
    assert registers["rcx"] == 9


def test_where_names_routine_offset_and_line(machine):
    start = IMAGE.address("ask_everything")
    line = ask_everything.lines()[1].lineno
    name = f"ask_everything+0x2 ({__file__}:{line})"
    assert machine.where(start + 2) == name
    assert machine.where(0x1234) == "0x1234"
