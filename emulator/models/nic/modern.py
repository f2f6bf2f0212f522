"""The modern start, register by register (virtio 1.2 section 4.1.4.3)."""

from emulator.effects import World, model
from emulator.models.nic.setup import queue_setup
from emulator.models.pci import pci_command
from emulator.models.virtio.registers import (
    virtio_queue_enable,
    virtio_reset_window,
    virtio_window,
)
from firmware.errors import NIC_BAR, NIC_FEATURES, NIC_RESET_STUCK
from firmware.layouts.nic import (
    MODERN_QUEUE_SIZE,
    NIC,
    NIC_WINDOWS,
    RX_QUEUE,
    TX_QUEUE,
    Transport,
)
from firmware.layouts.node import NETWORK
from firmware.limits import WINDOW_DMA

OFFERED_HALF, OFFERED, ACCEPTED_HALF, ACCEPTED = 0x00, 0x04, 0x08, 0x0C
STATUS, SELECT, SIZE, ENABLE, NOTIFY_OFFSET, ADDRESSES = 0x14, 0x16, 0x18, 0x1C, 0x1E, 0x20
LOW_WANTED = 1 << 3 | 1 << 5 | 1 << 16


@model
def modern_queue(w: World, queue: int, rings: int, number: int) -> int:
    """At most 256 entries; the notify register must lie inside its structure."""
    nic, windows = w.g(NIC), w.g(NIC_WINDOWS)
    common = windows.common
    w.mmio_write(common + SELECT, 2, number)
    size = min(w.mmio_read(common + SIZE, 2), MODERN_QUEUE_SIZE)
    w.mmio_write(common + SIZE, 2, size)
    error = queue_setup(w, queue, rings, size, number)
    if error:
        return error
    row = nic.capabilities[2].address_
    shift = nic.dma_physical - WINDOW_DMA & 0xFFFF_FFFF_FFFF_FFFF
    outside = virtio_queue_enable(w, queue, common, row, windows.notify, shift)
    return NIC_BAR.code if outside else 0


@model
def modern_start(w: World) -> int:
    """Windows, reset, features with VERSION_1, queues, address, bus mastering, ready."""
    nic, windows = w.g(NIC), w.g(NIC_WINDOWS)
    for kind, name in ((1, "common"), (2, "notify"), (3, "isr"), (4, "device")):
        if not getattr(windows, name):
            row = nic.capabilities[kind].address_
            address = virtio_window(w, nic.pci_address, row)
            if not address:
                return NIC_BAR.code
            setattr(windows, name, address)
    nic.transport = Transport.MODERN
    nic.header_bytes = 12
    pci_command(w, nic.pci_address, 3, 0x407)
    common = windows.common
    if virtio_reset_window(w, common):
        return NIC_RESET_STUCK.code
    w.mmio_write(common + STATUS, 1, 1)
    w.mmio_write(common + STATUS, 1, 3)
    w.mmio_write(common + OFFERED_HALF, 4, 0)
    low = w.mmio_read(common + OFFERED, 4) & LOW_WANTED
    w.mmio_write(common + OFFERED_HALF, 4, 1)
    high = w.mmio_read(common + OFFERED, 4) & 1
    if not high or not low >> 5 & 1:
        return NIC_FEATURES.code
    w.mmio_write(common + ACCEPTED_HALF, 4, 0)
    w.mmio_write(common + ACCEPTED, 4, low)
    w.mmio_write(common + ACCEPTED_HALF, 4, 1)
    w.mmio_write(common + ACCEPTED, 4, high)
    nic.features = high << 32 | low
    w.mmio_write(common + STATUS, 1, 11)
    if not w.mmio_read(common + STATUS, 1) & 8:
        return NIC_FEATURES.code
    for number, (queue, rings) in enumerate(((nic.rx, RX_QUEUE), (nic.tx, TX_QUEUE))):
        error = modern_queue(w, queue.address_, rings, number)
        if error:
            return error
    for n in range(6):
        w.g(NETWORK).mac[n] = w.mmio_read(windows.device + n, 1)
    if low >> 3 & 1:
        nic.mtu = w.mmio_read(windows.device + 10, 2)
    pci_command(w, nic.pci_address, 7, 0x407)
    w.mmio_write(common + STATUS, 1, 15)
    return 0
