"""Frames in and out: split rings; a buffer has one descriptor, or two for header and frame.

Nothing that the device wrote is used as an index without a bound (decision 8). A ring that no
longer makes sense turns the NIC FAILED, and `nic_init` starts it anew.
"""

from firmware.abi import CALLER_SAVED
from firmware.errors import NIC_RING
from firmware.layouts.net import ETHERNET_HEADER
from firmware.layouts.nic import (
    CHECKSUM_TRUSTED,
    FRAME_OFFSET,
    NIC,
    NO_HEAD,
    NOTIFY,
    PACKET,
    RECEIVE_MAX,
    RX_BUFFERS,
    TX_BUFFERS,
    TX_SHIFT,
    USED_NO_NOTIFY,
    AvailableRing,
    Descriptor,
    FrameHeader,
    Nic,
    NicState,
    Transport,
    UsedElement,
    UsedRing,
    Virtqueue,
)
from toolchain.asm import (
    AL,
    AX,
    CF,
    CX,
    DX,
    EAX,
    ECX,
    EDI,
    ESI,
    NE,
    NZ,
    R8,
    R8D,
    RAX,
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
    Z,
    mem8,
    mem16,
    routine,
)

ETHERNET_MIN = 60


@routine(
    inputs=[In(RDI, Virtqueue, "the queue"), In(ECX, int, "head descriptor; in range")],
    clobbers=[RAX, RDX],
    reads=[Virtqueue.available, Virtqueue.given, Virtqueue.mask],
    writes=[Virtqueue.given, Virtqueue.pending, AvailableRing.heads, AvailableRing.idx],
    ordered=[AvailableRing.idx],
    source="virtio 1.2 section 2.7.13",
)
def queue_give(a: Asm, queue: Virtqueue, head: Reg32) -> None:
    """Give a chain to the device: the entry first, then the index that publishes it."""
    ring = AvailableRing.at(RDX)
    a.mov(RDX, queue.available)
    a.movzx(EAX, queue.given)
    a.and_(EAX, queue.mask)
    a.mov(ring.heads.m16(index=RAX, scale=2), CX)
    a.inc(queue.given)
    a.mov(queue.pending, 1)
    a.mov(AX, queue.given)
    a.mov(ring.idx, AX)  # stores are not reordered with older stores (SDM 3A 9.2.2)
    a.ret()


@routine(
    inputs=[In(RDI, Virtqueue, "the queue")],
    outputs=[
        Out(EAX, "head descriptor of one of the buffers; NO_HEAD = nothing there"),
        Out(ECX, "bytes that the device says it wrote"),
    ],
    clobbers=[RDX, RSI, R8],
    reads=[
        Virtqueue.used,
        Virtqueue.seen,
        Virtqueue.buffers,
        Virtqueue.links,
        Virtqueue.mask,
        UsedRing.idx,
        UsedRing.elements,
        Nic.state,
    ],
    writes=[Virtqueue.seen, Nic.state, Nic.error, Nic.bad_ids],
    source="virtio 1.2 section 2.7.14; decision 8",
)
def queue_take(a: Asm, queue: Virtqueue) -> None:
    """Take the next chain that the device returned; entries with an impossible id are skipped."""
    ring, number = UsedRing.at(RDX), R8D
    none = a.label("none")
    a.mov(RDX, queue.used)
    with a.loop() as again:
        a.xor(ECX, ECX)
        a.cmp(NIC.it.state, NicState.READY)
        a.jne(none)
        a.movzx(EAX, ring.idx)
        a.movzx(ESI, queue.seen)
        a.sub(EAX, ESI)
        a.and_(EAX, 0xFFFF)
        a.jz(none)

        # More came back than buffers exist: the ring is not to be trusted any more.
        a.cmp(EAX, queue.buffers)
        with a.if_(A):
            a.or_(EAX, NIC_RING.code)
            a.mov(NIC.it.error, EAX)
            a.mov(NIC.it.state, NicState.FAILED)
            a.jmp(none)

        # Loads are not reordered with older loads: the entry is at least as new as the index.
        a.and_(ESI, queue.mask)
        a.mov(number, ring.elements.m32(UsedElement.id.offset, index=RSI, scale=8))
        a.mov(ECX, ring.elements.m32(UsedElement.length.offset, index=RSI, scale=8))
        a.inc(queue.seen)
        a.mov(EAX, queue.links)
        a.lea(ESI, mem8(RAX, -1, ref=PACKET))
        a.imul(EAX, queue.buffers)
        a.cmp(number, EAX)
        with a.if_(B):
            a.mov(EAX, number)
            a.test(EAX, ESI)
            with a.if_(Z):
                a.ret()
        a.inc(NIC.it.bad_ids)
        a.jmp(again.top)
    a.place(none)
    a.mov(EAX, NO_HEAD)
    a.ret()


