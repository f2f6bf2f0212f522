"""SMBIOS entry points and structures that may be anything."""

import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.memory import Region
from firmware.boot.smbios import (
    smbios_entry,
    smbios_read,
    smbios_serial,
    smbios_string,
    smbios_uuid,
    smbios_walk,
)
from firmware.layouts.memory import MEMORY
from firmware.layouts.smbios import SERIAL_MAX, SMBIOS, SmbiosEntry
from firmware.limits import MMIO_BYTES, PAGE, WINDOW_MMIO
from tests.support.lab import Lab
from tests.support.pages import ready, tables_region, walk

WINDOW_PAGES, LAST_PAGES = 64, 16
WINDOW_END = WINDOW_MMIO + MMIO_BYTES
LAB = Lab(
    smbios_read, smbios_entry, smbios_walk, smbios_uuid, smbios_string, smbios_serial,
    extra=[
        tables_region(),
        Region("device window", WINDOW_MMIO, WINDOW_PAGES * PAGE),
        Region("its end", WINDOW_END - LAST_PAGES * PAGE, LAST_PAGES * PAGE),
    ],
)  # fmt: skip
AREA, AREA_BYTES = WINDOW_MMIO, 0x1_0000
TABLE = AREA + AREA_BYTES
ID = uuid.UUID("4c4c4544-0057-4d10-8030-b4c04f4b5931")


@pytest.fixture(autouse=True)
def _fresh():
    LAB.reset()
    ready(LAB)
    LAB.machine.write(WINDOW_MMIO, bytes(WINDOW_PAGES * PAGE))


def summed(raw, at, size=None):
    """Return an entry point whose bytes sum to zero."""
    made = bytearray(raw)
    made[at] = -sum(made[: size or len(made)]) & 0xFF
    return bytes(made)


def entry64(address, size, *, length=0x18, version=(3, 3)):
    raw = b"_SM3_\0" + bytes([length, *version, 0, 1, 0])
    raw += size.to_bytes(4, "little") + address.to_bytes(8, "little")
    return summed(raw.ljust(32, b"\0"), 5, length)


def entry32(address, size, *, length=0x1F, version=(2, 8)):
    raw = b"_SM_\0" + bytes([length, *version]) + bytes(8) + b"_DMI_\0" + size.to_bytes(2, "little")
    raw += address.to_bytes(4, "little") + b"\x09\0\x28"
    return summed(raw.ljust(32, b"\0"), 4, length)


def structure(kind, body, *strings, length=None):
    head = bytes([kind, len(body) + 4 if length is None else length]) + kind.to_bytes(2, "little")
    return head + body + (b"\0".join(strings) + b"\0" if strings else b"\0") + b"\0"


def system(serial=3, identity=ID.bytes_le, strings=(b"Maker", b"Model", b"S-1"), more=b"\6\0\0"):
    return structure(1, bytes([1, 2, 0, serial]) + identity + more, *strings)


BIOS = structure(0, bytes(20), b"SeaBIOS", b"1.16")
END = structure(127, b"")


def found():
    machine = LAB.g(SMBIOS)
    return bytes(machine.uuid), bytes(machine.serial)[: machine.serial_len]


NOTHING = bytes(16), b""


# -- entry points ---------------------------------------------------------------------------------
def put(at, raw):
    LAB.machine.write(AREA + at, raw)


def entered():
    LAB.g(MEMORY).mmio_next = AREA
    LAB.g(SMBIOS).wipe()
    done = LAB.call(smbios_entry).outputs
    return done["rax"], done["ecx"], LAB.g(SMBIOS).entry, LAB.g(SMBIOS).version


@pytest.mark.parametrize("at", [0, 0x10, 0x5B20, 0xFFE0])
def test_smbios_entry_is_found_on_16_bytes(at):
    put(at, entry32(0x1234_5678, 0x345))
    assert entered() == (0x1234_5678, 0x345, SmbiosEntry.BITS32, 0x208)
    put(at, entry64(0x9_1234_5678, 0x12_3456))
    assert entered() == (0x9_1234_5678, 0x12_3456, SmbiosEntry.BITS64, 0x303)


