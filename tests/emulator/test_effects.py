"""The world of a model: fields by name that wrap, effects with their source line, answers in order."""

import enum
from collections import deque

import pytest

from emulator.effects import Event, ModelError, View, World, Write, model, model_of
from emulator.machine import ARENA, Machine, MachineError
from emulator.memory import PAGE, Region
from toolchain.asm import Asm, routine
from toolchain.layout import Global, Struct, array, be16, bytes_, enum32, nested, u8, u16, u32, u64
from toolchain.link import Linker, SectionPlan

RING = 0x7000_8000


class Colour(enum.IntEnum):
    RED = 1
    BLUE = 2


class Inner(Struct):
    """Two bytes."""

    SIZE = 2
    low = u8(0x00, "low byte")
    high = u8(0x01, "high byte")


class Outer(Struct):
    """One field of each kind."""

    SIZE = 0x30
    colour = enum32(0x00, Colour, "an enum")
    word = u16(0x04, "little-endian")
    wire = be16(0x06, "big-endian")
    wide = u64(0x08, "eight bytes")
    inner = nested(0x10, Inner, "a struct")
    name = bytes_(0x12, 6, "bytes")
    pairs = array(0x18, Inner, 4, "structs")
    total = u32(0x20, "four bytes")


OUTER = Global("outer", Outer, "one of each")


@routine(source="tests")
def nothing(a: Asm) -> None:
    """Return."""
    a.ret()


PLAN = (
    SectionPlan(".text", 0x6000_0000, executable=True),
    SectionPlan(".bss", align=4096, writable=True),
)
IMAGE = Linker((nothing,), PLAN, keep=(OUTER,)).link()


@pytest.fixture
def machine():
    return Machine(IMAGE, (Region("ring", RING, 0x5000, aliases=(RING + 0x5000,)),))


@pytest.fixture
def world(machine):
    return World(machine)


def test_fields_read_what_the_machine_holds(machine, world):
    at = IMAGE.address(OUTER)
    machine.write(at, bytes.fromhex("02000000 3412 3412 0800000000000000 0a0b"))
    outer = world.g(OUTER)
    assert outer.colour is Colour.BLUE
    assert (outer.word, outer.wire, outer.wide) == (0x1234, 0x3412, 8)
    assert (outer.inner.low, outer.inner.high) == (0x0A, 0x0B)
    assert outer.address_ == at
    assert outer.offset_of("wide") == at + 8
    machine.write(at, b"\x09")
    assert World(machine).g(OUTER).colour == 9  # no member of the enum


@pytest.mark.parametrize(
    ("field", "value", "raw"),
    [
        ("word", 0x1_0005, b"\x05\x00"),
        ("word", -1, b"\xff\xff"),
        ("wire", 0x1234, b"\x12\x34"),
        ("wide", 2**64, bytes(8)),
        ("colour", Colour.RED, b"\1\0\0\0"),
    ],
)
def test_an_assignment_wraps_and_is_recorded_with_its_line(world, field, value, raw):
    outer = world.g(OUTER)
    setattr(outer, field, value)
    (effect,) = world.effects
    assert isinstance(effect, Write)
    assert (effect.address, effect.contents) == (outer.offset_of(field), raw)
    assert effect.what == f"Outer.{field}"
    assert effect.line.startswith(f"{__file__}:")
    assert world.read(effect.address, len(raw)) == raw


