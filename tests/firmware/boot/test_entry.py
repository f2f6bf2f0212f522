"""The set-up of the machine: order, report, refusal."""

import pytest

from emulator.memory import Region
from firmware.boot.entry import boot_adopt, boot_report, clock_setup, memory_setup, node_setup
from firmware.cpu.panic import record_write
from firmware.layouts.boot import BOOT, BOOT_INFO_ADDRESS, BootInfo, BootPacket
from firmware.layouts.config import CONFIG
from firmware.layouts.cpu import WATCHDOG, TrapFrame
from firmware.layouts.log import LOG, LOG_RING, LOG_RING_BYTES
from firmware.layouts.log_line import Level
from firmware.layouts.memory import MEMORY
from firmware.layouts.node import CLOCK, CORE
from firmware.limits import FAULT_STACK_TOP, KEPT_PAGES, PAGE, RECORD_PAGE, STACK_TOP, WINDOW_MMIO
from tests.support.lab import Lab
from tests.support.machine_room import PM_PORT, Room
from tests.support.pages import ready, set_map, tables_region, usable

LAB = Lab(
    node_setup, record_write,
    semantics=False,
    extra=[
        tables_region(),
        Region("low memory", BOOT_INFO_ADDRESS, 2 * PAGE),
        Region("device window", WINDOW_MMIO, 64 * PAGE),
        Region("record", RECORD_PAGE, KEPT_PAGES * PAGE),
        Region("fault stacks", FAULT_STACK_TOP - 3 * PAGE, 3 * PAGE),
    ],
)  # fmt: skip
# 30 November 2026, 00:43:57, BCD, 24 hours.
RTC = bytes([0x57, 0x43, 0x00, 0x30, 0x11, 0x26, 0x20, 0x02])
UNIX = 1_795_999_437
# A watchdog without registers: found early, absent all the same.
NIC = {(8, 0): 0x25AB_8086, (8, 0xC): 0, (8, 0x10): 0, (0x18, 0): 0x1000_1AF4, (0x18, 0xC): 0}
ROOM = (0x10_0000, 0x200_0000)


def prepare(build_time=0):
    """Return a machine with ACPI tables in its BIOS area and no memory of a crash."""
    LAB.reset()
    ready(LAB)
    LAB.machine.write(WINDOW_MMIO, bytes(64 * PAGE))
    root = bytearray(b"RSD PTR " + bytes(8) + b"\0\0\xfe\1")
    root[8] = -sum(root) & 0xFF
    LAB.machine.write(WINDOW_MMIO + 0x40, bytes(root))
    rsdt = WINDOW_MMIO + 32 * PAGE
    LAB.machine.write(rsdt, b"RSDT" + (40).to_bytes(4, "little") + bytes(28) + b"\0\0\0\2")
    fadt = rsdt + 2 * PAGE
    LAB.machine.write(fadt, b"FACP" + bytes(72) + PM_PORT.to_bytes(4, "little") + bytes(11) + b"\4")
    LAB.g(LOG).level = Level.DEBUG
    config = LAB.image.address(CONFIG)
    LAB.machine.write(config + 8, build_time.to_bytes(8, "little"))


def low_boot(*entries, ack=b""):
    """Fill the boot program's BootInfo."""
    LAB.machine.write(BOOT_INFO_ADDRESS, bytes(BootInfo.SIZE))
    set_map(LAB, *entries)
    boot = LAB.g(BOOT)
    boot.entry_tsc, boot.nic_known, boot.ack_length = 12345, 0, len(ack)
    raw = bytearray(LAB.machine.read(LAB.image.address(BOOT), BootInfo.SIZE))
    raw[BootInfo.ack.offset : BootInfo.ack.offset + len(ack)] = ack
    LAB.machine.write(BOOT_INFO_ADDRESS, bytes(raw))
    LAB.machine.write(LAB.image.address(BOOT), bytes(BootInfo.SIZE))


def lines():
    state = LAB.g(LOG)
    ring = LAB.machine.read(LAB.image.address(LOG_RING), LOG_RING_BYTES)
    return ring[: state.head].decode().splitlines()


