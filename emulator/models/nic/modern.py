"""The modern start, register by register (virtio 1.2 section 4.1.4.3)."""

from emulator.effects import World, model
from emulator.models.memory.windows import mmio_map
from emulator.models.nic.setup import queue_setup
from emulator.models.pci import pci_bar, pci_command
from firmware.errors import NIC_BAR, NIC_FEATURES, NIC_RESET_STUCK
from firmware.layouts.nic import (
    MODERN_QUEUE_SIZE,
    NIC,
    NIC_WINDOWS,
    RESET_READS,
    RX_QUEUE,
    TX_QUEUE,
    WINDOW_MAX,
    Transport,
    Virtqueue,
)
from firmware.layouts.node import NETWORK
from firmware.limits import PAGE, WINDOW_DMA

OFFERED_HALF, OFFERED, ACCEPTED_HALF, ACCEPTED = 0x00, 0x04, 0x08, 0x0C
STATUS, SELECT, SIZE, ENABLE, NOTIFY_OFFSET, ADDRESSES = 0x14, 0x16, 0x18, 0x1C, 0x1E, 0x20
LOW_WANTED = 1 << 3 | 1 << 5 | 1 << 16


@model
def modern_window(w: World, kind: int) -> int:
    """The pages around the structure; only memory BARs will do."""
    nic = w.g(NIC)
    row = nic.capabilities[kind]
    base, bits, absent = pci_bar(w, nic.pci_address, row.bar)
    if absent or bits is None or bits & 1:
        return 0
    start = base + row.offset
    inside = start % PAGE
    length = min(row.length, WINDOW_MAX)
    mapped = mmio_map(w, start - inside, -(-(inside + length) // PAGE))
    return mapped + inside if mapped else 0


@model
def modern_reset(w: World) -> int:
    """Write 0, read until 0."""
    status = w.g(NIC_WINDOWS).common + STATUS
    w.mmio_write(status, 1, 0)
    stuck = all(w.mmio_read(status, 1) for _ in range(RESET_READS))
    return NIC_RESET_STUCK.code if stuck else 0


@model
def modern_queue(w: World, queue: int, rings: int, number: int) -> int:
    """At most 256 entries; the notify register must lie inside its structure."""
    nic, windows, q = w.g(NIC), w.g(NIC_WINDOWS), w.view(Virtqueue, queue)
    common = windows.common
    w.mmio_write(common + SELECT, 2, number)
    size = min(w.mmio_read(common + SIZE, 2), MODERN_QUEUE_SIZE)
    w.mmio_write(common + SIZE, 2, size)
    error = queue_setup(w, queue, rings, size, number)
    if error:
        return error
    for n, part in enumerate((rings, q.available, q.used)):
        physical = part - WINDOW_DMA + nic.dma_physical
        w.mmio_write(common + ADDRESSES + 8 * n, 4, physical)
        w.mmio_write(common + ADDRESSES + 8 * n + 4, 4, physical >> 32)
    row = nic.capabilities[2]
    offset = w.mmio_read(common + NOTIFY_OFFSET, 2) * row.extra
    if offset + 2 > min(row.length, WINDOW_MAX):
        return NIC_BAR.code
    q.notify = windows.notify + offset
    w.mmio_write(common + ENABLE, 2, 1)
    return 0


@model
def modern_start(w: World) -> int:
    """Windows, reset, features with VERSION_1, queues, address, bus mastering, ready."""
    nic, windows = w.g(NIC), w.g(NIC_WINDOWS)
    for kind, name in ((1, "common"), (2, "notify"), (3, "isr"), (4, "device")):
        if not getattr(windows, name):
            address = modern_window(w, kind)
            if not address:
                return NIC_BAR.code
            setattr(windows, name, address)
    nic.transport = Transport.MODERN
    nic.header_bytes = 12
    pci_command(w, nic.pci_address, 3, 0x407)
    stuck = modern_reset(w)
    if stuck:
        return stuck
    common = windows.common
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
