"""What the ACPI tables tell of the power button and of soft off.

The sleep types of soft off stand in the DSDT, which is a program; the package that holds them is looked for
by its name, as small systems do, and what does not look like it is not believed.
"""

from firmware.abi import CALLER_SAVED
from firmware.boot.acpi import ACPI, HEADER_BYTES, HEADER_LENGTH, acpi_window
from firmware.cpu.power import power_arm
from firmware.layouts.power import POWER, Power
from firmware.limits import PAGE
from firmware.memory import mmio_map
from toolchain.asm import (
    AE,
    AL,
    AX,
    BE,
    CF,
    EAX,
    EBX,
    ECX,
    EDI,
    EDX,
    ESI,
    NE,
    NZ,
    R8D,
    R12,
    R12D,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    C,
    E,
    In,
    Label,
    Out,
    Reg32,
    Reg64,
    mem8,
    mem32,
    routine,
)

FADT_BYTES = 116
"""Every field that is read lies in the table of ACPI 1.0."""
FADT_DSDT, FADT_SMI_COMMAND, FADT_ACPI_ENABLE = 40, 48, 52
FADT_EVENT_A, FADT_CONTROL_A, FADT_CONTROL_B = 56, 64, 68
FADT_EVENT_LENGTH, FADT_CONTROL_LENGTH, FADT_FLAGS = 88, 89, 112
BUTTON_IS_A_DEVICE, HARDWARE_REDUCED = 1 << 4, 1 << 20
DSDT_BYTES_MAX = 512 * 1024
S5_NAME = int.from_bytes(b"_S5_", "little")
PACKAGE, BYTE_PREFIX = 0x12, 0x0A
S5_BYTES = 14
"""Name, package, up to four bytes of length, count, two elements of up to two bytes."""
SLEEP_TYPE_MAX = 7
PORT_MAX = 0xFFFF


def _element(a: Asm, other: Label, *, more: bool) -> None:
    """EAX := the constant at RDI, a sleep type; RDI moves behind it when there is more to read."""
    a.movzx(EAX, mem8(RDI, ref=ACPI))
    a.cmp(EAX, BYTE_PREFIX)
    with a.if_(E):
        a.movzx(EAX, mem8(RDI, 1, ref=ACPI))
        if more:
            a.inc(RDI)
        a.cmp(EAX, SLEEP_TYPE_MAX)
        a.j(A, other)
    with a.else_():
        a.cmp(EAX, 1)  # ZeroOp and OneOp are what they say
        a.j(A, other)
    if more:
        a.inc(RDI)


@routine(
    inputs=[In(RSI, int, "the DSDT"), In(ECX, int, "its bytes, at least 50")],
    outputs=[
        Out(CF, "1 = it does not tell"),
        Out(EAX, "SLP_TYPa | SLP_TYPb << 8, when CF is 0"),
    ],
    clobbers=[RCX, RDX, RSI, RDI, R8D],
    reads=[ACPI],
    source="ACPI 6.5, 7.4.2 and 20.2.4",
)
def acpi_soft_off(a: Asm, table: Reg64, length: Reg32) -> None:
    """Find the package _S5_ and read its first two elements."""
    a.mov(EDX, length)
    a.lea(RDX, mem8(RSI, -S5_BYTES, index=RDX, ref=ACPI))
    a.add(RSI, HEADER_BYTES)
    with a.loop() as search:
        a.cmp(RSI, RDX)
        a.leave(A, search)
        other = a.label("other")
        a.cmp(mem32(RSI, ref=ACPI), S5_NAME)
        a.j(NE, other)
        a.cmp(mem8(RSI, 4, ref=ACPI), PACKAGE)
        a.j(NE, other)
        # The two high bits of a package length count the bytes that follow it.
        a.movzx(ECX, mem8(RSI, 5, ref=ACPI))
        a.shr(ECX, 6)
        a.lea(RDI, mem8(RSI, 7, index=RCX, ref=ACPI))
        _element(a, other, more=True)
        a.mov(R8D, EAX)
        _element(a, other, more=False)
        a.shl(EAX, 8)
        a.or_(EAX, R8D)
        a.clc()
        a.ret()
        a.place(other)
        a.inc(RSI)
        a.jmp(search.top)
    a.xor(EAX, EAX)
    a.stc()
    a.ret()


