"""Which NIC, and whether the watchdog protects."""

import pytest

from firmware.boot.devices import boot_nic, boot_rng, watchdog_arm
from firmware.layouts.boot import BOOT
from firmware.layouts.cpu import WATCHDOG, WatchdogState
from firmware.layouts.memory import MEMORY
from firmware.layouts.pci import NO_FUNCTION
from firmware.limits import MMIO_BYTES, PAGE, WINDOW_MMIO
from tests.support.lab import Lab
from tests.support.machine_room import Room
from tests.support.pages import ready, tables_region, walk

LAB = Lab(boot_nic, boot_rng, watchdog_arm, extra=[tables_region()])
LAB.machine.map_mmio(WINDOW_MMIO, PAGE)
EMPTY_BUS = Lab(boot_nic, watchdog_arm, semantics=False)
VIRTIO, E1000 = 0x1000_1AF4, 0x100E_8086
DOG = 0x20


@pytest.mark.parametrize(
    ("known", "function", "identity", "wanted"),
    [
        (1, 0x20, E1000, (1, 0x20)),  # what the ROM booted from, whatever it is
        (1, 0x20, VIRTIO, (0, 0x18)),  # the bus disagrees
        (1, 0x99, VIRTIO, (0, 0x18)),
        (0, 0, 0, (0, 0x18)),
    ],
)
def test_boot_nic_is_the_one_booted_from_else_the_first_virtio(known, function, identity, wanted):
    boot = LAB.g(BOOT)
    boot.nic_known, boot.nic_function, boot.nic_identity = known, function, identity
    bus = {(0x18, 0): VIRTIO, (0x18, 0xC): 0, (0x20, 0): E1000, (0x20, 0xC): 0}
    LAB.call(boot_nic, Room(bus))
    assert (boot.nic_known, boot.nic_function) == wanted


def test_boot_nic_none_at_all():
    boot = EMPTY_BUS.g(BOOT)
    boot.nic_known = 0
    EMPTY_BUS.call(boot_nic, Room({}))
    assert boot.nic_function == NO_FUNCTION


@pytest.mark.parametrize(
    ("identity", "function", "wanted"),
    [
        (0x1005_1AF4, 0x28, 0x28),
        (0x1044_1AF4, 0x28, 0x28),
        (0x1044_1AF4, 0x100, 0),  # on a bus that no bridge leads to
        (VIRTIO, 0x28, 0),
    ],
)
def test_boot_rng_is_the_first_one(identity, function, wanted):
    LAB.g(BOOT).rng_function = 0x77
    LAB.call(boot_rng, Room({(function, 0): identity, (function, 0xC): 0}))
    assert LAB.g(BOOT).rng_function == wanted


def dog(bar=0xFEBF_1000, lock=0, config=0x20):
    return {
        (DOG, 0): 0x25AB_8086, (DOG, 4): 0x0280_0000, (DOG, 0xC): 0, (DOG, 0x10): bar,
        (DOG, 0x60): config, (DOG, 0x68): lock,
    }  # fmt: skip


def arm(room):
    ready(LAB)
    written = []
    room.on_mmio_write = lambda address, size, value: written.append((address - WINDOW_MMIO, value))
    LAB.call(watchdog_arm, room)
    return LAB.g(WATCHDOG).state, written


def test_watchdog_arm_sets_ten_seconds_and_enables():
    room = Room(dog(lock=2))
    state, written = arm(room)
    assert state == WatchdogState.ARMED
    unlock = [(0xC, 0x80), (0xC, 0x86)]
    assert written == [*unlock, (0, 5120), *unlock, (4, 5120), *unlock, (0xC, 0x100)]
    assert room.functions[DOG, 0x68] == 2
    assert room.functions[DOG, 0x60] & 0x20 == 0
    assert room.functions[DOG, 4] & 2
    assert LAB.g(WATCHDOG).registers == WINDOW_MMIO
    assert walk(LAB, WINDOW_MMIO) & 0xFFFF_F000 == 0xFEBF_1000


@pytest.mark.parametrize("fixed", [(DOG, 0x68), (DOG, 0x60)])
def test_watchdog_arm_that_does_not_take_is_told(fixed):
    assert arm(Room(dog(), fixed=(fixed,)))[0] == WatchdogState.INHIBITED


def test_watchdog_arm_without_registers():
    assert arm(Room(dog(bar=0))) == (WatchdogState.ABSENT, [])


def test_watchdog_arm_without_one():
    EMPTY_BUS.call(watchdog_arm, Room({}))
    assert EMPTY_BUS.g(WATCHDOG).state == WatchdogState.ABSENT


def test_watchdog_arm_without_room_for_its_registers():
    ready(LAB)
    LAB.g(MEMORY).mmio_next = WINDOW_MMIO + MMIO_BYTES
    LAB.call(watchdog_arm, Room(dog()))
    assert LAB.g(WATCHDOG).state == WatchdogState.ABSENT
