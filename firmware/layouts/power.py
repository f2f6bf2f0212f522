"""The ACPI fixed hardware that the node uses: the power button and the way to soft off."""

from __future__ import annotations

from toolchain.layout import Global, Struct, ptr, u8, u16

SCI_EN = 1 << 0
"""PM1 control: the machine is in ACPI mode (ACPI 6.5, table 4.18)."""
SLEEP_TYPE_SHIFT = 10
SLEEP_ENABLE = 1 << 13
SLEEP_BITS = 0b111 << SLEEP_TYPE_SHIFT
POWER_BUTTON = 1 << 8
"""PM1 status and enable (tables 4.16 and 4.17)."""


class Power(Struct):
    """Ports of the PM1 blocks; 0 = the machine has none that can be used."""

    SIZE = 0x20
    fadt = ptr(0x00, "the FADT, mapped; 0 = none was found")
    status = u16(0x08, "PM1a event block: status; 0 = no fixed power button")
    enable = u16(0x0A, "the same block: enable")
    control_a = u16(0x0C, "PM1a control block")
    control_b = u16(0x0E, "PM1b control block; 0 = none")
    smi_command = u16(0x10, "port that asks the firmware for ACPI mode; 0 = always on")
    acpi_enable = u8(0x12, "what to write there")
    off_known = u8(0x13, "1 = the sleep types of soft off were found")
    off_a = u8(0x14, "SLP_TYPa of S5")
    off_b = u8(0x15, "SLP_TYPb of S5")


POWER = Global("power", Power, "power button and soft off")
