"""virtio-rng: start the device through its ports or its windows; its rings."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.memory import MEMORY, Memory
from firmware.layouts.nic import (
    AVAILABLE_NO_INTERRUPT,
    PACKET,
    QUEUE_SIZE_MAX,
    AvailableRing,
    Capability,
    CapabilityType,
    CommonConfig,
    DeviceStatus,
    Feature,
    Legacy,
    Transport,
    UsedRing,
    Virtqueue,
)
from firmware.layouts.pci import BAR_IO
from firmware.layouts.rng import (
    RNG,
    RNG_QUEUE,
    RNG_QUEUE_SIZE,
    Rng,
)
from firmware.limits import PAGE, WINDOW_DMA
from firmware.pci import pci_bar, pci_command
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
    NZ,
    R8,
    R8B,
    R9D,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    C,
    E,
    In,
    Out,
    Reg32,
    Z,
    mem8,
    routine,
)

READY = DeviceStatus.ACKNOWLEDGE | DeviceStatus.DRIVER
VERSION_1_HIGH = int(Feature.VERSION_1) >> 32
FAILED = Out(CF, "1 = the device is not as it must be")


def rng_command(a: Asm, bits: int) -> None:
    """Set decoding and mastering anew. Clobbers what `pci_command` does, EDI and R9D."""
    a.mov(EDI, RNG.it.function)
    a.mov(EDX, bits)
    a.mov(R9D, COMMAND_CLEAR)
    a.call(pci_command)


def rng_port(a: Asm, register: Legacy) -> None:
    """EDX := the port of a legacy register."""
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
    rng_command(a, COMMAND_DECODE)
    rng_port(a, Legacy.STATUS)
    a.call(virtio_reset_ports)
    a.j(C, failed)
    for status in (DeviceStatus.ACKNOWLEDGE, READY):  # unrolled: one after the other
        a.mov(EAX, status)
        a.out(DX, AL)
    rng_port(a, Legacy.DRIVER_FEATURES)
    a.xor(EAX, EAX)
    a.out(DX, EAX)
    rng_port(a, Legacy.QUEUE_SELECT)
    a.out(DX, AX)
    rng_port(a, Legacy.QUEUE_SIZE)
    a.in_(AX, DX)
    a.movzx(ECX, AX)
    a.call(rng_lay)
    a.j(C, failed)
    rng_port(a, Legacy.NOTIFY)
    a.mov(RNG.it.queue.notify, RDX)
    rng_port(a, Legacy.QUEUE_PAGE)
    a.mov(RAX, MEMORY.it.dma_physical)
    a.add(RAX, RNG_QUEUE - WINDOW_DMA)
    a.shr(RAX, 12)
    a.out(DX, EAX)
    rng_command(a, COMMAND_DECODE | COMMAND_MASTER)
    rng_port(a, Legacy.STATUS)
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
    rng_command(a, COMMAND_DECODE)
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
    rng_command(a, COMMAND_DECODE | COMMAND_MASTER)
    a.mov(common.status, READY | DeviceStatus.FEATURES_OK | DeviceStatus.DRIVER_OK)
    a.clc()
    a.ret()
    a.place(refused)
    a.stc()
    a.place(failed)
    a.ret()
