"""virtio-rng started, register by register; its rings."""

from emulator.effects import World, model
from emulator.models.pci import pci_bar, pci_command
from emulator.models.virtio.registers import (
    virtio_queue_enable,
    virtio_reset_ports,
    virtio_reset_window,
    virtio_window,
)
from firmware.layouts.memory import MEMORY
from firmware.layouts.nic import AvailableRing, Transport, UsedRing
from firmware.layouts.rng import RNG, RNG_QUEUE
from firmware.limits import PAGE, WINDOW_DMA

# Windows, then ports: where each register is.
W_OFFERED_HALF, W_OFFERED, W_ACCEPTED_HALF, W_ACCEPTED = 0x00, 0x04, 0x08, 0x0C
W_STATUS, W_SELECT, W_SIZE = 0x14, 0x16, 0x18
P_ACCEPTED, P_PAGE, P_SIZE, P_SELECT, P_NOTIFY, P_STATUS = 4, 8, 12, 14, 16, 18
BUS_OFF, BUS_DECODE, BUS_MASTER, BUS_BITS = 0, 3, 7, 0x407


@model
def rng_lay(w: World, entries: int) -> int:
    """A power of two from 1 to 1024; descriptors, then the driver's ring, then a page border."""
    if entries not in (1 << n for n in range(11)):
        return 1
    queue = w.g(RNG).queue
    queue.mask, queue.given = entries - 1, 0
    queue.descriptors = RNG_QUEUE
    queue.available = RNG_QUEUE + 16 * entries
    queue.used = -(-(queue.available + 6 + 2 * entries) // PAGE) * PAGE
    used = w.view(UsedRing, queue.used)
    used.flags = used.idx = 0
    w.write(queue.available, bytes((entries + 4) // 2 * 4))
    w.view(AvailableRing, queue.available).flags = 1
    return 0


@model
def rng_ports(w: World) -> int:
    """Reset, acknowledge, no feature, the queue, bus mastering, ready."""
    rng = w.g(RNG)
    base, kind, absent = pci_bar(w, rng.function, 0)
    if absent or kind is None or not kind & 1:
        return 1
    rng.port, rng.transport = base, Transport.LEGACY
    pci_command(w, rng.function, BUS_DECODE, BUS_BITS)
    if virtio_reset_ports(w, base + P_STATUS):
        return 1
    w.port_out(base + P_STATUS, 1)
    w.port_out(base + P_STATUS, 3)
    w.port_out(base + P_ACCEPTED, 0, 4)
    w.port_out(base + P_SELECT, 0, 2)
    if rng_lay(w, w.port_in(base + P_SIZE, 2)):
        return 1
    rng.queue.notify = base + P_NOTIFY
    w.port_out(base + P_PAGE, w.g(MEMORY).dma_physical + RNG_QUEUE - WINDOW_DMA >> 12, 4)
    pci_command(w, rng.function, BUS_MASTER, BUS_BITS)
    w.port_out(base + P_STATUS, 7)
    return 0


@model
def rng_windows(w: World) -> int:
    """Windows, reset, VERSION_1 alone, the queue with at most 8 entries, bus mastering, ready."""
    rng = w.g(RNG)
    for kind, name in ((1, "common"), (2, "window")):
        if not getattr(rng, name):
            address = virtio_window(w, rng.function, rng.capabilities[kind].address_)
            if not address:
                return 1
            setattr(rng, name, address)
    common = rng.common
    rng.transport = Transport.MODERN
    pci_command(w, rng.function, BUS_DECODE, BUS_BITS)
    if virtio_reset_window(w, common):
        return 1
    w.mmio_write(common + W_STATUS, 1, 1)
    w.mmio_write(common + W_STATUS, 1, 3)
    w.mmio_write(common + W_OFFERED_HALF, 4, 1)
    if not w.mmio_read(common + W_OFFERED, 4) & 1:
        return 1
    for half in (0, 1):
        w.mmio_write(common + W_ACCEPTED_HALF, 4, half)
        w.mmio_write(common + W_ACCEPTED, 4, half)
    w.mmio_write(common + W_STATUS, 1, 11)
    if not w.mmio_read(common + W_STATUS, 1) & 8:
        return 1
    w.mmio_write(common + W_SELECT, 2, 0)
    size = min(w.mmio_read(common + W_SIZE, 2), 8)
    if rng_lay(w, size):
        return 1
    w.mmio_write(common + W_SIZE, 2, size)
    row, shift = rng.capabilities[2].address_, w.g(MEMORY).dma_physical - WINDOW_DMA
    if virtio_queue_enable(w, rng.queue.address_, common, row, rng.window, shift % 2**64):
        return 1
    pci_command(w, rng.function, BUS_MASTER, BUS_BITS)
    w.mmio_write(common + W_STATUS, 1, 15)
    return 0
