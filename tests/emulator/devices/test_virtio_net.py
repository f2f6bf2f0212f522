"""The virtio card refuses drivers that break the specification."""

import struct

import pytest

from emulator.devices.bus import Bus
from emulator.devices.pci import PciBus
from emulator.devices.virtio import DMA_PHYSICAL, F_ANY_LAYOUT
from emulator.devices.virtio_net import BAR_BASE, IO_BASE, PCI_ADDRESS, VirtioNet
from emulator.devices.virtqueue import DriverError
from firmware.limits import DMA_BYTES, WINDOW_DMA

MAC = bytes.fromhex("525400123456")
RX, TX = 0, 1
TABLE, AVAILABLE, USED, BUFFER = 0x0, 0x1000, 0x2000, 0x8000


class Memory:
    """As much of a machine as the card needs."""

    def __init__(self):
        self.bytes = bytearray(DMA_BYTES)

    def read(self, address, size):
        at = address - WINDOW_DMA
        return bytes(self.bytes[at : at + size])

    def write(self, address, contents):
        at = address - WINDOW_DMA
        self.bytes[at : at + len(contents)] = contents


class Driver:
    """A minimal driver that works through the bus."""

    def __init__(self, **options):
        self.memory = Memory()
        self.card = VirtioNet(self.memory, MAC, **options)
        self.bus = Bus([PciBus([self.card]), self.card])
        self.config(4, 7)

    def config(self, offset, value=None):
        self.bus.port_out(0xCF8, 4, 1 << 31 | PCI_ADDRESS << 8 | offset)
        if value is None:
            return self.bus.port_in(0xCFC, 4)
        self.bus.port_out(0xCFC, 4, value)
        return None

    def out(self, register, size, value):
        self.bus.port_out(IO_BASE + register, size, value)

    def start(self):
        self.out(18, 1, 0)
        self.out(18, 1, 3)
        self.out(4, 4, 1 << 5)
        for number in (RX, TX):
            self.out(14, 2, number)
            self.out(8, 4, (DMA_PHYSICAL >> 12) + 4 * number)
        self.out(18, 1, 7)
        return self

    def descriptor(self, queue, n, length, flags, following, offset=0):
        physical = DMA_PHYSICAL + BUFFER + 0x800 * n + offset
        raw = struct.pack("<QIHH", physical, length, flags, following)
        self.memory.write(WINDOW_DMA + 0x4000 * queue + TABLE + 16 * n, raw)

    def give(self, queue, head, count=1):
        base = WINDOW_DMA + 0x4000 * queue + AVAILABLE
        self.memory.write(base + 2, struct.pack("<HH", count, head))


def test_pci_identity_bars_and_capabilities_read_back():
    driver = Driver()
    assert driver.config(0) == 0x1000_1AF4
    driver.config(0x10, 0xFFFF_FFFF)
    assert driver.config(0x10) == 0xFFFF_FFE1
    driver.bus.port_out(0xCF8, 4, 1 << 31 | 0x5500)
    assert driver.bus.port_in(0xCFC, 4) == 0xFFFF_FFFF
    assert driver.bus.port_in(0xCF8, 4) == 1 << 31 | 0x5500
    driver.bus.port_out(0xCF8, 4, 0)
    assert driver.bus.port_in(0xCFC, 2) == 0xFFFF


def test_bus_nothing_there_reads_ones_and_is_noted():
    driver = Driver()
    assert driver.bus.port_in(0x80, 1) == 0xFF
    driver.bus.port_out(0x80, 1, 1)
    assert driver.bus.mmio_read(0x1000, 4) == 0xFFFF_FFFF
    driver.bus.mmio_write(0x1000, 4, 0)
    assert [kind for kind, *_ in driver.bus.strays] == ["in", "out", "mmio_read", "mmio_write"]


def test_ports_are_silent_while_io_decoding_is_off():
    driver = Driver()
    driver.config(4, 6)
    assert driver.bus.port_in(IO_BASE + 18, 1) == 0xFF


def test_transmit_header_and_frame_leave_as_one_frame():
    driver = Driver().start()
    driver.descriptor(TX, 0, 10, 1, 1)
    driver.descriptor(TX, 1, 60, 0, 0)
    driver.give(TX, 0)
    driver.out(16, 2, TX)
    driver.card.service()
    assert driver.card.transmitted == [bytes(60)]


@pytest.mark.parametrize(
    ("first", "second", "count", "message"),
    [
        ((10, 1, 1), (59, 0, 0), 1, "a frame of 59 bytes"),
        ((12, 1, 1), (60, 0, 0), 1, "a descriptor of its own"),
        ((10, 3, 1), (60, 2, 0), 1, "for the device to write"),
        ((10, 3, 1), (60, 0, 0), 1, "readable part after a writable one"),
        ((10, 1, 300), (60, 0, 0), 1, "descriptor 300 of 256"),
        ((10, 1, 0), (60, 0, 0), 1, "never ends"),
        ((10, 5, 1), (60, 0, 0), 1, "has flags 0x5"),
        ((10, 1, 1), (60, 0, 0), 300, "300 new entries in a ring of 256"),
        ((10, 1, 1), (0x200000, 0, 0), 1, "outside the DMA window"),
    ],
)
def test_transmit_rules_that_a_driver_may_break(first, second, count, message):
    driver = Driver().start()
    driver.descriptor(TX, 0, *first)
    driver.descriptor(TX, 1, *second)
    driver.give(TX, 0, count)
    with pytest.raises(DriverError, match=message):
        driver.card.service()


