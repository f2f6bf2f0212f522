"""The boot NIC: virtio split rings, their place in the DMA window, and the driver's state."""

from __future__ import annotations

import enum

from firmware.limits import DMA_BYTES, WINDOW_DMA
from toolchain.asm import Region
from toolchain.layout import Global, Struct, array, bytes_, enum32, nested, ptr, u8, u16, u32, u64

QUEUE_SIZE_MAX = 1024
"""Entries; a legacy device dictates its size, and this is the largest that the windows hold."""
MODERN_QUEUE_SIZE = 256
"""Also what QEMU's card has."""
RX_BUFFERS_MAX = 256
"""As many frames as a full node has shards may arrive in one moment."""
TX_BUFFERS_MAX = 128
BUFFER_BYTES = 0x800
TX_SHIFT = 10
"""Heads of transmit chains are even, so `head << 10` is the offset of a buffer of 2048 bytes."""
FRAME_OFFSET = 0x10
"""Where the frame starts in its buffer; the device's header lies right before it."""
RECEIVE_MAX = 1522
"""The longest frame taken: 1518 bytes and an 802.1Q tag."""
RECEIVE_CAPACITY = 0x600
QUEUE_BYTES = 0x8000
RX_QUEUE = WINDOW_DMA
TX_QUEUE = WINDOW_DMA + QUEUE_BYTES
RX_BUFFERS = WINDOW_DMA + 2 * QUEUE_BYTES
TX_BUFFERS = RX_BUFFERS + RX_BUFFERS_MAX * BUFFER_BYTES
DMA_USED = TX_BUFFERS + TX_BUFFERS_MAX * BUFFER_BYTES - WINDOW_DMA
if DMA_USED > DMA_BYTES:
    raise ValueError(
        f"NIC buffers take {DMA_USED:#x} bytes of {DMA_BYTES:#x}; lower RX_BUFFERS_MAX"
    )

NO_HEAD = 0xFFFF_FFFF
HEADER_LEGACY = 10
HEADER_MODERN = 12
DESCRIPTOR_NEXT = 1
DESCRIPTOR_WRITE = 2
USED_NO_NOTIFY = 1
AVAILABLE_NO_INTERRUPT = 1
CHECKSUM_TRUSTED = 3
"""Header flags NEEDS_CSUM and DATA_VALID: the host vouches for the checksum."""

VIRTIO_VENDOR = 0x1AF4
DEVICE_TRANSITIONAL = 0x1000
DEVICE_MODERN = 0x1041


class NicState(enum.IntEnum):
    """Whether frames can flow."""

    ABSENT = 0
    READY = 1
    FAILED = 2


class Transport(enum.IntEnum):
    """How the device's registers are reached."""

    NONE = 0
    LEGACY = 1
    MODERN = 2


class Feature(enum.IntFlag):
    """The only features this driver accepts (virtio 1.2 sections 5.1.3 and 6.3)."""

    MTU = 1 << 3
    MAC = 1 << 5
    STATUS = 1 << 16
    ANY_LAYOUT = 1 << 27
    """Of legacy cards: a header may share a descriptor with its frame, as VERSION_1 allows always."""
    VERSION_1 = 1 << 32


class DeviceStatus(enum.IntFlag):
    """Virtio 1.2 section 2.1."""

    ACKNOWLEDGE = 1
    DRIVER = 2
    DRIVER_OK = 4
    FEATURES_OK = 8
    NEEDS_RESET = 64
    FAILED = 128


class Legacy(enum.IntEnum):
    """Offsets in the I/O BAR without MSI-X (virtio 1.2 section 4.1.4.10)."""

    DEVICE_FEATURES = 0
    DRIVER_FEATURES = 4
    QUEUE_PAGE = 8
    QUEUE_SIZE = 12
    QUEUE_SELECT = 14
    NOTIFY = 16
    STATUS = 18
    ISR = 19
    MAC = 20
    NET_STATUS = 26
    MTU = 30


