"""What a fresh queue looks like."""

from emulator.effects import World, model
from emulator.models.nic.queue import queue_give
from firmware.errors import NIC_QUEUE
from firmware.layouts.nic import (
    BUFFER_BYTES,
    NIC,
    QUEUE_SIZE_MAX,
    RECEIVE_CAPACITY,
    RX_BUFFERS,
    RX_BUFFERS_MAX,
    TX_BUFFERS,
    TX_BUFFERS_MAX,
    AvailableRing,
    Descriptor,
    Virtqueue,
)
from firmware.limits import WINDOW_DMA


@model
def queue_setup(w: World, queue: int, rings: int, entries: int, number: int) -> int:
    """Powers of two from 2 to 1024; a descriptor for each receive buffer if that may be, else two."""
    q, nic = w.view(Virtqueue, queue), w.g(NIC)
    if not 2 <= entries <= QUEUE_SIZE_MAX:
        return NIC_QUEUE.code | min(entries, 0xFFFF)
    q.mask = entries - 1
    if entries.bit_count() != 1:
        return NIC_QUEUE.code | entries
    q.number = number
    q.descriptors = rings
    q.available = rings + 16 * entries
    q.used = -(-(q.available + 6 + 2 * entries) // 4096) * 4096
    receive = number == 0
    q.links = 1 if receive and nic.features & (1 << 27 | 1 << 32) else 2
    q.stride = BUFFER_BYTES // q.links
    q.buffers = min(entries // q.links, RX_BUFFERS_MAX if receive else TX_BUFFERS_MAX)
    w.write(q.available, bytes(q.used + 8 + 8 * entries - q.available))
    w.view(AvailableRing, q.available).flags = 1
    if not receive:
        nic.tx_free_count = 0
    for n in range(q.buffers):
        at = (RX_BUFFERS if receive else TX_BUFFERS) + n * BUFFER_BYTES
        physical = at - WINDOW_DMA + nic.dma_physical
        w.write(at, bytes(16))
        room, write = (RECEIVE_CAPACITY, 2) if receive else (0, 0)
        head = w.view(Descriptor, rings + 16 * q.links * n)
        head.address = physical + 16 - nic.header_bytes
        if q.links == 1:
            head.length, head.flags = nic.header_bytes + room, write
        else:
            head.length, head.flags, head.following = nic.header_bytes, write | 1, 2 * n + 1
            frame = w.view(Descriptor, head.address_ + 16)
            frame.address, frame.length, frame.flags = physical + 16, room, write
        if receive:
            queue_give(w, queue, q.links * n)
        else:
            nic.tx_free[n] = n
            nic.tx_free_count += 1
    return 0
