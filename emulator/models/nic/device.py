"""The card as a whole."""

from emulator.effects import World, model
from emulator.models.nic.legacy import legacy_start
from emulator.models.nic.modern import modern_start
from emulator.models.nic.queue import nic_flush, nic_reclaim
from emulator.models.pci import pci_read
from emulator.models.virtio.config import virtio_capabilities
from firmware.errors import NIC_DEVICE, NIC_STALLED, NIC_UNSUPPORTED
from firmware.layouts.nic import (
    NIC,
    NIC_RESTARTS,
    NIC_WINDOWS,
    NO_HEAD,
    STALLED_CHECKS,
    AvailableRing,
    NicState,
    Transport,
    UsedRing,
)
from firmware.layouts.node import NETWORK


@model
def nic_link(w: World) -> int:
    """Down without a card; up when the card cannot tell."""
    nic = w.g(NIC)
    up = int(nic.state == NicState.READY)
    if up and nic.features >> 16 & 1:
        modern = nic.transport == Transport.MODERN
        status = (
            w.mmio_read(w.g(NIC_WINDOWS).device + 6, 2)
            if modern
            else w.port_in(nic.io_base + 26, 2)
        )
        up = status & 1
    w.g(NETWORK).link_up = up
    return up


@model
def nic_irq_ack(w: World) -> int:
    """One read of the status; nothing without a card."""
    nic = w.g(NIC)
    if nic.state == NicState.ABSENT:
        return 0
    if nic.transport == Transport.MODERN:
        return w.mmio_read(w.g(NIC_WINDOWS).isr, 1)
    return w.port_in(nic.io_base + 19)


@model
def nic_irq_enable(w: World) -> int:
    """Interrupts on; 1 when the device was ahead already."""
    nic = w.g(NIC)
    if nic.state != NicState.READY:
        return 0
    w.view(AvailableRing, nic.rx.available).flags = 0
    return int(w.view(UsedRing, nic.rx.used).idx != nic.rx.seen)


@model
def nic_irq_disable(w: World) -> None:
    """Interrupts off."""
    nic = w.g(NIC)
    if nic.state == NicState.READY:
        w.view(AvailableRing, nic.rx.available).flags = 1


@model
def nic_init(w: World, address: int, physical: int) -> int:
    """Only virtio-net; windows first, ports when there are some."""
    nic = w.g(NIC)
    nic.wipe()
    nic.pci_address = address
    nic.dma_physical = physical
    nic.rx_head = NO_HEAD
    identity = pci_read(w, address, 0)
    error = NIC_UNSUPPORTED.code
    if identity in (0x1000_1AF4, 0x1041_1AF4):
        nic.irq_line = pci_read(w, address, 0x3C)
        virtio_capabilities(w, address, nic.capabilities.address)
        whole = all(nic.capabilities[kind].length for kind in range(1, 5))
        if whole:
            error = modern_start(w)
        if not whole or (error and identity == 0x1000_1AF4):
            error = legacy_start(w)
    if error:
        nic.error = error
        return error
    nic.state = NicState.READY
    nic_link(w)
    nic_flush(w)
    return 0


@model
def nic_watch(w: World) -> None:
    """A running card says DRIVER_OK and nothing worse, and gives transmit buffers back."""
    nic, restarts = w.g(NIC), w.g(NIC_RESTARTS)
    if not nic.pci_address:
        return
    if nic.state == NicState.READY:
        if nic.transport == Transport.MODERN:
            status = w.mmio_read(w.g(NIC_WINDOWS).common + 0x14, 1)
        else:
            status = w.port_in(nic.io_base + 18)
        error = NIC_DEVICE.code | status
        if status & (4 | 64 | 128) == 4:
            nic_reclaim(w)
            if nic.tx_free_count:
                restarts.stalled = 0
                return
            restarts.stalled += 1
            if restarts.stalled < STALLED_CHECKS:
                return
            error = NIC_STALLED.code
        nic.error = error
        nic.state = NicState.FAILED
    restarts.stalled = 0
    restarts.count += 1
    nic_init(w, nic.pci_address, nic.dma_physical)
