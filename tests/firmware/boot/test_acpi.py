"""The way to the PM timer through tables that may be anything."""

import pytest

from emulator.memory import Region
from firmware.boot.acpi import BIOS_PAGES, acpi_pm_timer, acpi_root, acpi_window
from firmware.layouts.memory import MEMORY
from firmware.limits import MMIO_BYTES, PAGE, WINDOW_MMIO
from tests.support.lab import Lab
from tests.support.pages import ready, tables_region, walk

WINDOW_END, LAST_PAGES = WINDOW_MMIO + MMIO_BYTES, 40
LAB = Lab(
    acpi_pm_timer, acpi_root, acpi_window,
    extra=[
        tables_region(),
        Region("device window", WINDOW_MMIO, 256 * PAGE),
        Region("its end", WINDOW_END - LAST_PAGES * PAGE, LAST_PAGES * PAGE),
    ],
)  # fmt: skip
BIOS = WINDOW_MMIO
RSDT_AT = BIOS + BIOS_PAGES * PAGE
FIRST_AT = RSDT_AT + 2 * PAGE


def root(at, rsdt=0x1234_5678, *, good=True):
    """Put an RSDP `at` bytes into the BIOS area."""
    raw = bytearray(b"RSD PTR \0QEMU  \0" + rsdt.to_bytes(4, "little"))
    raw[8] = -sum(raw) + (not good) & 0xFF
    LAB.machine.write(BIOS + at, bytes(raw))


def table(at, entries, length=None):
    """Put an RSDT at an address of the window."""
    size = 36 + 4 * len(entries) if length is None else length
    raw = b"RSDT" + size.to_bytes(4, "little") + bytes(28)
    LAB.machine.write(at, raw + b"".join(e.to_bytes(4, "little") for e in entries))


def fadt(at, port=0x608, size=4, name=b"FACP"):
    """Put a FADT at an address of the window."""
    raw = bytearray(116)
    raw[:4], raw[76:80], raw[91] = name, port.to_bytes(4, "little"), size
    LAB.machine.write(at, bytes(raw))


def prepare():
    LAB.reset()
    ready(LAB)
    LAB.machine.write(WINDOW_MMIO, bytes(256 * PAGE))


def port():
    return LAB.call(acpi_pm_timer).outputs["eax"]


def test_acpi_window_maps_two_pages_and_keeps_the_offset():
    prepare()
    got = LAB.call(acpi_window, physical=0x1FFE_1F7B).outputs["rax"]
    assert got == WINDOW_MMIO + 0xF7B
    assert walk(LAB, WINDOW_MMIO) >> 12 & 0xF_FFFF == 0x1FFE1
    assert walk(LAB, WINDOW_MMIO + PAGE) >> 12 & 0xF_FFFF == 0x1FFE2
    LAB.g(MEMORY).mmio_next = WINDOW_MMIO + MMIO_BYTES
    assert LAB.call(acpi_window, physical=0x1FFE_1F7B).outputs["rax"] == 0


@pytest.mark.parametrize("at", [0, 16, 0x1_5A30, 0x1_FFE0])
def test_acpi_root_is_found_on_16_bytes(at):
    prepare()
    root(at)
    assert LAB.call(acpi_root).outputs["eax"] == 0x1234_5678


def test_acpi_root_wrong_sum_or_place_is_passed_over():
    prepare()
    root(0x100, 0xBAD, good=False)
    root(0x208, 0xBAD)
    assert LAB.call(acpi_root).outputs["eax"] == 0
    prepare()
    root(0x100, 0xBAD, good=False)
    root(0x400, 0x600D)
    assert LAB.call(acpi_root).outputs["eax"] == 0x600D


def test_acpi_pm_timer_of_the_fadt_wherever_it_is_listed():
    prepare()
    root(0x5A30, 0x1FE_0123)
    table(RSDT_AT + 0x123, [0x2000_0000, 0x2100_0456, 0x2200_0000])
    fadt(FIRST_AT, name=b"APIC")
    fadt(FIRST_AT + 2 * PAGE + 0x456)
    assert port() == 0x608


@pytest.mark.parametrize(
    ("count", "length", "given"),
    [
        (0, None, {}),
        (1, 35, {}),
        (1, 0, {}),
        (1, None, {"name": b"SSDT"}),
        (1, None, {"size": 0}),
        (1, None, {"port": 0x1_0000}),
    ],
)
def test_acpi_pm_timer_that_cannot_be_had_is_none(count, length, given):
    prepare()
    root(0x5A30, 0x1FE_0000)
    table(RSDT_AT, [0x2000_0000] * count, length)
    fadt(FIRST_AT, **given)
    assert port() == 0


def test_acpi_pm_timer_without_root_is_none():
    prepare()
    assert port() == 0


@pytest.mark.parametrize("free", [0, BIOS_PAGES, BIOS_PAGES + 2, BIOS_PAGES + 4])
def test_acpi_pm_timer_window_that_fills_up_gives_none(free):
    prepare()
    start = WINDOW_END - free * PAGE
    LAB.machine.write(WINDOW_END - LAST_PAGES * PAGE, bytes(LAST_PAGES * PAGE))
    LAB.g(MEMORY).mmio_next = start
    if free:
        root(start - BIOS + 0x5A30, 0x1FE_0000)
    if free > BIOS_PAGES:
        table(start + BIOS_PAGES * PAGE, [0x2000_0000])
    if free > BIOS_PAGES + 2:
        fadt(start + (BIOS_PAGES + 2) * PAGE)
    assert port() == (0x608 if free > BIOS_PAGES + 2 else 0)


def test_acpi_pm_timer_looks_at_64_tables_at_most():
    prepare()
    root(0x5A30, 0x1FE_0000)
    table(RSDT_AT, [0x2000_0000] * 70, 36 + 4 * 70)
    for n in range(70):
        fadt(FIRST_AT + 2 * n * PAGE, name=b"FACP" if n == 65 else b"SSDT")
    assert port() == 0
