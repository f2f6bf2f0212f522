"""Register structures, register by register (virtio 1.2 section 4.1.4.3)."""

from emulator.effects import World, model
from emulator.models.memory.windows import mmio_map
from emulator.models.pci import pci_bar
from firmware.layouts.nic import RESET_READS, WINDOW_MAX, Capability, Virtqueue
from firmware.limits import PAGE

STATUS, ENABLE, NOTIFY_OFFSET, ADDRESSES = 0x14, 0x1C, 0x1E, 0x20


@model
def virtio_window(w: World, function: int, row: int) -> int:
    """The pages around the structure; only memory BARs will do."""
    found = w.view(Capability, row)
    base, bits, absent = pci_bar(w, function, found.bar)
    if absent or bits is None or bits & 1:
        return 0
    start = base + found.offset
    inside = start % PAGE
    length = min(found.length, WINDOW_MAX)
    mapped = mmio_map(w, start - inside, -(-(inside + length) // PAGE))
    return mapped + inside if mapped else 0


@model
def virtio_reset_ports(w: World, port: int) -> int:
    """Write 0, read until 0."""
    w.port_out(port, 0)
    return int(all(w.port_in(port) for _ in range(RESET_READS)))


@model
def virtio_reset_window(w: World, common: int) -> int:
    """Write 0, read until 0."""
    w.mmio_write(common + STATUS, 1, 0)
    return int(all(w.mmio_read(common + STATUS, 1) for _ in range(RESET_READS)))


@model
def virtio_queue_enable(
    w: World, queue: int, common: int, row: int, window: int, shift: int
) -> int:
    """Three addresses; the notify register must lie inside its structure."""
    q, notify = w.view(Virtqueue, queue), w.view(Capability, row)
    for n, part in enumerate((q.descriptors, q.available, q.used)):
        physical = part + shift & 0xFFFF_FFFF_FFFF_FFFF
        w.mmio_write(common + ADDRESSES + 8 * n, 4, physical)
        w.mmio_write(common + ADDRESSES + 8 * n + 4, 4, physical >> 32)
    offset = w.mmio_read(common + NOTIFY_OFFSET, 2) * notify.extra
    if offset + 2 > min(notify.length, WINDOW_MAX):
        return 1
    q.notify = window + offset
    w.mmio_write(common + ENABLE, 2, 1)
    return 0
