"""Start the card through its register windows (virtio 1.2 section 4.1.4)."""

from firmware.abi import CALLER_SAVED
from firmware.errors import NIC_BAR, NIC_FEATURES, NIC_RESET_STUCK
from firmware.layouts.nic import (
    HEADER_MODERN,
    MODERN_QUEUE_SIZE,
    NIC,
    NIC_WINDOWS,
    RESET_READS,
    RX_QUEUE,
    TX_QUEUE,
    WINDOW_MAX,
    Capability,
    CapabilityType,
    CommonConfig,
    DeviceConfig,
    DeviceStatus,
    Feature,
    Nic,
    NicWindows,
    Transport,
    Virtqueue,
)
from firmware.layouts.node import NETWORK, Network
from firmware.layouts.pci import BAR_IO
from firmware.limits import PAGE, WINDOW_DMA
from firmware.memory.windows import mmio_map
from firmware.nic.legacy import COMMAND_CLEAR, COMMAND_DECODE, COMMAND_MASTER, WANTED
from firmware.nic.setup import queue_setup
from firmware.pci import pci_bar, pci_command
from toolchain.asm import (
    AL,
    BE,
    CX,
    DX,
    EAX,
    EBX,
    ECX,
    EDI,
    EDX,
    ESI,
    NZ,
    R8B,
    R9D,
    R12,
    R13,
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
    Reg64,
    Region,
    Z,
    mem8,
    routine,
)

VERSION_1_HIGH = int(Feature.VERSION_1) >> 32
SUMS = Region("sums", "addresses added by lea; no memory is touched")


@routine(
    inputs=[In(ECX, int, "a CapabilityType that was found")],
    outputs=[Out(RAX, "address of the structure; 0 = it cannot be reached")],
    clobbers=CALLER_SAVED,
    reads=[Nic.pci_address, Capability],
    calls=[pci_bar, mmio_map],
    saves=[RBX],
    source="virtio 1.2 section 4.1.4.1",
)
def modern_window(a: Asm, kind: Reg32) -> None:
    """Map one register structure; the first WINDOW_MAX bytes of a longer one."""
    row = Capability.at(RBX)
    none = a.label("none")
    a.shl(kind, 4)
    a.lea(RBX, NIC.it.capabilities.address)
    a.add(RBX, RCX)
    a.mov(EDI, NIC.it.pci_address)
    a.mov(ECX, row.bar)
    a.call(pci_bar)
    a.j(C, none)
    a.test(R8B, BAR_IO)
    a.j(NZ, none)

    # Whole pages around `base + offset` and the length.
    a.mov(EDX, row.offset)
    a.mov(ESI, row.length)
    a.mov(ECX, WINDOW_MAX)
    a.cmp(ESI, ECX)
    a.cmov(A, ESI, ECX)
    a.add(RAX, RDX)
    a.mov(RDI, RAX)
    a.and_(EAX, PAGE - 1)
    a.mov(EBX, EAX)
    a.lea(ESI, mem8(RSI, PAGE - 1, ref=SUMS, index=RAX))
    a.shr(ESI, 12)
    a.and_(RDI, -PAGE)
    a.call(mmio_map)
    a.test(RAX, RAX)
    a.jz(none)
    a.add(RAX, RBX)
    a.ret()
    a.place(none)
    a.xor(EAX, EAX)
    a.ret()


@routine(
    outputs=[Out(EAX, "0 = the card answers status 0; else NIC_RESET_STUCK")],
    clobbers=CALLER_SAVED,
    reads=[NicWindows.common, CommonConfig.status],
    writes=[CommonConfig.status],
    source="virtio 1.2 section 4.1.4.3.2; decision 8",
)
def modern_reset(a: Asm) -> None:
    """Reset the card and read it back, a bounded number of times."""
    common, left = CommonConfig.at(RDX), ECX
    a.mov(RDX, NIC_WINDOWS.it.common)
    a.mov(common.status, 0)
    a.mov(left, RESET_READS)
    with a.loop() as wait:
        a.movzx(EAX, common.status)
        a.test(EAX, EAX)
        a.leave(Z, wait)
        a.dec(left)
        a.again(NZ, wait)
        a.mov(EAX, NIC_RESET_STUCK.code)
    a.ret()