def test_smbios_entry_of_64_bits_counts_wherever_it_lies():
    put(0x100, entry32(0x1000, 1))
    put(0x8000, entry64(0x2000, 2))
    assert entered()[0] == 0x2000


def damaged():
    for make, spans in ((entry64, [(0, 5), (6, 7)]), (entry32, [(0, 4), (5, 6), (16, 20)])):
        good = make(0x1000, 100)
        for start, stop in spans:
            for at in range(start, stop):
                yield make.__name__, at, good[:at] + bytes([good[at] ^ 0x21]) + good[at + 1 :]


@pytest.mark.parametrize(("form", "at", "raw"), list(damaged()))
def test_smbios_entry_with_a_wrong_anchor_or_length_is_none(form, at, raw):
    # The sum is right again: the anchor alone decides.
    put(0x40, summed(raw, 5 if form == "entry64" and at != 6 else 4 if form == "entry32" else 11))
    assert entered()[:3] == (0, 0, SmbiosEntry.NONE)


@pytest.mark.parametrize("make", [entry64, entry32])
def test_smbios_entry_with_a_wrong_sum_or_place_is_passed_over(make):
    good = make(0xBAD, 9)
    put(0x40, good[:12] + bytes([good[12] ^ 1]) + good[13:])
    put(0x88, good)
    assert entered()[0] == 0
    put(0x100, make(0x600D, 9))
    assert entered()[0] == 0x600D


@pytest.mark.parametrize(
    ("make", "least"), [(entry64, 0x18), (entry32, 0x1E)], ids=["64 bits", "32 bits"]
)
def test_smbios_entry_has_a_length_within_what_is_looked_at(make, least):
    for length, is_one in ((least - 1, False), (least, True), (32, True), (33, False), (0, False)):
        put(0x40, make(0x1000, 9, length=length) if length else make(0x1000, 9)[:6] + bytes(26))
        assert bool(entered()[0]) == is_one, length


def test_smbios_entry_at_the_very_end_of_the_area_is_none():
    put(0xFFF0, entry64(0x1000, 9)[:16])
    assert entered()[0] == 0


# -- structures -----------------------------------------------------------------------------------
def walked(table):
    at = LAB.put(table)
    LAB.call(smbios_walk, table=at, end=at + len(table))
    return found()


def test_smbios_system_information_wherever_it_is_listed():
    for before in (b"", BIOS, BIOS + structure(4, bytes(60)) + structure(17, bytes(30), b"DIMM")):
        assert walked(before + system() + END) == (ID.bytes_le, b"S-1")
        LAB.g(SMBIOS).wipe()


def test_smbios_uuid_of_an_old_version_is_as_it_lies_there():
    LAB.g(SMBIOS).version = 0x205
    assert walked(system(identity=ID.bytes))[0] == ID.bytes


def test_smbios_uuid_of_version_2_6_has_three_little_endian_fields():
    LAB.g(SMBIOS).version = 0x206
    assert walked(system())[0] == ID.bytes


@pytest.mark.parametrize("identity", [bytes(16), b"\xff" * 16])
def test_smbios_uuid_that_was_never_set_is_none(identity):
    assert walked(system(identity=identity)) == (bytes(16), b"S-1")


@pytest.mark.parametrize("half", [bytes(8) + b"\xff" * 8, b"\xff" * 8 + bytes(8)])
def test_smbios_uuid_of_odd_halves_is_one(half):
    assert walked(system(identity=half))[0] == half


def test_smbios_structure_of_version_2_0_has_a_serial_number_and_no_uuid():
    assert walked(structure(1, bytes([1, 2, 0, 3]), b"a", b"b", b"c")) == (bytes(16), b"c")
    LAB.g(SMBIOS).wipe()
    assert walked(structure(1, bytes([1, 2, 0]), b"a", b"b", b"c")) == NOTHING


@pytest.mark.parametrize("serial", [0, 4, 255])
def test_smbios_serial_that_names_no_string_is_none(serial):
    assert walked(system(serial=serial) + END)[1] == b""


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (b"VMware-56 4d 9e 4f-8a", b"VMware-56_4d_9e_4f-8a"),
        (b"7XK2   ", b"7XK2"),
        (b"   ", b""),
        (b"a\nb\x7f\xffc\x1b[0m", b"a_b__c_[0m"),
        (b"!~", b"!~"),
        (b"x" * SERIAL_MAX, b"x" * SERIAL_MAX),
        (b"y" * SERIAL_MAX + b"z", b"y" * SERIAL_MAX),
        (b"0123456789" * 30, (b"0123456789" * 30)[:SERIAL_MAX]),
    ],
)
def test_smbios_serial_is_one_printable_token(given, kept):
    assert walked(system(strings=(b"Maker", b"Model", given)) + END)[1] == kept