def test_boot_adopt_copies_and_starts_the_clock():
    prepare()
    low_boot(usable(*ROOM))
    LAB.call(boot_adopt, source=BOOT_INFO_ADDRESS)
    assert LAB.g(BOOT).region_count == 1
    assert LAB.g(CLOCK).boot_tsc == 12345


@pytest.mark.parametrize(("pages", "missing"), [(0, 1), (1, 1), (2, 1), (100, 1)])
def test_memory_setup_tells_when_memory_runs_out(pages, missing):
    prepare()
    set_map(LAB, usable(0x30_0000, 0x30_0000 + pages * PAGE))
    assert LAB.call(memory_setup).outputs["cf"] == missing


@pytest.mark.parametrize(("build_time", "wanted"), [(0, UNIX), (UNIX, UNIX), (UNIX + 1, 0)])
def test_clock_setup_date_before_the_build_is_not_believed(build_time, wanted):
    prepare(build_time)
    LAB.call(clock_setup, Room(NIC, rtc=RTC))
    clock = LAB.g(CLOCK)
    assert clock.unix_time == wanted
    assert clock.tsc_cycles_per_ms == pytest.approx(2_000_000, rel=1e-3)


def test_node_setup_brings_the_machine_up():
    prepare()
    ack = bytearray(300)
    ack[BootPacket.your_address.offset : BootPacket.your_address.offset + 4] = bytes([10, 0, 2, 15])
    low_boot(usable(0, 0x9_F000), usable(*ROOM), ack=bytes(ack))
    assert LAB.call(node_setup, Room(NIC, rtc=RTC)).outputs["cf"] == 0
    codes = [line.split(" code=")[1] for line in lines()]
    assert codes[0].startswith("boot.started pci=0x18 ram_kb=31744 regions=2 image_kb=")
    assert codes[1].startswith(("boot.clock khz=1999", "boot.clock khz=2000"))
    assert codes[1].endswith(f" sources=3 unix={UNIX}")
    assert codes[2] == "boot.cached_ack address=10.0.2.15 bytes=300"
    free = LAB.g(MEMORY).free_pages
    assert codes[3] == f"boot.ready free_pages={free} shards=0 watchdog=0"
    assert free == 31744 // 4 - 256 - 2
    assert LAB.g(CORE).now > 0
    assert LAB.g(WATCHDOG).state == 0


def test_node_setup_without_a_configuration_says_so():
    prepare()
    low_boot(usable(*ROOM))
    LAB.g(CONFIG).magic = 0x12345678
    assert LAB.call(node_setup, Room(NIC)).outputs["cf"] == 1
    assert "code=boot.no_config magic=0x12345678" in lines()[-1]


def test_node_setup_without_memory_says_so():
    prepare()
    low_boot(usable(0x10_0000, 0x14_0000))
    assert LAB.call(node_setup, Room(NIC)).outputs["cf"] == 1
    assert [line.split(" code=")[1] for line in lines()] == ["boot.no_memory free_pages=28"]


def test_boot_report_without_a_clock_says_so():
    prepare()
    LAB.g(CLOCK).tsc_cycles_per_ms = 0
    LAB.g(BOOT).ack_length = 0
    LAB.g(MEMORY).record = 0
    LAB.call(boot_report)
    assert any("level=error code=boot.no_clock sources=" in line for line in lines())


def test_boot_report_tells_a_crash_once():
    prepare()
    LAB.g(CLOCK).tsc_cycles_per_ms = 1000
    frame = LAB.machine.alloc(TrapFrame.SIZE)
    trap = LAB.view(TrapFrame, frame)
    trap.vector, trap.rip, trap.rsp = 13, 0x6000_0042, STACK_TOP - 64
    LAB.call(record_write, Room(NIC), frame=frame)
    LAB.g(MEMORY).record = RECORD_PAGE
    LAB.call(boot_report)
    told = "level=error code=boot.crashed vector=13 rip=0x60000042 crashes=1 address=0x"
    assert sum(told in line for line in lines()) == 1
    LAB.call(boot_report)
    assert sum(told in line for line in lines()) == 1
    LAB.g(MEMORY).record = 0
    LAB.call(record_write, Room(NIC), frame=frame)
    LAB.call(boot_report)
    assert sum(told in line for line in lines()) == 1
