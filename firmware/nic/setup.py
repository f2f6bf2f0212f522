"""Lay down a queue: rings, fixed descriptors of headers and frames, buffers given or kept."""

from firmware.errors import NIC_QUEUE
from firmware.layouts.nic import (
    AVAILABLE_NO_INTERRUPT,
    BUFFER_BYTES,
    DESCRIPTOR_NEXT,
    DESCRIPTOR_WRITE,
    FRAME_OFFSET,
    NIC,
    PACKET,
    QUEUE_SIZE_MAX,
    RECEIVE_CAPACITY,
    RX_BUFFERS,
    RX_BUFFERS_MAX,
    TX_BUFFERS,
    TX_BUFFERS_MAX,
    AvailableRing,
    Descriptor,
    Feature,
    Nic,
    Virtqueue,
)
from firmware.limits import WINDOW_DMA
from firmware.nic.queue import queue_give
from toolchain.asm import (
    AL,
    AX,
    EAX,
    EBX,
    ECX,
    EDX,
    ESI,
    NZ,
    R8,
    R8D,
    R9,
    R9D,
    R10,
    R10D,
    R11,
    R11D,
    R11W,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    mem8,
    mem64,
    routine,
)

TOGETHER = int(Feature.ANY_LAYOUT | Feature.VERSION_1)
"""With either of them a header may share the descriptor of its frame."""


