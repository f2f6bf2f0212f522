"""Devices that the boot settles."""

from emulator.effects import World, model
from emulator.models.cpu.watchdog import watchdog_kick
from emulator.models.memory.windows import mmio_map
from emulator.models.pci import (
    pci_bar,
    pci_command,
    pci_find,
    pci_read,
    pci_read8,
    pci_read16,
    pci_write8,
    pci_write16,
)
from firmware.layouts.boot import BOOT
from firmware.layouts.cpu import WATCHDOG, WatchdogState
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
from firmware.limits import PAGE


@model
def boot_nic(w: World) -> None:
    """What the ROM named, when the bus says the same; else the first virtio-net."""
    boot = w.g(BOOT)
    if boot.nic_known:
        if pci_read(w, boot.nic_function, 0) == boot.nic_identity:
            return
        boot.nic_known = 0
    boot.nic_function = pci_find(w, VIRTIO_NET_TRANSITIONAL, VIRTIO_NET_MODERN, FUNCTIONS)[0]


@model
def boot_rng(w: World) -> None:
    """The first one from bus 0 on; 0 stands for none."""
    function, none = pci_find(w, VIRTIO_RNG_TRANSITIONAL, VIRTIO_RNG_MODERN, BUS_FUNCTIONS)
    w.g(BOOT).rng_function = 0 if none else function


@model
def watchdog_arm(w: World) -> None:
    """Set up while disabled, two stages of five seconds, enable, read back what is so."""
    state = w.g(WATCHDOG)
    function, none = pci_find(w, I6300ESB, I6300ESB, FUNCTIONS)
    base, _, unassigned = (0, 0, 1) if none else pci_bar(w, function, 0)
    registers = 0 if unassigned else mmio_map(w, base // PAGE * PAGE, 1)
    if not registers:
        state.state = WatchdogState.ABSENT
        return
    state.registers = registers
    pci_command(w, function, PciCommand.MEMORY, 0)
    pci_write8(w, function, 0x68, 0)
    pci_write16(w, function, 0x60, 3)
    for timer in (0, 4):
        w.mmio_write(registers + 0x0C, 2, 0x80)
        w.mmio_write(registers + 0x0C, 2, 0x86)
        w.mmio_write(registers + timer, 4, 5 * 1024)
    watchdog_kick(w)
    pci_write8(w, function, 0x68, 2)
    enabled = pci_read8(w, function, 0x68) & 2
    inhibited = pci_read16(w, function, 0x60) & 0x20
    works = enabled and not inhibited
    state.state = WatchdogState.ARMED if works else WatchdogState.INHIBITED
