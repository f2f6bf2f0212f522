"""The card as a whole: start it, wake on it, watch its link."""

from firmware.abi import CALLER_SAVED
from firmware.errors import NIC_DEVICE, NIC_STALLED, NIC_UNSUPPORTED
from firmware.layouts.nic import (
    AVAILABLE_NO_INTERRUPT,
    DEVICE_MODERN,
    DEVICE_TRANSITIONAL,
    NIC,
    NIC_RESTARTS,
    NIC_WINDOWS,
    NO_HEAD,
    STALLED_CHECKS,
    VIRTIO_VENDOR,
    AvailableRing,
    Capability,
    CapabilityType,
    CommonConfig,
    DeviceConfig,
    DeviceStatus,
    Feature,
    Legacy,
    Nic,
    NicRestarts,
    NicState,
    NicWindows,
    Transport,
    UsedRing,
    Virtqueue,
)
from firmware.layouts.node import NETWORK, Network
from firmware.nic.legacy import legacy_start
from firmware.nic.modern import modern_start
from firmware.nic.queue import nic_flush, nic_reclaim
from firmware.pci import pci_read
from firmware.virtio.config import virtio_capabilities
from toolchain.asm import (
    AL,
    AX,
    CF,
    CX,
    DX,
    EAX,
    EBX,
    ECX,
    EDI,
    EDX,
    NE,
    R8D,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    B,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    Region,
    mem8,
    routine,
)

ISR = Region("the interrupt status register", "one byte, read clears it")
INTERRUPT_LINE = 0x3C


@routine(
    outputs=[Out(EAX, "1 = the link is up")],
    clobbers=[RDX],
    reads=[
        Nic.state,
        Nic.features,
        Nic.transport,
        Nic.io_base,
        NicWindows.device,
        DeviceConfig.status,
    ],
    writes=[Network.link_up],
    source="virtio 1.2 section 5.1.4; a card that cannot tell counts as linked",
)
def nic_link(a: Asm) -> None:
    """Read the link status and publish it."""
    known = a.label("known")
    a.xor(EAX, EAX)
    a.cmp(NIC.it.state, NicState.READY)
    a.jne(known)
    a.mov(EAX, 1)
    a.test(NIC.it.features, Feature.STATUS)
    a.jz(known)
    a.cmp(NIC.it.transport, Transport.MODERN)
    with a.if_(E):
        a.mov(RDX, NIC_WINDOWS.it.device)
        a.movzx(EAX, DeviceConfig.at(RDX).status)
    with a.else_():
        a.mov(EDX, NIC.it.io_base)
        a.add(EDX, Legacy.NET_STATUS)
        a.in_(AX, DX)
    a.and_(EAX, 1)
    a.place(known)
    a.mov(NETWORK.it.link_up, AL)
    a.ret()


@routine(
    outputs=[Out(EAX, "bit 0: a queue moved; bit 1: the link may have changed")],
    clobbers=[RDX],
    reads=[Nic.state, Nic.transport, Nic.io_base, NicWindows.isr, ISR],
    source="virtio 1.2 section 4.1.4.5",
)
def nic_irq_ack(a: Asm) -> None:
    """Read the interrupt status, which also lowers INTx. For the interrupt handler."""
    a.xor(EAX, EAX)
    a.cmp(NIC.it.state, NicState.ABSENT)
    with a.if_(NE):
        a.cmp(NIC.it.transport, Transport.MODERN)
        with a.if_(E):
            a.mov(RDX, NIC_WINDOWS.it.isr)
            a.mov(AL, mem8(RDX, ref=ISR))
        with a.else_():
            a.mov(EDX, NIC.it.io_base)
            a.add(EDX, Legacy.ISR)
            a.in_(AL, DX)
    a.ret()


@routine(
    outputs=[Out(CF, "1 = frames arrived meanwhile; do not halt")],
    clobbers=[RAX, RCX, RDX],
    reads=[Nic.state, Virtqueue.available, Virtqueue.used, Virtqueue.seen, UsedRing.idx],
    writes=[AvailableRing.flags],
    source="virtio 1.2 section 2.7.7; decisions 4 and 8",
)
def nic_irq_enable(a: Asm) -> None:
    """Ask for an interrupt at the next frame, and look again whether one came before."""
    a.cmp(NIC.it.state, NicState.READY)
    with a.if_(NE):
        a.clc()
        a.ret()
    a.mov(RDX, NIC.it.rx.available)
    a.mov(AvailableRing.at(RDX).flags, 0)
    a.mfence()  # the flag must be seen before the index is read again
    a.mov(RDX, NIC.it.rx.used)
    a.mov(AX, UsedRing.at(RDX).idx)
    a.mov(CX, NIC.it.rx.seen)
    a.xor(EAX, ECX)
    a.neg(AX)  # CF = there is a difference
    a.ret()


@routine(
    clobbers=[RDX],
    reads=[Nic.state, Virtqueue.available],
    writes=[AvailableRing.flags],
    source="virtio 1.2 section 2.7.7",
)
def nic_irq_disable(a: Asm) -> None:
    """Poll again: no interrupts while the node runs."""
    a.cmp(NIC.it.state, NicState.READY)
    with a.if_(E):
        a.mov(RDX, NIC.it.rx.available)
        a.mov(AvailableRing.at(RDX).flags, AVAILABLE_NO_INTERRUPT)
    a.ret()


