"""What a fresh queue looks like."""

from emulator.effects import World, model
from emulator.models.nic.queue import queue_give
from firmware.errors import NIC_QUEUE
from firmware.layouts.nic import (
    BUFFER_BYTES,
    BUFFERS_MAX,
    NIC,
    QUEUE_SIZE_MAX,
    RECEIVE_CAPACITY,
    RX_BUFFERS,
    TX_BUFFERS,
    AvailableRing,
    Descriptor,
    Virtqueue,
)
from firmware.limits import WINDOW_DMA


@model
def queue_setup(w: World, queue: int, rings: int, entries: int, number: int) -> int:
    """Powers of two from 2 to 1024; a header and a frame descriptor for each buffer."""
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
    q.buffers = min(entries // 2, BUFFERS_MAX)
    w.write(q.available, bytes(q.used + 8 + 8 * entries - q.available))
    w.view(AvailableRing, q.available).flags = 1
    receive = number == 0
    if not receive:
        nic.tx_free_count = 0
    for n in range(q.buffers):
        at = (RX_BUFFERS if receive else TX_BUFFERS) + n * BUFFER_BYTES
        physical = at - WINDOW_DMA + nic.dma_physical
        w.write(at, bytes(16))
        head = w.view(Descriptor, rings + 32 * n)
        head.address, head.length = physical, nic.header_bytes
        head.flags, head.following = (3 if receive else 1), 2 * n + 1
        frame = w.view(Descriptor, rings + 32 * n + 16)
        frame.address = physical + 16
        frame.length = RECEIVE_CAPACITY if receive else 0
        frame.flags = 2 if receive else 0
        if receive:
            queue_give(w, queue, 2 * n)
        else:
            nic.tx_free[n] = n
            nic.tx_free_count += 1
    return 0
