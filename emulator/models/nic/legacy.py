"""The legacy start, register by register."""

from emulator.effects import World, model
from emulator.models.nic.setup import queue_setup
from emulator.models.pci import pci_bar, pci_command
from emulator.models.virtio.registers import virtio_reset_ports
from firmware.errors import NIC_BAR, NIC_FEATURES, NIC_RESET_STUCK
from firmware.layouts.nic import NIC, RX_QUEUE, TX_QUEUE, Transport
from firmware.layouts.node import NETWORK
from firmware.limits import WINDOW_DMA

DEVICE_FEATURES, DRIVER_FEATURES, QUEUE_PAGE, QUEUE_SIZE, QUEUE_SELECT = 0, 4, 8, 12, 14
NOTIFY, STATUS, MAC, MTU = 16, 18, 20, 30
ACCEPTED = 1 << 3 | 1 << 5 | 1 << 16
ANY_LAYOUT = 1 << 27


@model
def legacy_start(w: World) -> int:
    """Reset, acknowledge, features, queues, address, bus mastering, ready."""
    nic = w.g(NIC)
    base, kind, absent = pci_bar(w, nic.pci_address, 0)
    if absent or kind is None or not kind & 1:
        return NIC_BAR.code
    nic.io_base = base
    nic.transport = Transport.LEGACY
    nic.header_bytes = 10
    pci_command(w, nic.pci_address, 3, 0x407)
    if virtio_reset_ports(w, base + STATUS):
        return NIC_RESET_STUCK.code
    w.port_out(base + STATUS, 1)
    w.port_out(base + STATUS, 3)
    nic.features = w.port_in(base + DEVICE_FEATURES, 4) & (ACCEPTED | ANY_LAYOUT)
    w.port_out(base + DRIVER_FEATURES, nic.features, 4)
    if not nic.features >> 5 & 1:
        return NIC_FEATURES.code
    for number, (queue, rings) in enumerate(((nic.rx, RX_QUEUE), (nic.tx, TX_QUEUE))):
        w.port_out(base + QUEUE_SELECT, number, 2)
        size = w.port_in(base + QUEUE_SIZE, 2)
        error = queue_setup(w, queue.address_, rings, size, number)
        if error:
            return error
        queue.notify = base + NOTIFY
        w.port_out(base + QUEUE_PAGE, rings - WINDOW_DMA + nic.dma_physical >> 12, 4)
    for n in range(6):
        w.g(NETWORK).mac[n] = w.port_in(base + MAC + n)
    if nic.features >> 3 & 1:
        nic.mtu = w.port_in(base + MTU, 2)
    pci_command(w, nic.pci_address, 7, 0x407)
    w.port_out(base + STATUS, 7)
    return 0
