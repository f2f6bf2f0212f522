"""Start the card through its register windows (virtio 1.2 section 4.1.4)."""

from firmware.abi import CALLER_SAVED
from firmware.errors import NIC_BAR, NIC_FEATURES, NIC_RESET_STUCK
from firmware.layouts.nic import (
    HEADER_MODERN,
    MODERN_QUEUE_SIZE,
    NIC,
    NIC_WINDOWS,
    RX_QUEUE,
    TX_QUEUE,
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
from firmware.limits import WINDOW_DMA
from firmware.nic.legacy import WANTED
from firmware.nic.setup import queue_setup
from firmware.pci import pci_command
from firmware.virtio.registers import (
    COMMAND_CLEAR,
    COMMAND_DECODE,
    COMMAND_MASTER,
    virtio_queue_enable,
    virtio_reset_window,
    virtio_window,
)
from toolchain.asm import (
    AL,
    CX,
    DX,
    EAX,
    ECX,
    EDI,
    EDX,
    NZ,
    R8,
    R9D,
    R12,
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
    routine,
)

VERSION_1_HIGH = int(Feature.VERSION_1) >> 32


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
        CommonConfig.size,
    ],
    writes=[
        CommonConfig.select,
        CommonConfig.size,
    ],
    calls=[queue_setup, virtio_queue_enable],
    saves=[RBX, R12],
    source="virtio 1.2 section 4.1.5.1.3",
)
def modern_queue(a: Asm, queue: Virtqueue, rings: Reg64, number: Reg32) -> None:
    """Set one queue up: size, addresses, notify register, enable."""
    common = CommonConfig.at(RBX)
    failed = a.label("failed")
    a.mov(R12, RDI)
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

    a.mov(RDI, R12)
    a.mov(RSI, RBX)
    a.lea(RDX, NIC.it.capabilities.m8(CapabilityType.NOTIFY * Capability.SIZE))
    a.mov(RCX, NIC_WINDOWS.it.notify)
    a.mov(R8, NIC.it.dma_physical)
    a.sub(R8, WINDOW_DMA)
    a.call(virtio_queue_enable)
    a.mov(EAX, 0)  # CF stays
    with a.if_(C):
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
    calls=[virtio_window, virtio_reset_window, modern_queue, pci_command],
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
            a.mov(EDI, NIC.it.pci_address)
            a.lea(RSI, NIC.it.capabilities.m8(kind * Capability.SIZE))
            a.call(virtio_window)
            a.test(RAX, RAX)
            a.jz(refused)
            a.mov(place, RAX)
    a.mov(NIC.it.transport, Transport.MODERN)
    a.mov(NIC.it.header_bytes, HEADER_MODERN)
    _command(a, COMMAND_DECODE)
    a.mov(RDX, windows.common)
    a.call(virtio_reset_window)
    with a.if_(C):
        a.mov(EAX, NIC_RESET_STUCK.code)
        a.ret()

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
