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
    AVAILABLE_NO_INTERRUPT,
    DESCRIPTOR_WRITE,
    NOTIFY,
    PACKET,
    QUEUE_SIZE_MAX,
    AvailableRing,
    Capability,
    CapabilityType,
    CommonConfig,
    Descriptor,
    DeviceStatus,
    Feature,
    Legacy,
    Transport,
    UsedElement,
    UsedRing,
    Virtqueue,
)
from firmware.layouts.pci import BAR_IO
from firmware.layouts.rng import (
    RNG,
    RNG_BUFFER,
    RNG_BYTES,
    RNG_QUEUE,
    RNG_QUEUE_SIZE,
    RNG_WAIT_BITS,
    Rng,
)
from firmware.limits import PAGE, WINDOW_DMA
from firmware.pci import pci_bar, pci_command, pci_read
from firmware.virtio.config import virtio_capabilities
from firmware.virtio.registers import (
    COMMAND_CLEAR,
    COMMAND_DECODE,
    COMMAND_MASTER,
    virtio_queue_enable,
    virtio_reset_ports,
    virtio_reset_window,
    virtio_window,
)
from toolchain.asm import (
    AE,
    AL,
    AX,
    CF,
    CX,
    DX,
    EAX,
    ECX,
    EDI,
    EDX,
    ESI,
    NE,
    NZ,
    R8,
    R8B,
    R9D,
    R12,
    R12D,
    R13,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    C,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    Z,
    mem8,
    mem16,
    routine,
)

READY = DeviceStatus.ACKNOWLEDGE | DeviceStatus.DRIVER
VERSION_1_HIGH = int(Feature.VERSION_1) >> 32
FAILED = Out(CF, "1 = the device is not as it must be")


def _command(a: Asm, bits: int) -> None:
    a.mov(EDI, RNG.it.function)
    a.mov(EDX, bits)
    a.mov(R9D, COMMAND_CLEAR)
    a.call(pci_command)


def _port(a: Asm, register: Legacy) -> None:
    a.mov(EDX, RNG.it.port)
    if register:
        a.add(EDX, register)


@routine(
    inputs=[In(ECX, int, "entries of the queue")],
    outputs=[Out(CF, "1 = no such number")],
    clobbers=[RAX, RCX, RDX, RDI],
    writes=[
        Virtqueue.mask,
        Virtqueue.descriptors,
        Virtqueue.available,
        Virtqueue.used,
        Virtqueue.given,
        AvailableRing,
        UsedRing,
    ],
    source="virtio 1.2 section 2.7.2",
)
def rng_lay(a: Asm, entries: Reg32) -> None:
    """Place the three parts as the legacy layout does; both rings are empty."""
    queue, refused = RNG.it.queue, a.label("refused")
    a.mov(ECX, ECX)  # the upper half of a narrow input is anything
    a.lea(EAX, mem8(RCX, -1, ref=PACKET))
    a.test(entries, EAX)
    a.j(NZ, refused)  # no power of two
    a.cmp(EAX, QUEUE_SIZE_MAX)
    a.j(AE, refused)  # zero, or too many
    a.mov(queue.mask, EAX)
    a.mov(EAX, RNG_QUEUE)
    a.mov(queue.descriptors, RAX)
    a.mov(EDI, ECX)
    a.shl(EDI, 4)
    a.add(RDI, RAX)
    a.mov(queue.available, RDI)
    a.lea(RDX, mem8(RDI, 6 + PAGE - 1, ref=PACKET, index=RCX, scale=2))
    a.and_(RDX, -PAGE)
    a.mov(queue.used, RDX)
    a.mov(queue.given, 0)

    # Every head is descriptor 0; flags, index and the word behind the heads are zeroed with them.
    a.xor(EAX, EAX)
    a.mov(UsedRing.at(RDX).flags, AX)
    a.mov(UsedRing.at(RDX).idx, AX)
    a.mov(RDX, RDI)
    a.add(ECX, 4)
    a.shr(ECX, 1)
    a.rep_stosd()
    a.mov(AvailableRing.at(RDX).flags, AVAILABLE_NO_INTERRUPT)
    a.clc()
    a.ret()
    a.place(refused)
    a.stc()
    a.ret()


