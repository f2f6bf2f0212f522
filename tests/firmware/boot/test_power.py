"""What the ACPI tables tell of the power button and of soft off, whatever they hold."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.environment import Environment
from emulator.memory import Region
from firmware.boot.power import acpi_dsdt, acpi_power, acpi_soft_off
from firmware.layouts.memory import MEMORY
from firmware.layouts.power import POWER
from firmware.limits import MMIO_BYTES, PAGE, WINDOW_MMIO
from tests.support.lab import Lab
from tests.support.pages import ready, tables_region

WINDOW_END = WINDOW_MMIO + MMIO_BYTES
LAB = Lab(
    acpi_power, acpi_dsdt, acpi_soft_off,
    extra=[
        tables_region(),
        Region("device window", WINDOW_MMIO, 256 * PAGE),
        Region("its end", WINDOW_END - 2 * PAGE, 2 * PAGE),
    ],
)  # fmt: skip
FADT_AT = WINDOW_MMIO + 200 * PAGE
PHYSICAL = 0x1FE_0123
HEAD = bytes(36)
# As QEMU's i440fx and other machines write it: name, package, length, count, elements.
S5 = {
    "zeros": (b"\x08_S5_\x12\x06\x04\0\0\0\0", (0, 0)),
    "bytes": (b"\x08_S5_\x12\x0a\x04\x0a\x05\x0a\x07\0\0", (5, 7)),
    "one": (b"\x08_S5_\x12\x07\x04\x01\x0a\0\0\0", (1, 0)),
    "long": (b"\x08_S5_\x12\x47\x00\x04\x0a\x02\x0a\x03\0\0", (2, 3)),
    "longest": (b"\x08_S5_\x12\xc7\0\0\0\x04\x0a\x06\x0a\x06", (6, 6)),
}
# What is called _S5_ and is not the package.
OTHERS = (
    b"\x14_S5_\x00\x0a\x05\x0a\x05\0\0\0\0\0",
    b"\x08_S5_\x12\x06\x04\x0a\x08\0\0\0\0\0\0",
    b"\x08_S5_\x12\x06\x04\0\x0a\x08\0\0\0\0\0",
    b"\x08_S5_\x12\x06\x04\x02\0\0\0\0\0\0\0\0",
    b"\x08_S5_\x12\x06\x04\0\xff\0\0\0\0\0\0\0",
)


def search(text):
    """Let the routine search a DSDT that ends where nothing is mapped."""
    LAB.reset()
    return LAB.call(acpi_soft_off, table=LAB.put(text), length=len(text)).outputs


@pytest.mark.parametrize("name", S5)
@pytest.mark.parametrize("before", [0, 1, 37])
def test_the_package_is_found_wherever_it_lies(name, before):
    text, (first, second) = S5[name]
    got = search(HEAD + b"x" * before + text + bytes(14))
    assert (got["cf"], got["eax"]) == (0, first | second << 8)


def test_the_last_place_where_it_fits_counts():
    text, (first, second) = S5["bytes"]
    name = text[1:15].ljust(14, b"\0")
    assert search(HEAD + name)["eax"] == first | second << 8
    assert search(HEAD + name[:-1])["cf"] == 1


@pytest.mark.parametrize("other", OTHERS)
def test_what_does_not_look_like_it_is_passed_over(other):
    assert search(HEAD + other + bytes(20))["cf"] == 1
    assert search(HEAD + other + S5["bytes"][0] + bytes(14))["eax"] == 5 | 7 << 8


@settings(max_examples=60)
@given(parts=st.lists(st.sampled_from([b"_S5_", b"\x12", b"\0", b"\x0a", b"\x01\x07", b"\xc0"])))
def test_any_program_matches_model(parts):
    search(HEAD + b"".join(parts) + bytes(14))


def prepare(dsdt=HEAD + S5["bytes"][0] + bytes(14), *, length=None, **fields):
    """Lay a FADT and its DSDT down; fields are offset, size and value by name."""
    LAB.reset()
    ready(LAB)
    LAB.machine.write(WINDOW_MMIO, bytes(256 * PAGE))
    values = {
        "fadt_bytes": (4, 4, 116), "dsdt": (40, 4, PHYSICAL), "smi": (48, 4, 0xB2),
        "enable": (52, 1, 0xF1), "event": (56, 4, 0x600), "control_a": (64, 4, 0x604),
        "control_b": (68, 4, 0), "event_length": (88, 1, 4), "control_length": (89, 1, 2),
        "flags": (112, 4, 0xA5),
    }  # fmt: skip
    raw = bytearray(116)
    raw[:4] = b"FACP"
    for name, (at, size, value) in values.items():
        raw[at : at + size] = fields.get(name, value).to_bytes(size, "little")
    LAB.machine.write(FADT_AT, bytes(raw))
    LAB.g(POWER).fadt = FADT_AT
    size = len(dsdt) if length is None else length
    text = b"DSDT" + size.to_bytes(4, "little") + dsdt[8:]
    # It is mapped twice: its head in two pages, then all of it.
    for at in (WINDOW_MMIO, WINDOW_MMIO + 2 * PAGE):
        LAB.machine.write(at + PHYSICAL % PAGE, text)


def power():
    ports = {"in": lambda _port, _size: 1}
    LAB.call(acpi_power, Environment(on_port_in=ports["in"]))
    return LAB.g(POWER)


def test_ports_and_sleep_types_are_taken_from_the_tables():
    prepare(control_b=0x700)
    got = power()
    assert (got.status, got.enable, got.control_a, got.control_b) == (0x600, 0x602, 0x604, 0x700)
    assert (got.smi_command, got.acpi_enable) == (0xB2, 0xF1)
    assert (got.off_known, got.off_a, got.off_b) == (1, 5, 7)


@pytest.mark.parametrize(
    ("fields", "status", "control", "off"),
    [
        ({"fadt_bytes": 115}, 0, 0, 0),
        ({"flags": 1 << 20}, 0, 0, 0),
        ({"control_a": 0}, 0, 0, 0),
        ({"control_a": 0x1_0000}, 0, 0, 0),
        ({"control_length": 1}, 0, 0, 0),
        ({"flags": 1 << 4}, 0, 0x604, 1),
        ({"event": 0x1_0000}, 0, 0x604, 1),
        ({"event_length": 3}, 0, 0x604, 1),
        ({"smi": 0x1_0000}, 0x600, 0x604, 1),
        ({"control_b": 0x1_0000}, 0x600, 0x604, 1),
    ],
)
def test_what_cannot_be_used_is_left_alone(fields, status, control, off):
    prepare(**fields)
    got = power()
    assert (got.status, got.control_a, got.off_known) == (status, control, off)


@pytest.mark.parametrize("length", [0, 49, 512 * 1024 + 1, 2**32 - 1])
def test_a_dsdt_of_an_unlikely_length_is_not_searched(length):
    prepare(length=length)
    assert power().off_known == 0


def test_a_dsdt_without_the_package_leaves_soft_off_unknown():
    prepare(HEAD + bytes(60))
    got = power()
    assert (got.status, got.off_known) == (0x600, 0)


def test_without_a_fadt_nothing_is_known():
    prepare()
    LAB.g(POWER).fadt = 0
    got = power()
    assert (got.status, got.control_a, got.off_known) == (0, 0, 0)


@pytest.mark.parametrize("free", [0, 2])
def test_a_full_window_leaves_soft_off_unknown(free):
    prepare()
    start = WINDOW_END - free * PAGE
    LAB.g(MEMORY).mmio_next = start
    if free:
        LAB.machine.write(start + PHYSICAL % PAGE, b"DSDT" + (100).to_bytes(4, "little"))
    assert power().off_known == 0
    assert LAB.g(MEMORY).mmio_next == WINDOW_END


def test_a_dsdt_of_many_pages_is_mapped_whole():
    dsdt = HEAD + b"x" * (5 * PAGE) + S5["one"][0] + bytes(14)
    prepare(dsdt)
    assert power().off_known == 1
    # Two pages for the head, then as many as it touches.
    pages = (PHYSICAL % PAGE + len(dsdt) + PAGE - 1) // PAGE
    assert LAB.g(MEMORY).mmio_next == WINDOW_MMIO + (2 + pages) * PAGE
