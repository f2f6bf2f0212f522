"""ACPI: where the PM timer is."""

from emulator.effects import World, model
from emulator.models.memory.windows import mmio_map
from firmware.layouts.power import POWER
from firmware.limits import PAGE


@model
def acpi_window(w: World, physical: int) -> int:
    """Two pages from the one that holds the address."""
    start = mmio_map(w, physical // PAGE * PAGE, 2)
    return start + physical % PAGE if start else 0


@model
def acpi_root(w: World) -> int:
    """The first structure with the right signature and sum; its RSDT."""
    start = mmio_map(w, 0xE_0000, 32)
    if not start:
        return 0
    area = w.read(start, 32 * PAGE)
    for at in range(0, len(area), 16):
        root = area[at : at + 20]
        if root[:8] == b"RSD PTR " and sum(root) % 256 == 0:
            return int.from_bytes(root[16:20], "little")
    return 0


@model
def acpi_fadt(w: World) -> int:
    """The first FADT among the first 64 tables."""
    root = acpi_root(w)
    if not root:
        return 0
    table = acpi_window(w, root)
    if not table:
        return 0
    size = w.u32(table + 4)
    for n in range(min(64, (size - 36) // 4) if size >= 36 else 0):
        entry = acpi_window(w, w.u32(table + 36 + 4 * n))
        if not entry or w.read(entry, 4) == b"FACP":
            return entry
    return 0


@model
def acpi_pm_timer(w: World) -> int:
    """A block of four bytes at a port."""
    fadt = acpi_fadt(w)
    w.g(POWER).fadt = fadt
    if not fadt or w.u8(fadt + 91) != 4 or w.u32(fadt + 76) > 0xFFFF:
        return 0
    return w.u32(fadt + 76)