class Descriptor(Struct):
    """One descriptor of a split ring (virtio 1.2 section 2.7.5)."""

    SIZE = 0x10
    address = u64(0x00, "physical address")
    length = u32(0x08, "bytes")
    flags = u16(0x0C, "DESCRIPTOR_NEXT, DESCRIPTOR_WRITE")
    following = u16(0x0E, "next descriptor of the chain")


class AvailableRing(Struct):
    """What we give to the device (section 2.7.6)."""

    SIZE = 4 + 2 * QUEUE_SIZE_MAX
    flags = u16(0x00, "AVAILABLE_NO_INTERRUPT")
    idx = u16(0x02, "entries given since the start, wraps")
    heads = bytes_(0x04, 2 * QUEUE_SIZE_MAX, "head descriptors", align=2)


class UsedElement(Struct):
    """A chain that the device is done with."""

    SIZE = 8
    id = u32(0x00, "head descriptor; never used as an index without a bound")
    length = u32(0x04, "bytes written by the device")


class UsedRing(Struct):
    """What the device gives back (section 2.7.8)."""

    SIZE = 4 + 8 * QUEUE_SIZE_MAX
    flags = u16(0x00, "USED_NO_NOTIFY")
    idx = u16(0x02, "entries returned since the start, wraps")
    elements = array(0x04, UsedElement, QUEUE_SIZE_MAX, "returned chains")


class FrameHeader(Struct):
    """struct virtio_net_hdr (section 5.1.6); all zero on the way out."""

    SIZE = FRAME_OFFSET
    flags = u8(0x00, "CHECKSUM_TRUSTED bits on the way in")


class CommonConfig(Struct):
    """Modern common configuration (section 4.1.4.3)."""

    SIZE = 0x38
    device_feature_select = u32(0x00, "which half device_feature shows")
    device_feature = u32(0x04, "offered features")
    driver_feature_select = u32(0x08, "which half driver_feature sets")
    driver_feature = u32(0x0C, "accepted features")
    config_vector = u16(0x10, "MSI-X vector of configuration changes")
    queues = u16(0x12, "queues of the device")
    status = u8(0x14, "DeviceStatus")
    generation = u8(0x15, "changes when the device configuration does")
    select = u16(0x16, "queue that the fields below belong to")
    size = u16(0x18, "entries; may be lowered")
    vector = u16(0x1A, "MSI-X vector of the queue")
    enable = u16(0x1C, "1 = the queue is in use")
    notify_offset = u16(0x1E, "in units of the notify multiplier")
    descriptors = bytes_(0x20, 8, "physical address, written as two halves", align=4)
    driver = bytes_(0x28, 8, "physical address of the available ring", align=4)
    device = bytes_(0x30, 8, "physical address of the used ring", align=4)


class DeviceConfig(Struct):
    """The network device's own configuration (section 5.1.4)."""

    SIZE = 0x0C
    mac = bytes_(0x00, 6, "its Ethernet address", align=2)
    status = u16(0x06, "bit 0: link up")
    pairs = u16(0x08, "queue pairs")
    mtu = u16(0x0A, "with Feature.MTU")


class Virtqueue(Struct):
    """Our side of one queue."""

    SIZE = 0x40
    descriptors = ptr(0x00, "descriptor table")
    available = ptr(0x08, "AvailableRing")
    used = ptr(0x10, "UsedRing")
    notify = ptr(0x18, "legacy: the port; modern: the address of the notify register")
    mask = u32(0x20, "entries - 1")
    buffers = u32(0x24, "how many it has, of `links` descriptors each")
    given = u16(0x28, "AvailableRing.idx as we know it")
    seen = u16(0x2A, "UsedRing.idx up to which we looked")
    pending = u32(0x2C, "1 = the device has to be told")
    number = u32(0x30, "0 receive, 1 transmit")
    links = u32(0x34, "descriptors of a buffer: 2 = header and frame, 1 = both in one")
    stride = u32(0x38, "BUFFER_BYTES / links: from one descriptor's place to the next one's")