def test_the_machine_keeps_its_memory(machine, world):
    world.g(OUTER).total = 5
    assert machine.read(world.g(OUTER).offset_of("total"), 4) == bytes(4)
    assert list(world.touched) == [IMAGE.address(OUTER) // PAGE]


def test_a_page_kept_before_the_machine_writes_shows_the_old_bytes(machine, world):
    at = IMAGE.address(OUTER)
    world.keep(at // PAGE)
    machine.write(at, b"\2")
    assert world.u8(at) == 0
    assert World(machine).u8(at) == 2


def test_bytes_are_sliced_and_assigned(world):
    outer = world.g(OUTER)
    outer.name[0] = 0x141
    outer.name[1:3] = b"bc"
    outer.name[5] = b"f"
    assert bytes(outer.name) == b"Abc\0\0f"
    assert outer.name[1] == ord("b")
    assert outer.name[1:4] == b"bc\0"
    assert [e.contents for e in world.effects] == [b"A", b"bc", b"f"]
    with pytest.raises(ModelError, match="assign bytes to a slice"):
        outer.name[0:2] = 5


def test_arrays_index_to_views(world):
    outer = world.g(OUTER)
    outer.pairs[3].high = 7
    assert isinstance(outer.pairs[3], View)
    assert outer.pairs[3].high == 7
    assert world.effects[0].address == outer.offset_of("pairs") + 7


def test_a_wipe_is_one_effect(world):
    outer = world.g(OUTER)
    outer.inner.wipe()
    assert [(e.address, e.contents) for e in world.effects] == [(outer.offset_of("inner"), b"\0\0")]


def test_slips_are_named(world):
    outer = world.g(OUTER)
    with pytest.raises(ModelError, match="Outer has no field colur"):
        outer.colur  # noqa: B018 - the access is the point
    with pytest.raises(ModelError, match="Outer has no field colur"):
        outer.colur = 1
    with pytest.raises(ModelError, match=r"Outer\.name is not a number; assign to its parts"):
        outer.name = 1
    with pytest.raises(MachineError, match="no memory at 0x10"):
        world.u32(0x10)


def test_a_store_across_the_seam_of_a_ring(machine, world):
    world.write(RING + 0x5000 - 1, b"xyz")
    assert world.read(RING, 2) == b"yz"
    assert world.read(RING + 0x5000, 2) == b"yz"
    assert world.read(RING + 0x5000 - 1, 3) == b"xyz"
    assert len(world.touched) == 2


def test_numbers_of_each_width(world):
    world.write(ARENA, bytes(range(1, 9)))
    assert world.u8(ARENA) == 1
    assert world.u16(ARENA) == 0x0201
    assert world.u32(ARENA) == 0x04030201
    assert world.u64(ARENA) == 0x0807060504030201
    assert world.address("outer") == IMAGE.address(OUTER)


def test_an_empty_store_is_no_effect(world):
    world.write(ARENA, b"")
    assert world.effects == []


def test_answers_come_in_the_machines_order(machine):
    answers: deque[tuple[str, object]] = deque(
        [
            ("rdtsc", 5),
            ("rdrand", (True, 6)),
            ("rdseed", (False, 7)),
            ("cpuid", (1, 2, 3, 4)),
            ("rdmsr", 7),
            ("in", 8),
            ("mmio_read", 9),
        ]
    )
    world = World(machine, answers)
    assert world.rdtsc() == 5
    assert world.rdrand() == (True, 6)
    assert world.rdseed() == (False, 7)
    assert world.cpuid(1) == (1, 2, 3, 4)
    assert world.rdmsr(0x1B) == 7
    assert world.unanswered == ["in", "mmio_read"]
    with pytest.raises(
        ModelError, match=r"test_effects.py:\d+: the model wants rdtsc, the machine asked for in"
    ):
        world.rdtsc()


def test_asking_for_more_than_the_machine_did_names_the_line(world):
    with pytest.raises(
        ModelError, match=r"test_effects.py:\d+: the model wants in, the machine asked for nothing"
    ):
        world.port_in(0x3F8)


def test_events_carry_their_values(machine):
    world = World(machine, deque([("in", 1), ("mmio_read", 2)]))
    world.port_in(0x3F8)
    world.mmio_read(0x6C00_0000, 4)
    world.port_out(0x3F8, 0x141)
    world.mmio_write(0x6C00_0000, 2, 0x1_2345)
    world.wrmsr(0x1B, 9)
    world.system("hlt")
    assert [e.key for e in world.effects if isinstance(e, Event)] == [
        ("in", 0x3F8, 1),
        ("mmio_read", 0x6C00_0000, 4),
        ("out", 0x3F8, 1, 0x41),
        ("mmio_write", 0x6C00_0000, 2, 0x2345),
        ("wrmsr", 0x1B, 9),
        ("system", "hlt"),
    ]


def test_a_model_records_its_call_and_return(world):
    @model
    def subject(w: World, first: int, second: int = 2) -> tuple[int, None]:
        w.g(OUTER).total = first
        return Colour.BLUE, None

    assert subject(world, 1) == (Colour.BLUE, None)
    call, store, back = world.effects
    assert call.key == ("call", "subject", (("first", 1),))
    assert store.what == "Outer.total"
    assert back.key == ("return", "subject", (2, None))
    assert back.line.startswith(f"{__file__}:")


def test_a_missing_model_says_where_to_write_it():
    with pytest.raises(
        ModelError, match=r"firmware\.gone\.x has no model; write emulator\.models\.gone"
    ):
        model_of("firmware.gone", "x")
    with pytest.raises(
        ModelError,
        match=r"firmware\.shard\.backoff\.x has no model; add `@model def x` to emulator\.models\.shard",
    ):
        model_of("firmware.shard.backoff", "x")


def test_an_ordered_field_publishes(world):
    world.ordered = (Outer.total,)
    world.g(OUTER).word = 1
    world.g(OUTER).total = 1
    assert [e.publish for e in world.effects] == [False, True]
