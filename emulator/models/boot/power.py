"""What the ACPI tables tell of the power button and of soft off."""

from emulator.effects import World, model
from emulator.models.boot.acpi import acpi_window
from emulator.models.cpu.power import power_arm
from emulator.models.memory.windows import mmio_map
from firmware.layouts.power import POWER
from firmware.limits import PAGE

NAME = b"_S5_\x12"
LEAST, MOST = 36 + 14, 512 * 1024


def _sleep_type(text: bytes) -> tuple[int, int] | None:
    """Return a constant from 0 to 7 and its bytes."""
    if text[0] <= 1:
        return text[0], 1
    return (text[1], 2) if text[0] == 0x0A and text[1] <= 7 else None


@model
def acpi_soft_off(w: World, table: int, length: int) -> tuple[int, int | None]:
    """The first package of that name whose first two elements are sleep types."""
    text = w.read(table, length)
    for at in range(36, length - 14 + 1):
        if text[at : at + 5] != NAME:
            continue
        element = at + 7 + (text[at + 5] >> 6)
        first = _sleep_type(text[element : element + 2])
        if first is None:
            continue
        second = _sleep_type(text[element + first[1] : element + first[1] + 2])
        if second is not None:
            return 0, first[0] | second[0] << 8
    return 1, None


@model
def acpi_dsdt(w: World, physical: int) -> tuple[int, int]:
    """The head tells the length, within a bound; then the whole is mapped."""
    head = acpi_window(w, physical)
    size = w.u32(head + 4) if head else 0
    if not LEAST <= size <= MOST:
        return 0, 0
    offset = physical % PAGE
    start = mmio_map(w, physical - offset, (offset + size + PAGE - 1) // PAGE)
    return (start + offset, size) if start else (0, 0)


@model
def acpi_power(w: World) -> None:
    """Ports below 64 K in blocks that are long enough; a control block is what it takes."""
    power = w.g(POWER)
    fadt = power.fadt
    if not fadt or w.u32(fadt + 4) < 116:
        return
    flags = w.u32(fadt + 112)

    def port(at: int, size_at: int, least: int) -> int:
        found = w.u32(fadt + at)
        return found if found <= 0xFFFF and w.u8(fadt + size_at) >= least else 0

    control = port(64, 89, 2)
    if flags & 1 << 20 or not control:
        return
    power.control_a, power.control_b = control, port(68, 89, 2)
    command = w.u32(fadt + 48)
    if command <= 0xFFFF:
        power.smi_command = command
    power.acpi_enable = w.u8(fadt + 52)
    if not flags & 1 << 4:
        power.status = event = port(56, 88, 4)
        power.enable = event + w.u8(fadt + 88) // 2
    table, size = acpi_dsdt(w, w.u32(fadt + 40))
    if table:
        unknown, types = acpi_soft_off(w, table, size)
        if not unknown and types is not None:
            power.off_a, power.off_b, power.off_known = types & 0xFF, types >> 8, 1
    power_arm(w)