@routine(
    inputs=[
        In(EDI, int, "the boot NIC: bus << 8 | device << 3 | function"),
        In(RSI, int, "physical address of WINDOW_DMA, page-aligned"),
    ],
    outputs=[Out(EAX, "0 = frames flow, or an error code")],
    clobbers=CALLER_SAVED,
    reads=[Nic.pci_address, Nic.transport, Nic.capabilities],
    writes=[Nic],
    calls=[pci_read, virtio_capabilities, modern_start, legacy_start, nic_link, nic_flush],
    saves=[RBX],
    source="firmware/docs/layers.md; virtio 1.2 section 3.1.1",
)
def nic_init(a: Asm, address: Reg32, physical: Reg64) -> None:
    """Start the card, modern when it can; may be called again after a failure."""
    failed, legacy, ready = a.label("failed"), a.label("legacy"), a.label("ready")
    a.mov(R8D, address)
    a.lea(RDI, NIC.address)
    a.mov(ECX, Nic.SIZE // 8)
    a.xor(EAX, EAX)
    a.rep_stosq()
    a.mov(NIC.it.pci_address, R8D)
    a.mov(NIC.it.dma_physical, physical)
    a.mov(NIC.it.rx_head, NO_HEAD)

    a.mov(EDI, R8D)
    a.xor(ECX, ECX)
    a.call(pci_read)
    a.mov(EBX, EAX)
    a.cmp(EBX, DEVICE_TRANSITIONAL << 16 | VIRTIO_VENDOR)
    with a.if_(NE):
        a.cmp(EBX, DEVICE_MODERN << 16 | VIRTIO_VENDOR)
        with a.if_(NE):
            a.mov(EAX, NIC_UNSUPPORTED.code)
            a.jmp(failed)
    a.mov(EDI, NIC.it.pci_address)
    a.mov(ECX, INTERRUPT_LINE)
    a.call(pci_read)
    a.mov(NIC.it.irq_line, AL)

    rows = NIC.it.capabilities
    a.mov(EDI, NIC.it.pci_address)
    a.lea(RSI, rows.address)
    a.call(virtio_capabilities)
    for kind in CapabilityType:  # unrolled: all four must be there
        a.cmp(rows.m32(kind * Capability.SIZE + Capability.length.offset), 0)
        a.je(legacy)
    a.call(modern_start)
    a.test(EAX, EAX)
    a.jz(ready)
    a.cmp(EBX, DEVICE_MODERN << 16 | VIRTIO_VENDOR)
    a.je(failed)
    a.place(legacy)
    a.call(legacy_start)
    a.test(EAX, EAX)
    a.jnz(failed)

    a.place(ready)
    a.mov(NIC.it.state, NicState.READY)
    a.call(nic_link)
    a.call(nic_flush)
    a.xor(EAX, EAX)
    a.ret()
    a.place(failed)
    a.mov(NIC.it.error, EAX)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[
        Nic.state,
        Nic.transport,
        Nic.io_base,
        Nic.pci_address,
        Nic.dma_physical,
        Nic.tx_free_count,
        NicRestarts.stalled,
        NicWindows.common,
        CommonConfig.status,
    ],
    writes=[Nic.state, Nic.error, NicRestarts],
    calls=[nic_init, nic_reclaim],
    source="virtio 1.2 section 2.1; decision 8",
)
def nic_watch(a: Asm) -> None:
    """Start a card anew that gave up, was reset behind our back, lost its ring, or stalls."""
    restart, status = a.label("restart"), EAX
    a.cmp(NIC.it.pci_address, 0)
    with a.if_(E):
        a.ret()  # never started
    a.cmp(NIC.it.state, NicState.READY)
    a.jne(restart)
    a.cmp(NIC.it.transport, Transport.MODERN)
    with a.if_(E):
        a.mov(RDX, NIC_WINDOWS.it.common)
        a.movzx(status, CommonConfig.at(RDX).status)
    with a.else_():
        a.mov(EDX, NIC.it.io_base)
        a.add(EDX, Legacy.STATUS)
        a.xor(EAX, EAX)
        a.in_(AL, DX)
    a.mov(ECX, status)
    a.and_(ECX, DeviceStatus.DRIVER_OK | DeviceStatus.NEEDS_RESET | DeviceStatus.FAILED)
    a.or_(status, NIC_DEVICE.code)
    a.cmp(ECX, DeviceStatus.DRIVER_OK)
    with a.if_(E):
        # Alive; does it still send?
        a.call(nic_reclaim)
        a.cmp(NIC.it.tx_free_count, 0)
        with a.if_(NE):
            a.mov(NIC_RESTARTS.it.stalled, 0)
            a.ret()
        a.inc(NIC_RESTARTS.it.stalled)
        a.cmp(NIC_RESTARTS.it.stalled, STALLED_CHECKS)
        with a.if_(B):
            a.ret()
        a.mov(EAX, NIC_STALLED.code)
    a.mov(NIC.it.error, EAX)
    a.mov(NIC.it.state, NicState.FAILED)
    a.place(restart)
    a.mov(NIC_RESTARTS.it.stalled, 0)
    a.inc(NIC_RESTARTS.it.count)
    a.mov(EDI, NIC.it.pci_address)
    a.mov(RSI, NIC.it.dma_physical)
    a.call(nic_init)
    a.ret()
