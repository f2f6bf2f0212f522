"""Start the card through its legacy ports (virtio 1.2 section 4.1.4.10)."""

from firmware.abi import CALLER_SAVED
from firmware.errors import NIC_BAR, NIC_FEATURES, NIC_RESET_STUCK
from firmware.layouts.nic import (
    HEADER_LEGACY,
    NIC,
    RX_QUEUE,
    TX_QUEUE,
    DeviceStatus,
    Feature,
    Legacy,
    Nic,
    Transport,
    Virtqueue,
)
from firmware.layouts.node import NETWORK, Network
from firmware.layouts.pci import BAR_IO
from firmware.limits import WINDOW_DMA
from firmware.nic.setup import queue_setup
from firmware.pci import pci_bar, pci_command
from firmware.virtio.registers import (
    COMMAND_CLEAR,
    COMMAND_DECODE,
    COMMAND_MASTER,
    virtio_reset_ports,
)
from toolchain.asm import (
    AL,
    AX,
    DX,
    EAX,
    ECX,
    EDI,
    EDX,
    NZ,
    R8B,
    R9D,
    RAX,
    RDI,
    RDX,
    RSI,
    Asm,
    C,
    Out,
    Z,
    routine,
)

WANTED = int(Feature.MTU | Feature.MAC | Feature.STATUS)
LEGACY_WANTED = WANTED | int(Feature.ANY_LAYOUT)


def _port(a: Asm, register: Legacy) -> None:
    a.mov(EDX, NIC.it.io_base)
    if register:
        a.add(EDX, register)


@routine(
    outputs=[Out(EAX, "0 = running, or an error code")],
    clobbers=CALLER_SAVED,
    reads=[Nic.pci_address, Nic.io_base, Nic.dma_physical, Nic.features],
    writes=[
        Nic.io_base,
        Nic.transport,
        Nic.header_bytes,
        Nic.features,
        Nic.mtu,
        Network.mac,
        Virtqueue.notify,
    ],
    calls=[pci_bar, pci_command, virtio_reset_ports, queue_setup],
    source="virtio 1.2 sections 3.1.1, 4.1.5.1.3 and 4.1.4.10",
)
def legacy_start(a: Asm) -> None:
    """Bring the card up through BAR 0."""
    failed = a.label("failed")
    with a.block() as ports:
        with a.block() as refused:
            a.mov(EDI, NIC.it.pci_address)
            a.xor(ECX, ECX)
            a.call(pci_bar)
            a.leave(C, refused)
            a.test(R8B, BAR_IO)
            a.leave(NZ, ports)
        a.mov(EAX, NIC_BAR.code)
        a.ret()
    a.mov(NIC.it.io_base, EAX)
    a.mov(NIC.it.transport, Transport.LEGACY)
    a.mov(NIC.it.header_bytes, HEADER_LEGACY)

    _command(a, COMMAND_DECODE)
    _port(a, Legacy.STATUS)
    a.call(virtio_reset_ports)
    with a.if_(C):
        a.mov(EAX, NIC_RESET_STUCK.code)
        a.ret()
    _status(a, DeviceStatus.ACKNOWLEDGE)
    _status(a, DeviceStatus.ACKNOWLEDGE | DeviceStatus.DRIVER)

    _port(a, Legacy.DEVICE_FEATURES)
    a.in_(EAX, DX)
    a.and_(EAX, LEGACY_WANTED)
    a.mov(NIC.it.features, RAX)
    _port(a, Legacy.DRIVER_FEATURES)
    a.out(DX, EAX)
    a.test(EAX, Feature.MAC)
    with a.if_(Z):
        a.mov(EAX, NIC_FEATURES.code)
        a.ret()

    for number, (queue, rings) in enumerate(((NIC.it.rx, RX_QUEUE), (NIC.it.tx, TX_QUEUE))):
        _port(a, Legacy.QUEUE_SELECT)
        a.mov(EAX, number)
        a.out(DX, AX)
        _port(a, Legacy.QUEUE_SIZE)
        a.xor(EAX, EAX)
        a.in_(AX, DX)
        a.mov(ECX, EAX)
        a.lea(RDI, queue.descriptors)
        a.mov(RSI, rings)
        a.mov(EDX, number)
        a.call(queue_setup)
        a.test(EAX, EAX)
        a.j(NZ, failed)
        _port(a, Legacy.NOTIFY)
        a.mov(queue.notify, RDX)
        _port(a, Legacy.QUEUE_PAGE)
        a.mov(RAX, NIC.it.dma_physical)
        if rings != WINDOW_DMA:
            a.add(RAX, rings - WINDOW_DMA)
        a.shr(RAX, 12)
        a.out(DX, EAX)

    for n in range(6):  # unrolled: one port per byte
        _port(a, Legacy.MAC)
        if n:
            a.add(EDX, n)
        a.in_(AL, DX)
        a.mov(NETWORK.it.mac.m8(n), AL)
    a.test(NIC.it.features, Feature.MTU)
    with a.if_(NZ):
        _port(a, Legacy.MTU)
        a.xor(EAX, EAX)
        a.in_(AX, DX)
        a.mov(NIC.it.mtu, EAX)

    _command(a, COMMAND_DECODE | COMMAND_MASTER)
    _status(a, DeviceStatus.ACKNOWLEDGE | DeviceStatus.DRIVER | DeviceStatus.DRIVER_OK)
    a.xor(EAX, EAX)
    a.place(failed)
    a.ret()


def _command(a: Asm, bits: int) -> None:
    a.mov(EDI, NIC.it.pci_address)
    a.mov(EDX, bits)
    a.mov(R9D, COMMAND_CLEAR)
    a.call(pci_command)


def _status(a: Asm, status: DeviceStatus) -> None:
    _port(a, Legacy.STATUS)
    a.mov(EAX, status)
    a.out(DX, AL)
