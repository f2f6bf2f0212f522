"""Split rings: what may come back, what is given, when the device is told."""

from typing import Any

from emulator.effects import World, model
from firmware.errors import NIC_RING
from firmware.layouts.nic import (
    BUFFER_BYTES,
    CHECKSUM_TRUSTED,
    FRAME_OFFSET,
    NIC,
    NO_HEAD,
    RECEIVE_MAX,
    RX_BUFFERS,
    TX_BUFFERS,
    USED_NO_NOTIFY,
    AvailableRing,
    Descriptor,
    FrameHeader,
    NicState,
    Transport,
    UsedRing,
    Virtqueue,
)


def buffer_of(number: int, base: int) -> int:
    """Return the address of the frame of a buffer."""
    return base + number * BUFFER_BYTES + FRAME_OFFSET


@model
def queue_give(w: World, queue: int, head: int) -> None:
    """The head goes into the next entry; then the index moves on."""
    q = w.view(Virtqueue, queue)
    ring = w.view(AvailableRing, q.available)
    entry = q.given % (q.mask + 1)
    ring.heads[2 * entry : 2 * entry + 2] = head.to_bytes(2, "little")
    q.given += 1
    q.pending = 1
    ring.idx = q.given


@model
def queue_take(w: World, queue: int) -> tuple[int, int | None]:
    """The first returned chain with an id of ours; a ring ahead of itself ends the NIC."""
    q, nic = w.view(Virtqueue, queue), w.g(NIC)
    if nic.state != NicState.READY:
        return NO_HEAD, None
    ring = w.view(UsedRing, q.used)
    while waiting := (ring.idx - q.seen) % 2**16:
        if waiting > q.buffers:
            nic.error = NIC_RING.code | waiting
            nic.state = NicState.FAILED
            break
        element = ring.elements[q.seen % (q.mask + 1)]
        head, written = element.id, element.length
        q.seen += 1
        if head < q.links * q.buffers and head % q.links == 0:
            return head, written
        nic.bad_ids += 1
    return NO_HEAD, None


@model
def nic_poll(w: World) -> tuple[int | None, int]:
    """Frames whose length cannot be go back to the device at once."""
    nic = w.g(NIC)
    queue = nic.rx.address_
    while True:
        head, written = queue_take(w, queue)
        if head == NO_HEAD or written is None:
            return None, 0
        length = written - nic.header_bytes
        if 14 <= length <= RECEIVE_MAX:
            break
        nic.bad_lengths += 1
        queue_give(w, queue, head)
    frame = buffer_of(head // nic.rx.links, RX_BUFFERS)
    nic.rx_head = head
    nic.trusted = w.view(FrameHeader, frame - nic.header_bytes).flags & CHECKSUM_TRUSTED
    nic.rx_frames += 1
    return frame, length


@model
def nic_release(w: World) -> None:
    """The frame in hand goes back, once."""
    nic = w.g(NIC)
    head = nic.rx_head
    if head != NO_HEAD:
        nic.rx_head = NO_HEAD
        queue_give(w, nic.rx.address_, head)


@model
def nic_leave(w: World) -> None:
    """The frame in hand is taken once more."""
    nic = w.g(NIC)
    if nic.rx_head != NO_HEAD:
        nic.rx_head = NO_HEAD
        nic.rx.seen -= 1
        nic.rx_frames -= 1


@model
def nic_reclaim(w: World) -> None:
    """Every returned buffer that was out becomes free."""
    nic = w.g(NIC)
    while (head := queue_take(w, nic.tx.address_)[0]) != NO_HEAD:
        number = head // 2
        if nic.tx_busy[number] != 1:
            nic.bad_ids += 1
            continue
        nic.tx_busy[number] = 0
        nic.tx_free[nic.tx_free_count] = number
        nic.tx_free_count += 1


@model
def nic_reserve(w: World) -> tuple[int, int]:
    """The top of the free stack, which stays there."""
    nic = w.g(NIC)
    if nic.state == NicState.READY:
        if nic.tx_free_count == 0:
            nic_reclaim(w)
        if nic.tx_free_count:
            return buffer_of(nic.tx_free[nic.tx_free_count - 1], TX_BUFFERS), 0
    nic.tx_full += 1
    return 0, 1


@model
def nic_commit(w: World, length: int) -> None:
    """The reserved buffer goes out, as a frame of at least 60 bytes."""
    nic = w.g(NIC)
    nic.tx_free_count -= 1
    number = nic.tx_free[nic.tx_free_count]
    nic.tx_busy[number] = 1
    frame = buffer_of(number, TX_BUFFERS)
    w.write(frame + length, bytes(max(0, 60 - length)))
    table: Any = nic.tx.descriptors
    w.view(Descriptor, table + (2 * number + 1) * Descriptor.SIZE).length = max(length, 60)
    nic.tx_frames += 1
    queue_give(w, nic.tx.address_, 2 * number)


@model
def queue_kick(w: World, queue: int) -> None:
    """One notification for all that was given, unless the device said that it looks by itself."""
    q, nic = w.view(Virtqueue, queue), w.g(NIC)
    if not q.pending:
        return
    q.pending = 0
    if w.view(UsedRing, q.used).flags & USED_NO_NOTIFY:
        return
    nic.doorbells += 1
    if nic.transport == Transport.MODERN:
        w.mmio_write(q.notify, 2, q.number)
    else:
        w.port_out(q.notify, q.number, 2)


@model
def nic_flush(w: World) -> None:
    """Transmit first, then the receive buffers given back."""
    nic = w.g(NIC)
    if nic.state == NicState.READY:
        queue_kick(w, nic.tx.address_)
        queue_kick(w, nic.rx.address_)
