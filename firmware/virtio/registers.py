"""The register structures of a virtio function: mapped, reset, told where a queue is."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.nic import (
    RESET_READS,
    WINDOW_MAX,
    Capability,
    CommonConfig,
    Virtqueue,
)
from firmware.layouts.pci import BAR_IO
from firmware.limits import PAGE
from firmware.memory.windows import mmio_map
from firmware.pci import pci_bar
from toolchain.asm import (
    AL,
    CF,
    DX,
    EAX,
    EBX,
    ECX,
    EDI,
    EDX,
    ESI,
    NZ,
    R8,
    R8B,
    R9,
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
    In,
    Out,
    Reg32,
    Reg64,
    Region,
    Z,
    mem8,
    routine,
)

COMMAND_DECODE = 3
COMMAND_MASTER = 4
COMMAND_CLEAR = 0x0407
"""Decoding and mastering are set anew; bit 10 would forbid INTx."""
SUMS = Region("sums", "addresses added by lea; no memory is touched")


@routine(
    inputs=[
        In(EDI, int, "the function: bus << 8 | device << 3 | function"),
        In(RSI, Capability, "the structure; it was found"),
    ],
    outputs=[Out(RAX, "address of the structure; 0 = it cannot be reached")],
    clobbers=CALLER_SAVED,
    reads=[Capability],
    calls=[pci_bar, mmio_map],
    saves=[RBX],
    source="virtio 1.2 section 4.1.4.1",
)
def virtio_window(a: Asm, function: Reg32, row: Capability) -> None:
    """Map one register structure; the first WINDOW_MAX bytes of a longer one."""
    none = a.label("none")
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
    inputs=[In(EDX, int, "the port of the status register")],
    outputs=[Out(CF, "1 = the device does not answer status 0")],
    clobbers=[RAX, RCX],
    source="virtio 1.2 section 2.4; decision 8",
)
def virtio_reset_ports(a: Asm, port: Reg32) -> None:
    """Reset a device through its ports and read it back, a bounded number of times."""
    left = ECX
    a.mov(left, RESET_READS)
    a.xor(EAX, EAX)
    a.out(DX, AL)
    with a.loop() as wait:
        a.in_(AL, DX)
        a.test(AL, AL)
        a.leave(Z, wait)
        a.dec(left)
        a.again(NZ, wait)
        a.stc()
    a.ret()  # TEST has cleared CF


@routine(
    inputs=[In(RDX, CommonConfig, "the common structure")],
    outputs=[Out(CF, "1 = the device does not answer status 0")],
    clobbers=[RAX, RCX],
    reads=[CommonConfig.status],
    writes=[CommonConfig.status],
    source="virtio 1.2 section 4.1.4.3.2; decision 8",
)
def virtio_reset_window(a: Asm, common: CommonConfig) -> None:
    """Reset a device through its window and read it back, a bounded number of times."""
    left = ECX
    a.mov(common.status, 0)
    a.mov(left, RESET_READS)
    with a.loop() as wait:
        a.mov(AL, common.status)
        a.test(AL, AL)
        a.leave(Z, wait)
        a.dec(left)
        a.again(NZ, wait)
        a.stc()
    a.ret()  # TEST has cleared CF


@routine(
    inputs=[
        In(RDI, Virtqueue, "the queue; its rings are laid down and its number is selected"),
        In(RSI, CommonConfig, "the common structure"),
        In(RDX, Capability, "where the notify structure lies"),
        In(RCX, int, "where that is mapped"),
        In(R8, int, "what makes a virtual address of the rings a physical one; added"),
    ],
    outputs=[Out(CF, "1 = the queue's notify register lies outside")],
    clobbers=[RAX, RDX, R9],
    reads=[
        Capability.extra,
        Capability.length,
        CommonConfig.notify_offset,
        Virtqueue.descriptors,
        Virtqueue.available,
        Virtqueue.used,
    ],
    writes=[
        CommonConfig.descriptors,
        CommonConfig.driver,
        CommonConfig.device,
        CommonConfig.enable,
        Virtqueue.notify,
    ],
    source="virtio 1.2 section 4.1.5.1.3",
)
def virtio_queue_enable(
    a: Asm, queue: Virtqueue, common: CommonConfig, row: Capability, window: Reg64, shift: Reg64
) -> None:
    """Tell where the rings are, find the notify register, enable the queue."""
    outside = a.label("outside")
    for part, place in (  # unrolled: three addresses, each written as two halves
        (common.descriptors, queue.descriptors),
        (common.driver, queue.available),
        (common.device, queue.used),
    ):
        a.mov(RAX, place)
        a.add(RAX, shift)
        a.mov(part.m32(), EAX)
        a.shr(RAX, 32)
        a.mov(part.m32(4), EAX)

    # The notify register: offset times multiplier, inside what was mapped.
    a.movzx(EAX, common.notify_offset)
    a.mov(R9D, row.extra)
    a.imul(RAX, R9)
    a.lea(R9, mem8(RAX, 2, ref=SUMS))
    a.cmp(R9, WINDOW_MAX)
    a.j(A, outside)
    a.mov(EDX, row.length)
    a.cmp(R9, RDX)
    a.j(A, outside)
    a.add(RAX, window)
    a.mov(queue.notify, RAX)
    a.mov(common.enable, 1)
    a.clc()
    a.ret()
    a.place(outside)
    a.stc()
    a.ret()
