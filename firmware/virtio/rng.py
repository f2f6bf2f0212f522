"""virtio-rng: a sample of random bytes from the host (virtio 1.2 section 5.4).

The device is started, asked, stopped and taken off the bus again: nothing of it runs beside the node.
All that it says is bounded, and the wait is too.
"""

from firmware.abi import CALLER_SAVED
from firmware.layouts.boot import BOOT, BootInfo
from firmware.layouts.crypto import BUFFER_OUT
from firmware.layouts.entropy import SAMPLE_BYTES, Gathered
from firmware.layouts.memory import MEMORY, Memory
from firmware.layouts.nic import (
    DESCRIPTOR_WRITE,
    NOTIFY,
    PACKET,
    AvailableRing,
    Capability,
    CapabilityType,
    Descriptor,
    Legacy,
    Transport,
    UsedElement,
    UsedRing,
    Virtqueue,
)
from firmware.layouts.rng import (
    RNG,
    RNG_BUFFER,
    RNG_BYTES,
    RNG_WAIT_BITS,
    Rng,
)
from firmware.limits import WINDOW_DMA
from firmware.pci import pci_command, pci_read
from firmware.virtio.config import virtio_capabilities
from firmware.virtio.registers import (
    virtio_reset_ports,
    virtio_reset_window,
)
from firmware.virtio.rng_start import rng_command, rng_port, rng_ports, rng_windows
from toolchain.asm import (
    AE,
    AX,
    DX,
    EAX,
    ECX,
    EDI,
    ESI,
    NE,
    R12,
    R12D,
    R13,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    B,
    C,
    E,
    In,
    Out,
    Reg64,
    Z,
    mem8,
    mem16,
    routine,
)


@routine(
    outputs=[Out(EAX, "Gathered: COMPLETE, or BROKEN when the buffer is not full")],
    clobbers=CALLER_SAVED,
    reads=[
        Rng.function,
        Rng.transport,
        Virtqueue.descriptors,
        Virtqueue.available,
        Virtqueue.used,
        Virtqueue.notify,
        Virtqueue.mask,
        Virtqueue.given,
        UsedRing.idx,
        UsedRing.elements,
        Memory.dma_physical,
    ],
    writes=[
        Descriptor.address,
        Descriptor.length,
        Descriptor.flags,
        Virtqueue.given,
        AvailableRing.idx,
        NOTIFY,
    ],
    ordered=[AvailableRing.idx],
    calls=[pci_read],
    saves=[RBX, R12, R13],
    source="virtio 1.2 sections 2.7.13, 2.7.14 and 5.4.6",
)
def rng_fetch(a: Asm) -> None:
    """Ask until the buffer is full: a device may give less than it was asked for, but never nothing."""
    queue, part, used = RNG.it.queue, Descriptor.at(RDX), UsedRing.at(RDX)
    got, since, buffer = R12D, RBX, R13
    broken = a.label("broken")
    a.mov(buffer, MEMORY.it.dma_physical)
    a.add(buffer, RNG_BUFFER - WINDOW_DMA)
    a.rdtsc64()
    a.mov(since, RAX)
    a.xor(got, got)
    with a.loop() as ask:
        a.mov(RDX, queue.descriptors)
        a.lea(RAX, mem8(R13, index=R12, ref=PACKET))
        a.mov(part.address, RAX)
        a.mov(EAX, SAMPLE_BYTES)
        a.sub(EAX, got)
        a.mov(part.length, EAX)
        a.mov(part.flags, DESCRIPTOR_WRITE)
        a.inc(queue.given)
        a.mov(AX, queue.given)
        a.mov(RDX, queue.available)
        a.mov(AvailableRing.at(RDX).idx, AX)  # stores are not reordered (SDM 3A 9.2.2)
        a.xor(EAX, EAX)
        a.mov(RDX, queue.notify)
        a.cmp(RNG.it.transport, Transport.MODERN)
        with a.if_(E):
            a.mov(mem16(RDX, ref=NOTIFY), AX)
        with a.else_():
            a.out(DX, AX)

        with a.loop() as wait:
            a.mov(RDX, queue.used)
            a.mov(AX, used.idx)
            a.cmp(AX, queue.given)
            a.leave(E, wait)
            # A look at the bus hands the processor to the device's host, where it needs one.
            a.pause()
            a.mov(EDI, RNG.it.function)
            a.xor(ECX, ECX)
            a.call(pci_read)
            a.rdtsc64()
            a.sub(RAX, since)
            a.shr(RAX, RNG_WAIT_BITS)
            a.again(Z, wait)
            a.jmp(broken)

        # Loads are not reordered with older loads: the entry is at least as new as the index.
        a.dec(EAX)
        a.and_(EAX, queue.mask)
        a.cmp(used.elements.m32(UsedElement.id.offset, index=RAX, scale=8), 0)
        a.j(NE, broken)
        a.mov(ECX, used.elements.m32(UsedElement.length.offset, index=RAX, scale=8))
        a.dec(ECX)
        a.mov(EAX, SAMPLE_BYTES)
        a.sub(EAX, got)
        a.cmp(ECX, EAX)
        a.j(AE, broken)  # nothing, or more than was asked for
        a.lea(got, mem8(RCX, 1, index=R12, ref=PACKET))
        a.cmp(got, SAMPLE_BYTES)
        a.again(B, ask)
    a.xor(EAX, EAX)  # Gathered.COMPLETE
    a.ret()
    a.place(broken)
    a.mov(EAX, Gathered.BROKEN)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[Rng.function, Rng.transport, Rng.port, Rng.common],
    writes=[Rng.transport],
    calls=[virtio_reset_ports, virtio_reset_window, pci_command],
    source="virtio 1.2 section 2.4; decision 8",
)
def rng_stop(a: Asm) -> None:
    """Reset the device and take it off the bus, so that it stores nothing even when it does not obey."""
    a.cmp(RNG.it.transport, Transport.LEGACY)
    with a.if_(B):
        a.ret()
    with a.if_(E):
        rng_port(a, Legacy.STATUS)
        a.call(virtio_reset_ports)
    with a.else_():
        a.mov(RDX, RNG.it.common)
        a.call(virtio_reset_window)
    a.mov(RNG.it.transport, Transport.NONE)
    rng_command(a, 0)
    a.ret()