@routine(
    outputs=[
        Out(RSI, "the frame; meaningful when ECX is not 0"),
        Out(ECX, "bytes, 14 to RECEIVE_MAX; 0 = none"),
    ],
    clobbers=CALLER_SAVED,
    reads=[Nic.header_bytes, Virtqueue.stride, FrameHeader.flags],
    writes=[Nic.rx_head, Nic.trusted, Nic.rx_frames, Nic.bad_lengths],
    calls=[queue_take, queue_give],
    source="firmware/docs/layers.md; virtio 1.2 section 5.1.6.4",
)
def nic_poll(a: Asm) -> None:
    """Return the next received frame, valid until `nic_release`."""
    header = FrameHeader.at(RDX)
    again = a.label("again")
    a.place(again)
    a.lea(RDI, NIC.it.rx.descriptors)
    a.call(queue_take)
    a.xor(ESI, ESI)
    a.cmp(EAX, NO_HEAD)
    with a.if_(E):
        a.xor(ECX, ECX)
        a.ret()
    with a.block() as wrong:
        a.sub(ECX, NIC.it.header_bytes)
        a.leave(B, wrong)
        a.cmp(ECX, ETHERNET_HEADER)
        a.leave(B, wrong)
        a.cmp(ECX, RECEIVE_MAX)
        a.leave(A, wrong)
        a.mov(NIC.it.rx_head, EAX)
        a.imul(EAX, NIC.it.rx.stride)
        a.lea(RSI, mem8(RAX, RX_BUFFERS + FRAME_OFFSET, ref=PACKET))
        a.mov(EAX, NIC.it.header_bytes)
        a.mov(RDX, RSI)
        a.sub(RDX, RAX)
        a.mov(AL, header.flags)
        a.and_(AL, CHECKSUM_TRUSTED)
        a.mov(NIC.it.trusted, AL)
        a.inc(NIC.it.rx_frames)
        a.ret()
    a.inc(NIC.it.bad_lengths)
    a.lea(RDI, NIC.it.rx.descriptors)
    a.mov(ECX, EAX)
    a.call(queue_give)
    a.jmp(again)


@routine(
    clobbers=CALLER_SAVED,
    reads=[Nic.rx_head],
    writes=[Nic.rx_head],
    calls=[queue_give],
    source="firmware/docs/layers.md",
)
def nic_release(a: Asm) -> None:
    """Give the frame in hand back to the device."""
    a.mov(ECX, NIC.it.rx_head)
    a.cmp(ECX, NO_HEAD)
    with a.if_(E):
        a.ret()
    a.mov(NIC.it.rx_head, NO_HEAD)
    a.lea(RDI, NIC.it.rx.descriptors)
    a.jmp(queue_give)


@routine(
    clobbers=[RAX],
    reads=[Nic.rx_head, Nic.rx_frames, Virtqueue.seen],
    writes=[Nic.rx_head, Nic.rx_frames, Virtqueue.seen],
    source="firmware/docs/fleet.md#frozen-clock",
)
def nic_leave(a: Asm) -> None:
    """Leave the frame in hand where it was: the next `nic_poll` returns it again.

    Its entry of the ring is the last that was taken, and the device has no buffer to write another over it.
    """
    a.mov(EAX, NO_HEAD)
    a.cmp(NIC.it.rx_head, EAX)
    with a.if_(E):
        a.ret()
    a.mov(NIC.it.rx_head, EAX)
    a.dec(NIC.it.rx.seen)
    a.dec(NIC.it.rx_frames)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[Nic.tx_busy, Nic.tx_free_count],
    writes=[Nic.tx_busy, Nic.tx_free, Nic.tx_free_count, Nic.bad_ids],
    calls=[queue_take],
    source="virtio 1.2 section 5.1.6.2",
)
def nic_reclaim(a: Asm) -> None:
    """Take transmitted buffers back; a buffer that the device does not have is not freed twice."""
    state = Nic.at(RDX)
    with a.loop() as again:
        a.lea(RDI, NIC.it.tx.descriptors)
        a.call(queue_take)
        a.cmp(EAX, NO_HEAD)
        a.leave(E, again)
        a.lea(RDX, NIC.address)
        a.shr(EAX, 1)
        a.cmp(state.tx_busy.m8(index=RAX), 1)
        with a.if_(NE):
            a.inc(state.bad_ids)
            a.jmp(again.top)
        a.mov(state.tx_busy.m8(index=RAX), 0)
        a.mov(ECX, state.tx_free_count)
        a.mov(state.tx_free.m8(index=RCX), AL)
        a.inc(state.tx_free_count)
        a.jmp(again.top)
    a.ret()


