"""Node-wide state: clock, lease, plan, network identity, and `CoreState` behind the GS base."""

from __future__ import annotations

from firmware.limits import SHARDS_MAX
from toolchain.asm.registers import GS
from toolchain.layout import Global, Struct, array, bytes_, ptr, u8, u32, u64


class Clock(Struct):
    """The time service."""

    SIZE = 0x40
    tsc_cycles_per_ms = u64(0x00, "TSC calibration; cycles per millisecond; 0 = not calibrated")
    boot_tsc = u64(0x08, "TSC at the first instruction of the boot program")
    unix_time = u64(0x10, "RTC at boot; seconds since 1970; 0 = unknown")
    unix_tsc = u64(0x18, "TSC when unix_time was read")
    spread_ppm = u32(0x20, "disagreement of the two calibration sources; parts per million")
    source = u32(0x24, "which sources agreed; bits: 1 PIT, 2 PM timer")
    pm_port = u32(0x28, "port of the ACPI PM timer; 0 = none")


class Lease(Struct):
    """The node's permission to connect (seed A, decision 19)."""

    SIZE = 0x20
    deadline = u64(0x00, "shard_lease_deadline: TSC; 0 = enforcement off")
    generation = u64(0x08, "grant number")
    expired = u32(0x10, "shard_lease_expired: 1 = all shard traffic is stopped")
    generation_seen = u32(0x14, "low half of the last generation that the shards were told of")


class Plan(Struct):
    """Which shards this node owns; three distinct values (seed A)."""

    SIZE = 0x10
    global_total = u32(0x00, "shards of the whole bot")
    local_start = u32(0x04, "first shard of this node")
    local_count = u32(0x08, "shards of this node")
    generation = u32(0x0C, "counts the plans of this boot, from 1")


SLOT_ACTIVE = 1


class Slot(Struct):
    """One row of the scheduler's table: 16 bytes (decision 10)."""

    SIZE = 0x10
    deadline = u64(0x00, "TSC when the shard next wants to run; 0 = now")
    context = u32(0x08, "ShardContext address (windows lie below 4 GB)")
    flags = u32(0x0C, "SLOT_ACTIVE or 0")


class Network(Struct):
    """The node's own addresses. IPv4 addresses are kept as loaded from the wire (big-endian)."""

    SIZE = 0x40
    mac = bytes_(0x00, 6, "our Ethernet address", align=2)
    link_up = u8(0x06, "1 = the NIC reports a link")
    configured = u8(0x07, "1 = ip is valid and may be used")
    ip = u32(0x08, "our address; 0 = none")
    netmask = u32(0x0C, "0 = none known")
    router = u32(0x10, "0 = none: everything is on the link")
    dns1 = u32(0x14, "first DNS server; 0 = none")
    dns2 = u32(0x18, "second DNS server; 0 = none")
    server_id = u32(0x1C, "DHCP server that leased the address")
    lease_seconds = u32(0x20, "lease time; all ones = for ever")


class CoreState(Struct):
    """State that a second core would have for itself; GS base points here (decision 2)."""

    SIZE = 0x1400
    now = u64(0x000, "TSC at the start of the turn")
    turns = u64(0x008, "passes of the scheduler")
    current_shard = ptr(0x010, "ShardContext whose code runs; 0 = node code (decision 6)")
    wake = u32(0x018, "set by interrupt handlers; cleared by the idle loop")
    slots_used = u32(0x01C, "rows of `slots` in use")
    next_deadline = u64(0x020, "earliest TSC that any part of the node asked for")
    kicks = u64(0x028, "watchdog kicks")
    slots_due = u64(0x030, "no row of `slots` has an earlier deadline; 0 = look at them")
    slots = array(0x400, Slot, SHARDS_MAX, "scheduler table")


CLOCK = Global("clock", Clock, "the time service")
LEASE = Global("lease", Lease, "the node's permission to connect")
PLAN = Global("plan", Plan, "which shards this node owns")
NETWORK = Global("network", Network, "the node's own addresses")
CORE = Global("core", CoreState, "state of the running core", align=64)
core = CoreState.in_segment(GS)
"""`CoreState` through the GS base, as operands."""