class Capability(Struct):
    """A virtio structure found in the PCI capabilities (section 4.1.4)."""

    SIZE = 0x10
    bar = u32(0x00, "BAR number 0 to 5")
    offset = u32(0x04, "bytes into the BAR")
    length = u32(0x08, "bytes; 0 = not found")
    extra = u32(0x0C, "notify multiplier")


class CapabilityType(enum.IntEnum):
    """cfg_type of a virtio capability; the row in `Nic.capabilities`."""

    COMMON = 1
    NOTIFY = 2
    ISR = 3
    DEVICE = 4


class NicWindows(Struct):
    """Where the modern structures are mapped; 0 = not yet. A restart keeps the mappings."""

    SIZE = 0x20
    common = ptr(0x00, "CommonConfig")
    notify = ptr(0x08, "start of the notify structure")
    isr = ptr(0x10, "interrupt status")
    device = ptr(0x18, "DeviceConfig")


class NicRestarts(Struct):
    """Counts what a restart would wipe."""

    SIZE = 8
    count = u32(0x00, "times that the card was started anew")
    stalled = u32(0x04, "checks in a row that found no transmit buffer free")


class Nic(Struct):
    """State of the driver. One queue pair (decision 2: a second core would have its own)."""

    SIZE = 0x300
    state = enum32(0x00, NicState, "whether frames flow")
    transport = enum32(0x04, Transport, "how registers are reached")
    pci_address = u32(0x08, "bus << 8 | device << 3 | function")
    header_bytes = u32(0x0C, "HEADER_LEGACY or HEADER_MODERN")
    dma_physical = u64(0x10, "physical address of WINDOW_DMA")
    features = u64(0x18, "accepted Feature bits")
    io_base = u32(0x20, "legacy: first port of BAR 0")
    error = u32(0x24, "why nic_init refused, or why FAILED; see errors.py")
    mtu = u32(0x48, "bytes of IP payload per frame; 0 = not told")
    irq_line = u8(0x4C, "8259 input of INTx; 255 = none")
    trusted = u8(0x4D, "CHECKSUM_TRUSTED bits of the frame that nic_poll gave last")
    rx_head = u32(0x50, "descriptor of the frame in hand; NO_HEAD = none")
    tx_free_count = u32(0x54, "entries of tx_free")
    rx_frames = u64(0x58, "frames received")
    tx_frames = u64(0x60, "frames queued")
    bad_ids = u32(0x68, "used.id out of range, odd, or not ours")
    bad_lengths = u32(0x6C, "used.len out of range; the frame was dropped")
    tx_full = u32(0x70, "times that no transmit buffer was free")
    doorbells = u32(0x74, "notifications sent")
    rx = nested(0x80, Virtqueue, "receive queue")
    tx = nested(0xC0, Virtqueue, "transmit queue")
    capabilities = array(0x100, Capability, 5, "by CapabilityType; row 0 is unused")
    tx_free = bytes_(0x180, TX_BUFFERS_MAX, "numbers of free transmit buffers, a stack")
    tx_busy = bytes_(0x200, TX_BUFFERS_MAX, "1 = the device has the buffer", align=8)


STALLED_CHECKS = 20
"""Ten seconds without one transmit buffer: completions may be late by five (seen on clouds)."""
RESET_READS = 10_000
"""Reads of the status after a reset, a microsecond or more each, before we give up."""
CAPABILITY_HOPS = 48
"""The longest list that fits in configuration space."""
WINDOW_MAX = 0x1_0000
"""Bytes of a register structure that are mapped."""
PCI_VENDOR_CAPABILITY = 0x09
PCI_MSIX_CAPABILITY = 0x11

NIC_WINDOWS = Global("nic_windows", NicWindows, "the modern register structures")
NIC_RESTARTS = Global("nic_restarts", NicRestarts, "what a restart does not wipe")
NIC = Global("nic", Nic, "state of the NIC driver", align=64)
PACKET = Region("the frame buffers", "BUFFER_BYTES each, in WINDOW_DMA")
NOTIFY = Region("the notify registers", "a device window, mapped by nic_init")
