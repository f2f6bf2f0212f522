"""A function's PCI capabilities: where its virtio structures lie."""

from firmware.layouts.nic import (
    CAPABILITY_HOPS,
    PCI_MSIX_CAPABILITY,
    PCI_VENDOR_CAPABILITY,
    Capability,
    CapabilityType,
)
from firmware.pci import pci_read, pci_write
from toolchain.asm import (
    AE,
    AL,
    EAX,
    EBX,
    ECX,
    EDI,
    NE,
    NZ,
    R8,
    R9,
    R12,
    R12D,
    R13,
    R13D,
    RAX,
    RBX,
    RCX,
    RDX,
    RSI,
    A,
    Asm,
    B,
    E,
    In,
    Reg32,
    Reg64,
    Region,
    Z,
    mem8,
    routine,
)

COMMAND = 0x04
STATUS_LIST = 1 << 20
LIST_HEAD = 0x34
CAPABILITY_LAST = 0xEC
MSIX_ENABLE = 0x8000_0000
OFFSETS = Region("configuration offsets and rows", "sums by lea; no memory is touched")


@routine(
    inputs=[
        In(EDI, int, "the function: bus << 8 | device << 3 | function"),
        In(
            RSI, int, "where the rows go: one for each CapabilityType, behind an unused one; zeroed"
        ),
    ],
    clobbers=[RAX, RCX, RDX, R8, R9],
    reads=[Capability.length],
    writes=[Capability],
    calls=[pci_read, pci_write],
    saves=[RBX, R12, R13],
    source="virtio 1.2 section 4.1.4; PCI 3.0 section 6.7",
)
def virtio_capabilities(a: Asm, function: Reg32, rows: Reg64) -> None:
    """Note where the virtio structures lie, the first of each kind; switch MSI-X off.

    With MSI-X on, the legacy registers behind offset 20 would move.
    """
    at, hops, head = EBX, R12D, R13D
    found = Capability.at(R9)
    end = a.label("end")
    a.mov(ECX, COMMAND)
    a.call(pci_read)
    a.test(EAX, STATUS_LIST)
    a.j(Z, end)
    a.mov(ECX, LIST_HEAD)
    a.call(pci_read)
    a.mov(hops, CAPABILITY_HOPS)
    with a.loop() as walk:
        a.mov(at, EAX)
        a.and_(at, 0xFC)
        a.cmp(at, 0x40)
        a.j(B, end)
        a.mov(ECX, at)
        a.call(pci_read)
        a.mov(head, EAX)
        with a.block() as skip:
            a.cmp(AL, PCI_MSIX_CAPABILITY)
            with a.if_(E):
                a.and_(EAX, ~MSIX_ENABLE & 0xFFFF_FFFF)
                a.mov(ECX, at)
                a.call(pci_write)
                a.jmp(skip)
            a.cmp(AL, PCI_VENDOR_CAPABILITY)
            a.leave(NE, skip)
            a.cmp(at, CAPABILITY_LAST)
            a.leave(A, skip)
            a.shr(EAX, 24)
            a.dec(EAX)
            a.cmp(EAX, CapabilityType.DEVICE)
            a.leave(AE, skip)
            a.shl(EAX, 4)
            a.lea(R9, mem8(RSI, Capability.SIZE, index=RAX, ref=OFFSETS))
            a.cmp(found.length, 0)
            a.leave(NE, skip)
            a.lea(ECX, mem8(RBX, 4, ref=OFFSETS))
            a.call(pci_read)
            a.and_(EAX, 0xFF)
            a.mov(found.bar, EAX)
            a.lea(ECX, mem8(RBX, 8, ref=OFFSETS))
            a.call(pci_read)
            a.mov(found.offset, EAX)
            a.lea(ECX, mem8(RBX, 16, ref=OFFSETS))
            a.call(pci_read)
            a.mov(found.extra, EAX)
            a.lea(ECX, mem8(RBX, 12, ref=OFFSETS))
            a.call(pci_read)
            a.mov(found.length, EAX)
        a.mov(EAX, head)
        a.shr(EAX, 8)
        a.dec(hops)
        a.again(NZ, walk)
    a.place(end)
    a.ret()