@routine(
    inputs=[In(RDI, int, "where the sample goes: 64 bytes, zeroed")],
    outputs=[Out(EAX, "Gathered")],
    clobbers=CALLER_SAVED,
    reads=[BootInfo.rng_function, Rng.capabilities, RNG_BYTES],
    writes=[Rng.function, BUFFER_OUT, RNG_BYTES],
    calls=[virtio_capabilities, rng_windows, rng_ports, rng_fetch, rng_stop],
    saves=[RBX, R12],
    source="firmware/docs/entropy.md#virtio-rng",
)
def rng_gather(a: Asm, out: Reg64) -> None:
    """Start the device, fetch a sample, stop it; nothing of the sample stays in the DMA window."""
    rows = RNG.it.capabilities
    a.mov(RBX, out)
    a.mov(EDI, BOOT.it.rng_function)
    a.mov(EAX, Gathered.ABSENT)
    a.test(EDI, EDI)
    with a.if_(Z):
        a.ret()
    a.mov(RNG.it.function, EDI)
    a.lea(RSI, rows.address)
    a.call(virtio_capabilities)
    a.mov(R12D, Gathered.BROKEN)
    with a.block() as broken:
        with a.block() as running:
            with a.block() as ports:
                for kind in (CapabilityType.COMMON, CapabilityType.NOTIFY):  # unrolled: both
                    a.cmp(rows.m32(kind * Capability.SIZE + Capability.length.offset), 0)
                    a.leave(E, ports)
                a.call(rng_windows)
                a.leave(AE, running)
            a.call(rng_ports)
            a.leave(C, broken)
        a.call(rng_fetch)
        a.mov(R12D, EAX)
    a.call(rng_stop)

    a.mov(ESI, RNG_BUFFER)
    a.mov(RDI, RBX)
    a.mov(ECX, SAMPLE_BYTES // 8)
    a.rep_movsq()
    a.mov(EDI, RNG_BUFFER)
    a.mov(ECX, SAMPLE_BYTES // 8)
    a.xor(EAX, EAX)
    a.rep_stosq()
    a.mov(EAX, R12D)
    a.ret()
