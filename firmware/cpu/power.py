"""The power button and soft off, by ACPI's fixed hardware; neither needs an interrupt or AML."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.power import (
    POWER,
    POWER_BUTTON,
    SCI_EN,
    SLEEP_BITS,
    SLEEP_ENABLE,
    SLEEP_TYPE_SHIFT,
    Power,
)
from toolchain.asm import (
    AL,
    AX,
    CF,
    DX,
    EAX,
    ECX,
    EDX,
    NZ,
    RAX,
    RCX,
    RDX,
    Asm,
    E,
    Out,
    Z,
    routine,
)

ENABLE_READS = 100_000
"""Reads while the firmware switches to ACPI mode; a port read takes about a microsecond."""


@routine(
    clobbers=[RAX, RCX, RDX],
    reads=[
        Power.status,
        Power.enable,
        Power.control_a,
        Power.smi_command,
        Power.acpi_enable,
    ],
    source="ACPI 6.5, 4.8.2.1 and 5.2.9",
)
def power_arm(a: Asm) -> None:
    """Switch to ACPI mode, unless the machine is in it, and let the power button set its bit."""
    ready = a.label("ready")
    a.cmp(POWER.it.status, 0)
    with a.if_(E):
        a.ret()
    a.movzx(EDX, POWER.it.control_a)
    a.in_(AX, DX)
    a.test(AL, SCI_EN)
    a.jnz(ready)
    a.movzx(EDX, POWER.it.smi_command)
    a.test(EDX, EDX)
    a.jz(ready)
    a.mov(AL, POWER.it.acpi_enable)
    a.out(DX, AL)
    a.movzx(EDX, POWER.it.control_a)
    a.mov(ECX, ENABLE_READS)
    with a.loop() as waiting:
        a.in_(AX, DX)
        a.test(AL, SCI_EN)
        a.leave(NZ, waiting)
        a.dec(ECX)
        a.again(NZ, waiting)
    # What was pressed before counts for nothing. The other events stay off: nobody serves them.
    a.place(ready)
    a.movzx(EDX, POWER.it.status)
    a.mov(EAX, POWER_BUTTON)
    a.out(DX, AX)
    a.movzx(EDX, POWER.it.enable)
    a.out(DX, AX)
    a.ret()


@routine(
    outputs=[Out(CF, "1 = it was pressed since the last time")],
    clobbers=[RAX, RDX],
    reads=[Power.status],
    source="ACPI 6.5, 4.8.2.2.1.1",
)
def power_pressed(a: Asm) -> None:
    """Look at the power button and take its bit back."""
    none = a.label("none")
    a.movzx(EDX, POWER.it.status)
    a.test(EDX, EDX)
    a.jz(none)
    a.in_(AX, DX)
    a.test(EAX, POWER_BUTTON)
    a.jz(none)
    a.mov(EAX, POWER_BUTTON)
    a.out(DX, AX)
    a.stc()
    a.ret()
    a.place(none)
    a.clc()
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[Power.off_known, Power.off_a, Power.off_b, Power.control_a, Power.control_b],
    source="ACPI 6.5, 7.4.2 and 4.8.3.2.1",
)
def power_off(a: Asm) -> None:
    """Go to soft off; return when the machine does not know how, or does not obey."""
    with a.block() as unknown:
        a.cmp(POWER.it.off_known, 0)
        a.leave(Z, unknown)
        # Type first, then type and enable together, block by block.
        for port, kind in (
            (POWER.it.control_a, POWER.it.off_a),
            (POWER.it.control_b, POWER.it.off_b),
        ):  # fmt: skip - two blocks, unrolled
            with a.block() as absent:
                a.movzx(EDX, port)
                a.test(EDX, EDX)
                a.leave(Z, absent)
                a.movzx(ECX, kind)
                a.shl(ECX, SLEEP_TYPE_SHIFT)
                a.in_(AX, DX)
                a.and_(EAX, ~(SLEEP_BITS | SLEEP_ENABLE) & 0xFFFF)
                a.or_(EAX, ECX)
                a.out(DX, AX)
                a.or_(EAX, SLEEP_ENABLE)
                a.out(DX, AX)
    a.ret()