@routine(
    inputs=[
        In(RDI, Virtqueue, "the queue"),
        In(RSI, int, "QUEUE_BYTES for its rings"),
        In(EDX, int, "0 receive, 1 transmit"),
    ],
    outputs=[Out(EAX, "0, or an error code")],
    clobbers=CALLER_SAVED,
    reads=[
        NicWindows.common,
        NicWindows.notify,
        Nic.dma_physical,
        Capability,
        CommonConfig.size,
        CommonConfig.notify_offset,
        Virtqueue.available,
        Virtqueue.used,
    ],
    writes=[
        CommonConfig.select,
        CommonConfig.size,
        CommonConfig.descriptors,
        CommonConfig.driver,
        CommonConfig.device,
        CommonConfig.enable,
        Virtqueue.notify,
    ],
    calls=[queue_setup],
    saves=[RBX, R12, R13],
    source="virtio 1.2 section 4.1.5.1.3",
)
def modern_queue(a: Asm, queue: Virtqueue, rings: Reg64, number: Reg32) -> None:
    """Set one queue up: size, addresses, notify register, enable."""
    common, mine, start = CommonConfig.at(RBX), Virtqueue.at(R12), R13
    failed = a.label("failed")
    a.mov(R12, RDI)
    a.mov(start, rings)
    a.mov(RBX, NIC_WINDOWS.it.common)
    a.mov(common.select, DX)
    a.movzx(ECX, common.size)
    a.mov(EAX, MODERN_QUEUE_SIZE)
    a.cmp(ECX, EAX)
    a.cmov(A, ECX, EAX)
    a.mov(common.size, CX)
    a.call(queue_setup)
    a.test(EAX, EAX)
    a.jnz(failed)

    a.mov(RCX, NIC.it.dma_physical)
    a.sub(RCX, WINDOW_DMA)
    for part, place in (
        (common.descriptors, start),
        (common.driver, mine.available),
        (common.device, mine.used),
    ):
        a.mov(RAX, place)
        a.add(RAX, RCX)
        a.mov(part.m32(), EAX)
        a.shr(RAX, 32)
        a.mov(part.m32(4), EAX)

    # The notify register: offset times multiplier, inside what was mapped.
    row = Capability.at(RDX)
    a.lea(RDX, NIC.it.capabilities.m8(CapabilityType.NOTIFY * Capability.SIZE))
    a.movzx(EAX, common.notify_offset)
    a.mov(ECX, row.extra)
    a.imul(RAX, RCX)
    a.lea(RCX, mem8(RAX, 2, ref=SUMS))
    a.cmp(RCX, WINDOW_MAX)
    with a.if_(BE):
        a.mov(EDX, row.length)
        a.cmp(RCX, RDX)
        with a.if_(BE):
            a.add(RAX, NIC_WINDOWS.it.notify)
            a.mov(mine.notify, RAX)
            a.mov(common.enable, 1)
            a.xor(EAX, EAX)
            a.jmp(failed)
    a.mov(EAX, NIC_BAR.code)
    a.place(failed)
    a.ret()


