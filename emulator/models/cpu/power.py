"""ACPI fixed hardware: the power button and soft off."""

from emulator.effects import World, model
from firmware.cpu.power import ENABLE_READS
from firmware.layouts.power import POWER

SCI, BUTTON, ENABLE = 1, 0x100, 0x2000


@model
def power_arm(w: World) -> None:
    """ACPI mode by the firmware's own port, waited for within a bound; then the button alone."""
    power = w.g(POWER)
    if not power.status:
        return
    if not w.port_in(power.control_a, 2) & SCI and power.smi_command:
        w.port_out(power.smi_command, power.acpi_enable)
        for _ in range(ENABLE_READS):
            if w.port_in(power.control_a, 2) & SCI:
                break
    w.port_out(power.status, BUTTON, 2)
    w.port_out(power.enable, BUTTON, 2)


@model
def power_pressed(w: World) -> int:
    """The bit is cleared by writing it."""
    status = w.g(POWER).status
    if not status or not w.port_in(status, 2) & BUTTON:
        return 0
    w.port_out(status, BUTTON, 2)
    return 1


@model
def power_off(w: World) -> None:
    """Both control blocks, each first with the type alone."""
    power = w.g(POWER)
    blocks = ((power.control_a, power.off_a), (power.control_b, power.off_b))
    for port, kind in blocks if power.off_known else ():
        if port:
            value = w.port_in(port, 2) & ~0x3C00 | kind << 10
            w.port_out(port, value, 2)
            w.port_out(port, value | ENABLE, 2)
