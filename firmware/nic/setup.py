"""Lay down a queue: rings, fixed chains of header and frame, buffers given or kept."""

from firmware.errors import NIC_QUEUE
from firmware.layouts.nic import (
    AVAILABLE_NO_INTERRUPT,
    BUFFER_BYTES,
    BUFFERS_MAX,
    DESCRIPTOR_NEXT,
    DESCRIPTOR_WRITE,
    FRAME_OFFSET,
    NIC,
    PACKET,
    QUEUE_SIZE_MAX,
    RECEIVE_CAPACITY,
    RX_BUFFERS,
    TX_BUFFERS,
    AvailableRing,
    Descriptor,
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
    R9,
    R9D,
    R10,
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
        Nic.dma_physical,
        Virtqueue.descriptors,
        Virtqueue.buffers,
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

    Descriptors 2n and 2n + 1 are the header and the frame of buffer n for ever: without ANY_LAYOUT
    a legacy header wants a descriptor of its own.
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
    a.shr(entries, 1)
    a.mov(EAX, BUFFERS_MAX)
    a.cmp(entries, EAX)
    a.cmov(A, entries, EAX)
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
    head, frame = Descriptor.at(R8), Descriptor.at(R8, Descriptor.SIZE)
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
        a.mov(head.address, physical)
        a.mov(EAX, NIC.it.header_bytes)
        a.mov(head.length, EAX)
        a.lea(EAX, mem8(R11, DESCRIPTOR_NEXT, ref=PACKET))
        a.mov(head.flags, AX)
        a.lea(EAX, mem8(RCX, 1, ref=PACKET))
        a.mov(head.following, AX)
        a.lea(RAX, mem8(R9, FRAME_OFFSET, ref=PACKET))
        a.mov(frame.address, RAX)
        a.mov(frame.length, EBX)
        a.mov(frame.flags, R11W)
        a.test(write, write)
        with a.if_(NZ):
            a.call(queue_give)
        with a.else_():
            a.lea(RDX, NIC.address)
            a.mov(EAX, Nic.at(RDX).tx_free_count)
            a.mov(Nic.at(RDX).tx_free.m8(index=RAX), AL)
            a.inc(Nic.at(RDX).tx_free_count)
        a.add(descriptor, 2 * Descriptor.SIZE)
        a.add(buffer, BUFFER_BYTES)
        a.add(physical, BUFFER_BYTES)
        a.add(ECX, 2)
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