@routine(
    outputs=[Out(EAX, "0 = running, or an error code")],
    clobbers=CALLER_SAVED,
    reads=[
        NicWindows,
        Nic.pci_address,
        Nic.features,
        CommonConfig.device_feature,
        CommonConfig.status,
        DeviceConfig.mac,
        DeviceConfig.mtu,
    ],
    writes=[
        NicWindows,
        Nic.transport,
        Nic.header_bytes,
        Nic.features,
        Nic.mtu,
        Network.mac,
        CommonConfig.device_feature_select,
        CommonConfig.driver_feature_select,
        CommonConfig.driver_feature,
        CommonConfig.status,
    ],
    calls=[modern_window, modern_reset, modern_queue, pci_command],
    source="virtio 1.2 section 3.1.1",
)
def modern_start(a: Asm) -> None:
    """Bring the card up through its windows."""
    common, device = CommonConfig.at(RDX), DeviceConfig.at(RDX)
    refused, features, failed = a.label("refused"), a.label("features"), a.label("failed")
    windows = NIC_WINDOWS.it
    for kind, place in (  # unrolled: four structures, four pointers that outlive a restart
        (CapabilityType.COMMON, windows.common),
        (CapabilityType.NOTIFY, windows.notify),
        (CapabilityType.ISR, windows.isr),
        (CapabilityType.DEVICE, windows.device),
    ):
        a.cmp(place, 0)
        with a.if_(E):
            a.mov(ECX, kind)
            a.call(modern_window)
            a.test(RAX, RAX)
            a.jz(refused)
            a.mov(place, RAX)
    a.mov(NIC.it.transport, Transport.MODERN)
    a.mov(NIC.it.header_bytes, HEADER_MODERN)
    _command(a, COMMAND_DECODE)
    a.call(modern_reset)
    a.test(EAX, EAX)
    a.jnz(failed)

    status = DeviceStatus.ACKNOWLEDGE
    a.mov(RDX, NIC_WINDOWS.it.common)
    a.mov(common.status, status)
    status |= DeviceStatus.DRIVER
    a.mov(common.status, status)
    a.mov(common.device_feature_select, 0)
    a.mov(ECX, common.device_feature)
    a.and_(ECX, WANTED)
    a.mov(common.device_feature_select, 1)
    a.mov(EAX, common.device_feature)
    a.and_(EAX, VERSION_1_HIGH)
    a.jz(features)
    a.test(ECX, Feature.MAC)
    a.jz(features)
    a.mov(common.driver_feature_select, 0)
    a.mov(common.driver_feature, ECX)
    a.mov(common.driver_feature_select, 1)
    a.mov(common.driver_feature, EAX)
    a.shl(RAX, 32)
    a.or_(RAX, RCX)
    a.mov(NIC.it.features, RAX)
    status |= DeviceStatus.FEATURES_OK
    a.mov(common.status, status)
    a.test(common.status, DeviceStatus.FEATURES_OK)
    a.jz(features)

    for number, (queue, rings) in enumerate(((NIC.it.rx, RX_QUEUE), (NIC.it.tx, TX_QUEUE))):
        a.lea(RDI, queue.descriptors)
        a.mov(RSI, rings)
        a.mov(EDX, number)
        a.call(modern_queue)
        a.test(EAX, EAX)
        a.jnz(failed)

    a.mov(RDX, NIC_WINDOWS.it.device)
    for n in range(6):  # unrolled: the address is an array of bytes
        a.mov(AL, device.mac.m8(n))
        a.mov(NETWORK.it.mac.m8(n), AL)
    a.test(NIC.it.features, Feature.MTU)
    with a.if_(NZ):
        a.movzx(EAX, device.mtu)
        a.mov(NIC.it.mtu, EAX)
    _command(a, COMMAND_DECODE | COMMAND_MASTER)
    a.mov(RDX, NIC_WINDOWS.it.common)
    a.mov(common.status, status | DeviceStatus.DRIVER_OK)
    a.xor(EAX, EAX)
    a.jmp(failed)

    a.place(features)
    a.mov(EAX, NIC_FEATURES.code)
    a.jmp(failed)
    a.place(refused)
    a.mov(EAX, NIC_BAR.code)
    a.place(failed)
    a.ret()


def _command(a: Asm, bits: int) -> None:
    a.mov(EDI, NIC.it.pci_address)
    a.mov(EDX, bits)
    a.mov(R9D, COMMAND_CLEAR)
    a.call(pci_command)
