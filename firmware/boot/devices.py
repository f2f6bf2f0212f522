"""Devices that the boot settles: which NIC, which source of random bytes, and the watchdog."""

from firmware.abi import CALLER_SAVED
from firmware.cpu.watchdog import RELOAD, UNLOCK_1, UNLOCK_2, watchdog_kick
from firmware.layouts.boot import BOOT, BootInfo
from firmware.layouts.cpu import WATCHDOG, WATCHDOG_REGISTERS, Watchdog, WatchdogState
from firmware.layouts.pci import (
    BUS_FUNCTIONS,
    FUNCTIONS,
    I6300ESB,
    VIRTIO_NET_MODERN,
    VIRTIO_NET_TRANSITIONAL,
    VIRTIO_RNG_MODERN,
    VIRTIO_RNG_TRANSITIONAL,
    PciCommand,
)
from firmware.memory import mmio_map
from firmware.pci import (
    pci_bar,
    pci_command,
    pci_find,
    pci_read,
    pci_read8,
    pci_read16,
    pci_write8,
    pci_write16,
)
from toolchain.asm import (
    EAX,
    EBX,
    ECX,
    EDI,
    EDX,
    ESI,
    R8D,
    R9D,
    R10D,
    RAX,
    RBX,
    RDI,
    Asm,
    C,
    Z,
    mem16,
    mem32,
    routine,
)

WATCHDOG_CONFIG, WATCHDOG_LOCK = 0x60, 0x68
TIMER_1, TIMER_2 = 0x00, 0x04
STAGE_TICKS = 5 << 10
"""Five seconds in each of the two stages: ten until the reset."""
REBOOT_DISABLED = 1 << 5
ENABLED = 1 << 1


@routine(
    clobbers=CALLER_SAVED,
    reads=[BootInfo.nic_known, BootInfo.nic_function, BootInfo.nic_identity],
    writes=[BootInfo.nic_known, BootInfo.nic_function],
    calls=[pci_read, pci_find],
    source="firmware/docs/boot.md#nic",
)
def boot_nic(a: Asm) -> None:
    """Settle the NIC: the one that the ROM named when the bus agrees, else the first virtio-net."""
    search = a.label("search")
    a.cmp(BOOT.it.nic_known, 0)
    a.j(Z, search)
    a.mov(EDI, BOOT.it.nic_function)
    a.xor(ECX, ECX)  # PciRegister.IDENTITY
    a.call(pci_read)
    a.cmp(EAX, BOOT.it.nic_identity)
    with a.if_(Z):
        a.ret()
    a.mov(BOOT.it.nic_known, 0)
    a.place(search)
    a.mov(R8D, VIRTIO_NET_TRANSITIONAL)
    a.mov(R9D, VIRTIO_NET_MODERN)
    a.mov(R10D, FUNCTIONS)
    a.call(pci_find)
    a.mov(BOOT.it.nic_function, EDI)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    writes=[BootInfo.rng_function],
    calls=[pci_find],
    source="firmware/docs/boot.md#entropy",
)
def boot_rng(a: Asm) -> None:
    """Find the first virtio-rng, on buses that bridges lead to: all others cost a machine without one."""
    a.mov(R8D, VIRTIO_RNG_TRANSITIONAL)
    a.mov(R9D, VIRTIO_RNG_MODERN)
    a.mov(R10D, BUS_FUNCTIONS)
    a.call(pci_find)
    with a.if_(C):
        a.xor(EDI, EDI)
    a.mov(BOOT.it.rng_function, EDI)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[Watchdog.registers],
    writes=[Watchdog.registers, Watchdog.state, WATCHDOG_REGISTERS],
    calls=[
        pci_find,
        pci_read8,
        pci_read16,
        pci_write8,
        pci_write16,
        pci_command,
        pci_bar,
        mmio_map,
        watchdog_kick,
    ],
    saves=[RBX],
    source="Intel 6300ESB data sheet, 16.5",
)
def watchdog_arm(a: Asm) -> None:
    """Find the i6300esb and arm it; tell when it would not reset the machine."""
    absent = a.label("absent")
    a.mov(R8D, I6300ESB)
    a.mov(R9D, I6300ESB)
    a.mov(R10D, FUNCTIONS)
    a.call(pci_find)
    a.j(C, absent)
    a.mov(EBX, EDI)
    a.xor(ECX, ECX)
    a.call(pci_bar)
    a.j(C, absent)
    a.mov(RDI, RAX)
    a.and_(RDI, -4096)
    a.mov(ESI, 1)
    a.call(mmio_map)
    a.test(RAX, RAX)
    a.jz(absent)
    a.mov(WATCHDOG.it.registers, RAX)
    a.mov(EDI, EBX)
    a.mov(EDX, PciCommand.MEMORY)
    a.xor(R9D, R9D)
    a.call(pci_command)

    # Off while it is set up: no interrupt before the reset, the reset not disabled, 1 kHz. The
    # registers answer only to accesses of their own width.
    a.mov(ECX, WATCHDOG_LOCK)
    a.xor(EAX, EAX)
    a.call(pci_write8)
    a.mov(ECX, WATCHDOG_CONFIG)
    a.mov(EAX, 0x3)
    a.call(pci_write16)
    a.mov(RDI, WATCHDOG.it.registers)
    for timer in (TIMER_1, TIMER_2):
        a.mov(mem16(RDI, RELOAD, ref=WATCHDOG_REGISTERS), UNLOCK_1)
        a.mov(mem16(RDI, RELOAD, ref=WATCHDOG_REGISTERS), UNLOCK_2)
        a.mov(mem32(RDI, timer, ref=WATCHDOG_REGISTERS), STAGE_TICKS)
    a.call(watchdog_kick)
    a.mov(EDI, EBX)
    a.mov(ECX, WATCHDOG_LOCK)
    a.mov(EAX, ENABLED)
    a.call(pci_write8)

    # What was written need not be what is so: read it back before protection is claimed.
    a.mov(ECX, WATCHDOG_LOCK)
    a.call(pci_read8)
    a.and_(EAX, ENABLED)
    a.mov(EBX, EAX)
    a.mov(ECX, WATCHDOG_CONFIG)
    a.call(pci_read16)
    a.and_(EAX, REBOOT_DISABLED)
    a.xor(EBX, ENABLED)
    a.or_(EAX, EBX)
    with a.if_(Z):
        a.mov(WATCHDOG.it.state, WatchdogState.ARMED)
    with a.else_():
        a.mov(WATCHDOG.it.state, WatchdogState.INHIBITED)
    a.ret()
    a.place(absent)
    a.mov(WATCHDOG.it.state, WatchdogState.ABSENT)
    a.ret()