@routine(
    outputs=[Out(RDI, "FRAME_MAX bytes"), Out(CF, "1 = no transmit buffer is free")],
    clobbers=CALLER_SAVED,
    reads=[Nic.tx_free_count, Nic.tx_free, Nic.state],
    writes=[Nic.tx_full],
    calls=[nic_reclaim],
    source="firmware/docs/layers.md",
)
def nic_reserve(a: Asm) -> None:
    """Return the next transmit buffer; until `nic_commit` it is the same one."""
    state = Nic.at(RDX)
    full = a.label("full")
    a.cmp(NIC.it.state, NicState.READY)
    a.jne(full)
    a.cmp(NIC.it.tx_free_count, 0)
    with a.if_(E):
        a.call(nic_reclaim)
        a.cmp(NIC.it.tx_free_count, 0)
        a.je(full)
    a.lea(RDX, NIC.address)
    a.mov(ECX, state.tx_free_count)
    a.movzx(EDI, state.tx_free.m8(-1, index=RCX))
    a.shl(EDI, TX_SHIFT + 1)
    a.lea(RDI, mem8(RDI, TX_BUFFERS + FRAME_OFFSET, ref=PACKET))
    a.clc()
    a.ret()
    a.place(full)
    a.inc(NIC.it.tx_full)
    a.xor(EDI, EDI)
    a.stc()
    a.ret()


@routine(
    inputs=[In(ECX, int, "bytes of the frame in the reserved buffer; at most FRAME_MAX")],
    clobbers=CALLER_SAVED,
    reads=[Nic.tx_free, Nic.tx_free_count, Virtqueue.descriptors],
    writes=[Nic.tx_free_count, Nic.tx_busy, Nic.tx_frames, Descriptor.length, PACKET],
    calls=[queue_give],
    source="firmware/docs/layers.md; virtio 1.2 section 5.1.6.2",
)
def nic_commit(a: Asm, length: Reg32) -> None:
    """Queue the reserved buffer, padded with zeros to 60 bytes."""
    state, number = Nic.at(RDX), RSI
    a.lea(RDX, NIC.address)
    a.dec(state.tx_free_count)
    a.mov(EAX, state.tx_free_count)
    a.movzx(ESI, state.tx_free.m8(index=RAX))
    a.mov(state.tx_busy.m8(index=number), 1)

    a.cmp(length, ETHERNET_MIN)
    with a.if_(B):
        a.mov(ECX, ECX)  # the upper half of a narrow input is anything
        a.mov(EDI, ESI)
        a.shl(EDI, TX_SHIFT + 1)
        a.lea(RDI, mem8(RDI, TX_BUFFERS + FRAME_OFFSET, ref=PACKET, index=RCX))
        a.neg(length)
        a.add(length, ETHERNET_MIN)
        a.xor(EAX, EAX)
        a.rep_stosb()
        a.mov(ECX, ETHERNET_MIN)

    # The frame's descriptor is the odd one; its length is all that changes.
    a.add(ESI, ESI)
    a.mov(EAX, ESI)
    a.shl(EAX, 4)
    a.add(RAX, NIC.it.tx.descriptors)
    a.mov(Descriptor.at(RAX, Descriptor.SIZE).length, ECX)
    a.inc(state.tx_frames)
    a.lea(RDI, NIC.it.tx.descriptors)
    a.mov(ECX, ESI)
    a.jmp(queue_give)


@routine(
    inputs=[In(RDI, Virtqueue, "the queue")],
    clobbers=[RAX, RDX],
    reads=[
        Virtqueue.pending,
        Virtqueue.used,
        Virtqueue.notify,
        Virtqueue.number,
        UsedRing.flags,
        Nic.transport,
    ],
    writes=[Virtqueue.pending, Nic.doorbells, NOTIFY],
    source="virtio 1.2 section 2.7.13.3; decision 8",
)
def queue_kick(a: Asm, queue: Virtqueue) -> None:
    """Tell the device when something was given and it wants to be told."""
    with a.block() as done:
        a.cmp(queue.pending, 0)
        a.leave(E, done)
        a.mov(queue.pending, 0)
        a.mfence()  # the index must be seen before the flag is read
        a.mov(RDX, queue.used)
        a.test(UsedRing.at(RDX).flags, USED_NO_NOTIFY)
        a.leave(NZ, done)
        a.inc(NIC.it.doorbells)
        a.mov(EAX, queue.number)
        a.mov(RDX, queue.notify)
        a.cmp(NIC.it.transport, Transport.MODERN)
        with a.if_(E):
            a.mov(mem16(RDX, ref=NOTIFY), AX)
        with a.else_():
            a.out(DX, AX)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[Nic.state],
    calls=[queue_kick],
    source="firmware/docs/layers.md",
)
def nic_flush(a: Asm) -> None:
    """Ring each doorbell once when something was queued since the last time."""
    a.cmp(NIC.it.state, NicState.READY)
    with a.if_(NE):
        a.ret()
    a.lea(RDI, NIC.it.tx.descriptors)
    a.call(queue_kick)
    a.lea(RDI, NIC.it.rx.descriptors)
    a.jmp(queue_kick)