@routine(
    inputs=[
        In(RDI, Virtqueue, "the queue; wiped"),
        In(RSI, int, "QUEUE_BYTES for its rings, page-aligned"),
        In(ECX, int, "entries"),
        In(EDX, int, "0 receive, 1 transmit"),
    ],
    outputs=[Out(EAX, "0, or NIC_QUEUE when the size cannot be used")],
    clobbers=[RCX, RDX, RSI, RDI, R8, R9, R10, R11],
    reads=[
        Nic.header_bytes,
        Nic.features,
        Nic.dma_physical,
        Virtqueue.descriptors,
        Virtqueue.buffers,
        Virtqueue.links,
        Virtqueue.available,
        Nic.tx_free_count,
    ],
    writes=[Virtqueue, AvailableRing.flags, Descriptor, PACKET, Nic.tx_free, Nic.tx_free_count],
    calls=[queue_give],
    saves=[RBX],
    source="virtio 1.2 sections 2.7.2 and 5.1.6; decision 8",
)
def queue_setup(a: Asm, queue: Virtqueue, rings: Reg64, entries: Reg32, number: Reg32) -> None:
    """Prepare rings and buffers; receive buffers are given to the device, transmit ones kept.

    The descriptors are for ever: n is buffer n, where header and frame may share one; else 2n and
    2n + 1 are its header and its frame.
    """
    refuse = a.label("refuse")
    a.mov(ECX, ECX)  # the upper half of a narrow input is anything
    # A power of two from 2 to QUEUE_SIZE_MAX.
    a.cmp(entries, 2)
    a.j(B, refuse)
    a.cmp(entries, QUEUE_SIZE_MAX)
    a.j(A, refuse)
    a.lea(EAX, mem8(RCX, -1, ref=PACKET))
    a.mov(queue.mask, EAX)
    a.test(entries, EAX)
    a.j(NZ, refuse)

    a.mov(queue.number, number)
    a.mov(queue.descriptors, rings)
    a.mov(EAX, entries)
    a.shl(EAX, 4)
    a.add(RAX, rings)
    a.mov(queue.available, RAX)
    a.lea(RAX, mem8(RAX, 6 + 4095, ref=PACKET, index=RCX, scale=2))
    a.and_(RAX, -4096)
    a.mov(queue.used, RAX)
    a.lea(R9, mem8(RAX, 8, ref=PACKET, index=RCX, scale=8))
    a.sub(R9, queue.available)
    a.shr(R9D, 2)  # doublewords of both rings and the gap between them
    # Apart for transmission always: half of its descriptors are as many buffers as are wanted.
    links, stride, most = EAX, R8D, R10D
    a.mov(links, 1)
    a.mov(stride, BUFFER_BYTES)
    with a.block() as together:
        a.mov(most, TX_BUFFERS_MAX)
        a.test(number, number)
        with a.if_(E):
            a.mov(most, RX_BUFFERS_MAX)
            a.mov(R11, TOGETHER)
            a.test(NIC.it.features, R11)
            a.leave(NZ, together)
        a.inc(links)
        a.shr(stride, 1)
        a.shr(entries, 1)
    a.mov(queue.links, links)
    a.mov(queue.stride, stride)
    a.cmp(entries, most)
    a.cmov(A, entries, most)
    a.mov(queue.buffers, entries)

    # Rings start empty; we poll until the idle loop asks for interrupts.
    a.mov(R8, RDI)
    a.mov(RDI, queue.available)
    a.mov(ECX, R9D)
    a.xor(EAX, EAX)
    a.rep_stosd()
    a.mov(RDI, R8)
    a.mov(RAX, queue.available)
    a.mov(AvailableRing.at(RAX).flags, AVAILABLE_NO_INTERRUPT)

    descriptor, buffer, physical, write, left = R8, R10, R9, R11D, ESI
    part = Descriptor.at(R8)
    a.mov(descriptor, queue.descriptors)
    a.mov(buffer, TX_BUFFERS)
    a.xor(write, write)
    a.xor(EBX, EBX)
    a.test(number, number)
    with a.if_(E):
        a.mov(buffer, RX_BUFFERS)
        a.mov(write, DESCRIPTOR_WRITE)
        a.mov(EBX, RECEIVE_CAPACITY)
    with a.else_():
        a.mov(NIC.it.tx_free_count, 0)
    a.lea(physical, mem8(R10, -WINDOW_DMA, ref=PACKET))
    a.add(physical, NIC.it.dma_physical)
    a.mov(left, queue.buffers)
    a.xor(ECX, ECX)
    with a.loop() as fill:
        a.xor(EAX, EAX)
        a.mov(mem64(buffer, ref=PACKET), RAX)
        a.mov(mem64(buffer, 8, ref=PACKET), RAX)
        # The header ends where the frame begins.
        a.lea(RAX, mem8(R9, FRAME_OFFSET, ref=PACKET))
        a.mov(EDX, NIC.it.header_bytes)
        a.sub(RAX, RDX)
        a.mov(part.address, RAX)
        a.cmp(queue.links, 1)
        with a.if_(E):
            a.add(EDX, EBX)
            a.mov(part.length, EDX)
            a.mov(part.flags, R11W)
        with a.else_():
            a.mov(part.length, EDX)
            a.lea(EAX, mem8(R11, DESCRIPTOR_NEXT, ref=PACKET))
            a.mov(part.flags, AX)
            a.lea(EAX, mem8(RCX, 1, ref=PACKET))
            a.mov(part.following, AX)
            a.add(descriptor, Descriptor.SIZE)
            a.lea(RAX, mem8(R9, FRAME_OFFSET, ref=PACKET))
            a.mov(part.address, RAX)
            a.mov(part.length, EBX)
            a.mov(part.flags, R11W)
        a.test(write, write)
        with a.if_(NZ):
            a.call(queue_give)
        with a.else_():
            a.lea(RDX, NIC.address)
            a.mov(EAX, Nic.at(RDX).tx_free_count)
            a.mov(Nic.at(RDX).tx_free.m8(index=RAX), AL)
            a.inc(Nic.at(RDX).tx_free_count)
        a.add(descriptor, Descriptor.SIZE)
        a.add(buffer, BUFFER_BYTES)
        a.add(physical, BUFFER_BYTES)
        a.add(ECX, queue.links)
        a.dec(left)
        a.again(NZ, fill)
    a.xor(EAX, EAX)
    a.ret()

    a.place(refuse)
    a.mov(EAX, 0xFFFF)
    a.cmp(entries, EAX)
    a.cmov(A, entries, EAX)
    a.mov(EAX, entries)
    a.or_(EAX, NIC_QUEUE.code)
    a.ret()