def test_smbios_walk_ends_where_it_is_told_to_or_where_a_structure_is_odd():
    rest = system() + END
    for odd in (END, structure(9, b"", length=3), structure(9, b"", length=0)):
        assert walked(BIOS + odd + rest) == NOTHING
    # A structure that would leave the table, and strings that never end.
    assert walked(BIOS + structure(9, bytes(4), length=200)) == NOTHING
    assert walked(BIOS + structure(9, bytes(4))[:-2] + b"endless\0") == NOTHING
    assert walked(b"") == NOTHING


def test_smbios_walk_at_every_cut_of_a_table():
    table = BIOS + system() + END
    for length in range(len(table)):
        LAB.g(SMBIOS).wipe()
        identity, serial = walked(table[:length])
        start = len(BIOS)
        assert (identity != bytes(16)) == (length >= start + 27)
        assert b"S-1".startswith(serial)


@settings(max_examples=60)
@given(data=st.data())
def test_smbios_walk_of_any_table(data):
    part = st.one_of(
        st.builds(
            structure,
            st.sampled_from([0, 1, 1, 4, 17, 127]),
            st.binary(max_size=30),
            st.binary(max_size=6).map(lambda s: s.replace(b"\0", b"x")),
            st.binary(max_size=6).map(lambda s: s.replace(b"\0", b"x")),
        ),
        st.binary(max_size=12),
        st.just(system()),
    )
    LAB.reset()
    LAB.g(SMBIOS).version = data.draw(st.sampled_from([0x200, 0x206]))
    walked(b"".join(data.draw(st.lists(part, max_size=5))))


# -- all of it ------------------------------------------------------------------------------------
def read(entry, table, at=0x123):
    put(0x5B20, entry)
    LAB.machine.write(TABLE + at, table)
    LAB.call(smbios_read)
    return found()


def test_smbios_read_maps_what_the_table_needs_and_no_more():
    table = BIOS + system() + END
    assert read(entry32(0x7FFE_0123, len(table)), table) == (ID.bytes, b"S-1")
    assert walk(LAB, TABLE) >> 12 & 0xF_FFFF == 0x7FFE0
    assert LAB.g(MEMORY).mmio_next == TABLE + PAGE


@pytest.mark.parametrize(
    ("size", "pages"), [(0, 1), (PAGE - 0x123, 1), (PAGE - 0x122, 2), (0x1_0000, 17), (2**31, 17)]
)
def test_smbios_read_bounds_what_it_maps(size, pages):
    table = (BIOS + system() + END)[:size]
    assert read(entry64(0x7FFE_0123, size), table) == ((ID.bytes, b"S-1") if size else NOTHING)
    assert LAB.g(MEMORY).mmio_next == TABLE + pages * PAGE


@pytest.mark.parametrize("address", [0, 2**32, 2**52, 2**64 - 1])
def test_smbios_read_refuses_a_table_that_no_bios_has(address):
    assert read(entry64(address, 0x1000), BIOS + system()) == NOTHING
    assert LAB.g(MEMORY).mmio_next == TABLE


def test_smbios_read_without_an_entry_point_knows_nothing():
    LAB.call(smbios_read)
    assert found() == NOTHING


@pytest.mark.parametrize("free", [0, 16])
def test_smbios_read_without_room_in_the_window_knows_nothing(free):
    start = WINDOW_END - free * PAGE
    LAB.g(MEMORY).mmio_next = start
    if free:
        LAB.machine.write(start, bytes(free * PAGE))
        LAB.machine.write(start + 0x5B20, entry32(0x7FFE_0123, 100))
    LAB.call(smbios_read)
    assert found() == NOTHING
    assert LAB.g(SMBIOS).entry == (SmbiosEntry.BITS32 if free else SmbiosEntry.NONE)