@routine(
    inputs=[In(EDI, int, "physical address below 4 GB")],
    outputs=[Out(RSI, "the DSDT, mapped; 0 = it is not usable"), Out(ECX, "its bytes")],
    clobbers=CALLER_SAVED,
    reads=[ACPI],
    calls=[acpi_window, mmio_map],
    saves=[RBX, R12],
    source="ACPI 6.5, 5.2.11.1",
)
def acpi_dsdt(a: Asm, physical: Reg32) -> None:
    """Map a whole DSDT, by the length in its head."""
    none = a.label("none")
    a.mov(EBX, physical)
    a.call(acpi_window)
    a.test(RAX, RAX)
    a.jz(none)
    a.mov(R12D, mem32(RAX, HEADER_LENGTH, ref=ACPI))
    a.lea(EAX, mem8(R12, -(HEADER_BYTES + S5_BYTES), ref=ACPI))
    a.cmp(EAX, DSDT_BYTES_MAX - HEADER_BYTES - S5_BYTES)
    a.j(A, none)
    a.mov(EDI, EBX)
    a.and_(EDI, -PAGE)
    a.and_(EBX, PAGE - 1)
    a.lea(ESI, mem8(RBX, PAGE - 1, index=R12, ref=ACPI))
    a.shr(ESI, 12)
    a.call(mmio_map)
    a.test(RAX, RAX)
    a.jz(none)
    a.lea(RSI, mem8(RAX, index=RBX, ref=ACPI))
    a.mov(ECX, R12D)
    a.ret()
    a.place(none)
    a.xor(ESI, ESI)
    a.xor(ECX, ECX)
    a.ret()


def _port(a: Asm, at: int, length_at: int = 0, least: int = 0) -> None:
    """EAX := the port of a block of the FADT at RBX; 0 when it is none, or too short."""
    a.mov(EAX, mem32(RBX, at, ref=ACPI))
    with a.block() as good:
        bad = a.label("bad")
        a.cmp(EAX, PORT_MAX)
        if not least:
            a.leave(BE, good)
        else:
            a.j(A, bad)
            a.cmp(mem8(RBX, length_at, ref=ACPI), least)
            a.leave(AE, good)
            a.place(bad)
        a.xor(EAX, EAX)


@routine(
    clobbers=CALLER_SAVED,
    reads=[ACPI, Power.fadt],
    writes=[
        Power.status,
        Power.enable,
        Power.control_a,
        Power.control_b,
        Power.smi_command,
        Power.acpi_enable,
        Power.off_known,
        Power.off_a,
        Power.off_b,
    ],
    calls=[acpi_dsdt, acpi_soft_off, power_arm],
    saves=[RBX],
    source="ACPI 6.5, 5.2.9, table 5.9",
)
def acpi_power(a: Asm) -> None:
    """Take the PM1 blocks from the FADT and the sleep types from the DSDT, and arm the button."""
    power, none = POWER.it, a.label("none")
    a.mov(RBX, power.fadt)
    a.test(RBX, RBX)
    a.jz(none)
    a.cmp(mem32(RBX, HEADER_LENGTH, ref=ACPI), FADT_BYTES)
    a.j(B, none)
    a.test(mem32(RBX, FADT_FLAGS, ref=ACPI), HARDWARE_REDUCED)
    a.jnz(none)
    _port(a, FADT_CONTROL_A, FADT_CONTROL_LENGTH, 2)
    a.test(EAX, EAX)
    a.jz(none)
    a.mov(power.control_a, AX)
    _port(a, FADT_CONTROL_B)  # as long as the other
    a.mov(power.control_b, AX)
    a.mov(EAX, mem32(RBX, FADT_SMI_COMMAND, ref=ACPI))
    a.cmp(EAX, PORT_MAX)
    with a.if_(BE):
        a.mov(power.smi_command, AX)
    a.mov(AL, mem8(RBX, FADT_ACPI_ENABLE, ref=ACPI))
    a.mov(power.acpi_enable, AL)

    # A button that is a device of its own speaks AML, which nobody here runs.
    with a.block() as device:
        a.test(mem32(RBX, FADT_FLAGS, ref=ACPI), BUTTON_IS_A_DEVICE)
        a.leave(NZ, device)
        _port(a, FADT_EVENT_A, FADT_EVENT_LENGTH, 4)
        a.mov(power.status, AX)
        a.movzx(ECX, mem8(RBX, FADT_EVENT_LENGTH, ref=ACPI))
        a.shr(ECX, 1)
        a.add(EAX, ECX)
        a.mov(power.enable, AX)

    with a.block() as untold:
        a.mov(EDI, mem32(RBX, FADT_DSDT, ref=ACPI))
        a.call(acpi_dsdt)
        a.test(RSI, RSI)
        a.leave(E, untold)
        a.call(acpi_soft_off)
        a.leave(C, untold)
        a.mov(power.off_a, AL)
        a.shr(EAX, 8)
        a.mov(power.off_b, AL)
        a.mov(power.off_known, 1)
    a.jmp(power_arm)
    a.place(none)
    a.ret()
