"""A boot whose calibration refuses, as on a host that is always late: the timers are found, no more."""

from firmware.abi import CALLER_SAVED
from firmware.boot.acpi import acpi_pm_timer
from firmware.layouts.node import CLOCK, Clock
from toolchain.asm import EAX, Asm, routine


@routine(
    clobbers=CALLER_SAVED,
    writes=[Clock.pm_port],
    calls=[acpi_pm_timer],
    source="firmware/docs/clock.md#retry",
)
def clock_setup(a: Asm) -> None:
    """Leave the clock uncalibrated."""
    a.call(acpi_pm_timer)
    a.mov(CLOCK.it.pm_port, EAX)
    a.ret()