@routine(
    outputs=[FAILED],
    clobbers=CALLER_SAVED,
    reads=[Rng.function, Rng.port, Memory.dma_physical],
    writes=[Rng.port, Rng.transport, Virtqueue.notify],
    calls=[pci_bar, pci_command, virtio_reset_ports, rng_lay],
    source="virtio 1.2 sections 3.1.1 and 4.1.4.10",
)
def rng_ports(a: Asm) -> None:
    """Start the device through BAR 0; it has no feature that we want."""
    failed = a.label("failed")
    a.mov(EDI, RNG.it.function)
    a.xor(ECX, ECX)
    a.call(pci_bar)
    a.j(C, failed)
    a.test(R8B, BAR_IO)
    a.stc()
    a.j(Z, failed)
    a.mov(RNG.it.port, EAX)
    a.mov(RNG.it.transport, Transport.LEGACY)
    _command(a, COMMAND_DECODE)
    _port(a, Legacy.STATUS)
    a.call(virtio_reset_ports)
    a.j(C, failed)
    for status in (DeviceStatus.ACKNOWLEDGE, READY):  # unrolled: one after the other
        a.mov(EAX, status)
        a.out(DX, AL)
    _port(a, Legacy.DRIVER_FEATURES)
    a.xor(EAX, EAX)
    a.out(DX, EAX)
    _port(a, Legacy.QUEUE_SELECT)
    a.out(DX, AX)
    _port(a, Legacy.QUEUE_SIZE)
    a.in_(AX, DX)
    a.movzx(ECX, AX)
    a.call(rng_lay)
    a.j(C, failed)
    _port(a, Legacy.NOTIFY)
    a.mov(RNG.it.queue.notify, RDX)
    _port(a, Legacy.QUEUE_PAGE)
    a.mov(RAX, MEMORY.it.dma_physical)
    a.add(RAX, RNG_QUEUE - WINDOW_DMA)
    a.shr(RAX, 12)
    a.out(DX, EAX)
    _command(a, COMMAND_DECODE | COMMAND_MASTER)
    _port(a, Legacy.STATUS)
    a.mov(EAX, READY | DeviceStatus.DRIVER_OK)
    a.out(DX, AL)
    a.clc()
    a.place(failed)
    a.ret()


@routine(
    outputs=[FAILED],
    clobbers=CALLER_SAVED,
    reads=[
        Rng.function,
        Rng.common,
        Rng.window,
        Memory.dma_physical,
        CommonConfig.device_feature,
        CommonConfig.status,
        CommonConfig.size,
        Virtqueue.mask,
    ],
    writes=[
        Rng.transport,
        Rng.common,
        Rng.window,
        CommonConfig.device_feature_select,
        CommonConfig.driver_feature_select,
        CommonConfig.driver_feature,
        CommonConfig.status,
        CommonConfig.select,
        CommonConfig.size,
    ],
    calls=[virtio_window, pci_command, virtio_reset_window, rng_lay, virtio_queue_enable],
    saves=[RBX],
    source="virtio 1.2 section 3.1.1",
)
def rng_windows(a: Asm) -> None:
    """Start the device through its windows; VERSION_1 is all that we want."""
    common, rows = CommonConfig.at(RBX), RNG.it.capabilities
    failed, refused = a.label("failed"), a.label("refused")
    for kind, place in (  # unrolled: two structures
        (CapabilityType.COMMON, RNG.it.common),
        (CapabilityType.NOTIFY, RNG.it.window),
    ):
        a.cmp(place, 0)
        with a.if_(E):
            a.mov(EDI, RNG.it.function)
            a.lea(RSI, rows.m8(kind * Capability.SIZE))
            a.call(virtio_window)
            a.test(RAX, RAX)
            a.jz(refused)
            a.mov(place, RAX)
    a.mov(RNG.it.transport, Transport.MODERN)
    _command(a, COMMAND_DECODE)
    a.mov(RBX, RNG.it.common)
    a.mov(RDX, RBX)
    a.call(virtio_reset_window)
    a.j(C, failed)
    a.mov(common.status, DeviceStatus.ACKNOWLEDGE)
    a.mov(common.status, READY)
    a.mov(common.device_feature_select, 1)
    a.test(common.device_feature, VERSION_1_HIGH)
    a.jz(refused)
    a.mov(common.driver_feature_select, 0)
    a.mov(common.driver_feature, 0)
    a.mov(common.driver_feature_select, 1)
    a.mov(common.driver_feature, VERSION_1_HIGH)
    a.mov(common.status, READY | DeviceStatus.FEATURES_OK)
    a.test(common.status, DeviceStatus.FEATURES_OK)
    a.jz(refused)

    a.mov(common.select, 0)
    a.movzx(ECX, common.size)
    a.mov(EAX, RNG_QUEUE_SIZE)
    a.cmp(ECX, EAX)
    a.cmov(A, ECX, EAX)
    a.call(rng_lay)
    a.j(C, failed)
    a.mov(ECX, RNG.it.queue.mask)
    a.inc(ECX)
    a.mov(common.size, CX)
    a.lea(RDI, RNG.it.queue.descriptors)
    a.mov(RSI, RBX)
    a.lea(RDX, rows.m8(CapabilityType.NOTIFY * Capability.SIZE))
    a.mov(RCX, RNG.it.window)
    a.mov(R8, MEMORY.it.dma_physical)
    a.sub(R8, WINDOW_DMA)
    a.call(virtio_queue_enable)
    a.j(C, failed)
    _command(a, COMMAND_DECODE | COMMAND_MASTER)
    a.mov(common.status, READY | DeviceStatus.FEATURES_OK | DeviceStatus.DRIVER_OK)
    a.clc()
    a.ret()
    a.place(refused)
    a.stc()
    a.place(failed)
    a.ret()


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
        _port(a, Legacy.STATUS)
        a.call(virtio_reset_ports)
    with a.else_():
        a.mov(RDX, RNG.it.common)
        a.call(virtio_reset_window)
    a.mov(RNG.it.transport, Transport.NONE)
    _command(a, 0)
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