def test_transmit_offload_header_is_refused():
    driver = Driver().start()
    driver.descriptor(TX, 0, 10, 1, 1)
    driver.descriptor(TX, 1, 60, 0, 0)
    driver.memory.write(WINDOW_DMA + BUFFER, b"\x01")
    driver.give(TX, 0)
    with pytest.raises(DriverError, match="asks for offloads"):
        driver.card.service()


def test_receive_without_buffer_is_lost_and_counted():
    driver = Driver().start()
    assert not driver.card.deliver(bytes(60))
    assert driver.card.dropped == 1


def test_receive_header_needs_a_descriptor_of_its_own_unless_any_layout_was_accepted():
    driver = Driver().start()
    driver.descriptor(RX, 0, 1500, 2, 0)
    driver.give(RX, 0)
    with pytest.raises(DriverError, match="a descriptor of its own"):
        driver.card.deliver(bytes(60))
    driver = Driver().start()
    driver.card.accepted |= 1 << F_ANY_LAYOUT
    driver.descriptor(RX, 0, 1500, 2, 0)
    driver.give(RX, 0)
    assert driver.card.deliver(bytes(60))


def test_any_layout_is_offered_through_the_ports_alone():
    driver = Driver(transitional=True)
    assert driver.bus.port_in(IO_BASE, 4) >> F_ANY_LAYOUT & 1
    through_windows = driver.card.mmio_read(BAR_BASE + 0x04, 4)
    assert through_windows
    assert not through_windows >> F_ANY_LAYOUT & 1


def test_receive_buffer_that_is_too_short_or_read_only():
    driver = Driver().start()
    driver.descriptor(RX, 0, 10, 2, 0)
    driver.give(RX, 0)
    assert not driver.card.deliver(bytes(60))
    driver = Driver().start()
    driver.descriptor(RX, 0, 100, 0, 0)
    driver.give(RX, 0)
    with pytest.raises(DriverError, match="cannot write"):
        driver.card.deliver(bytes(60))


def test_status_rules():
    driver = Driver().start()
    with pytest.raises(DriverError, match="taken back without a reset"):
        driver.out(18, 1, 3)
    with pytest.raises(DriverError, match="after they were settled"):
        driver.out(4, 4, 0)
    driver.out(18, 1, 0)
    with pytest.raises(DriverError, match="never offered"):
        driver.out(4, 4, 1 << 7)
    with pytest.raises(DriverError, match="before DRIVER_OK"):
        driver.out(16, 2, RX)
    driver.out(14, 2, 7)
    assert driver.bus.port_in(IO_BASE + 12, 2) == 0
    with pytest.raises(DriverError, match="queue 7 does not exist"):
        driver.out(8, 4, 1)
    with pytest.raises(DriverError, match="2-byte write to legacy register 18"):
        driver.out(18, 2, 1)
    with pytest.raises(DriverError, match="1-byte read of legacy register 0"):
        driver.bus.port_in(IO_BASE, 1)


def modern():
    driver = Driver(modern=True)

    def write(register, size, value):
        driver.bus.mmio_write(BAR_BASE + register, size, value)

    return driver, write


@pytest.mark.parametrize(
    ("writes", "message"),
    [
        ([(0x14, 1, 3), (0x08, 4, 1), (0x0C, 4, 1), (0x14, 1, 7)], "without FEATURES_OK"),
        ([(0x18, 2, 300)], "queue size 300"),
        ([(0x18, 2, 48)], "queue size 48"),
        ([(0x1C, 2, 1), (0x18, 2, 16)], "after it was enabled"),
        ([(0x16, 2, 9), (0x18, 2, 16)], "queue 9 does not exist"),
        ([(0x20, 8, 0)], "8-byte write to common register 0x20"),
        ([(0x3004, 2, 0)], "notification of queue 0 at 0x3004"),
    ],
)
def test_modern_rules(writes, message):
    _driver, write = modern()
    for register in writes[:-1]:
        write(*register)
    with pytest.raises(DriverError, match=message):
        write(*writes[-1])


def test_modern_addresses_are_taken_in_halves():
    driver, write = modern()
    write(0x28, 4, 0x1234_5000)
    write(0x2C, 4, 0x7)
    assert driver.card.queues[0].available == 0x7_1234_5000
    with pytest.raises(DriverError, match="4-byte read of common register 0x20"):
        driver.bus.mmio_read(BAR_BASE + 0x20, 4)


def test_immediate_card_sends_in_the_notification():
    driver = Driver(immediate=True).start()
    driver.descriptor(TX, 0, 10, 1, 1)
    driver.descriptor(TX, 1, 60, 0, 0)
    driver.give(TX, 0)
    seen: list[bytes] = []
    driver.card.on_transmit = seen.append
    driver.out(16, 2, TX)
    assert seen == [bytes(60)]
