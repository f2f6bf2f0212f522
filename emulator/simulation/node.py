"""The whole image as a node on the virtual wire: Unicorn runs it, one turn at a time.

The bytes are those that boot; only the boot program is left out, and its results are filled in. The
page tables are memory like any other here, so every window is mapped beforehand and what lies
between the windows faults, as it does on the machine.
"""

from __future__ import annotations

import functools
import random
import re
import struct
from typing import TYPE_CHECKING, Any

import unicorn.x86_const as ux

from emulator.devices.bus import Bus
from emulator.devices.pci import PciBus
from emulator.devices.rtc import Rtc
from emulator.devices.serial import SerialPort
from emulator.devices.virtio_net import VirtioNet
from emulator.environment import Environment
from emulator.live import LiveWorld
from emulator.machine import PATTERN, STACK_TOP, Loaded, Machine, MachineError
from emulator.memory import Region
from emulator.simulation.clock import NS_PER_MS, NS_PER_S
from emulator.simulation.node_facts import TABLES_PHYSICAL, NodeFacts
from emulator.simulation.packet import ip_text
from emulator.simulation.quick_answers import QuickAnswers
from emulator.simulation.trace import BlockTrace
from emulator.workspace import SECTIONS, workspace_regions
from firmware import limits
from firmware.layouts.boot import BOOT
from firmware.layouts.bus import LINK_SLOTS
from firmware.layouts.clock import NEVER
from firmware.layouts.config import CONFIG
from firmware.layouts.fleet_config import FLEET_CONFIG
from firmware.layouts.log import LOG, LOG_RING_BYTES
from firmware.layouts.memory import (
    ADDRESS_MASK,
    MEMORY,
    TABLE_PAGES,
    TABLE_WINDOWS,
    WINDOWS_BASE,
    PageBit,
)
from firmware.layouts.node import CLOCK, CORE, LEASE, NETWORK, PLAN, Network
from firmware.layouts.outbox import ASSEMBLIES
from firmware.layouts.shard import ShardContext
from firmware.layouts.survivor import SURVIVAL
from firmware.layouts.tls_arena import TlsArena
from firmware.layouts.tls_pool import ARENAS_MAX
from firmware.layouts.trust import TRUST_STORE
from firmware.limits import PAGE
from toolchain.link import Linker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from emulator.devices.bus import Device
    from emulator.simulation.world import Attachment
    from toolchain.asm import Routine
    from toolchain.layout import Global
    from toolchain.link import Image

TSC_AT_ZERO = 5 * NS_PER_S
"""TSC when virtual time is zero: the machine had been on for a while."""
CYCLES_PER_MS = NS_PER_MS
"""One cycle is one nanosecond."""
UNIX_AT_ZERO = 1_795_000_000
"""Date, in Unix seconds, when virtual time is zero."""
_RDRAND = 1 << 30
_AES = 1 << 25 | 1 << 9 | 1 << 1
"""AES-NI, SSSE3, PCLMULQDQ."""
_FIELD = 1 << 19 | 1 << 8
"""ADX, BMI2."""
_PAIR = re.compile(r'(\w+)=("[^"]*"|\S*)')


def link_node(init: Routine, step: Routine) -> Image:
    """Link the 64-bit part of an image whose entries are called `node_init` and `node_step`."""
    keep = (
        CORE, CLOCK, LEASE, NETWORK, PLAN, BOOT, CONFIG, FLEET_CONFIG, MEMORY, LOG, SURVIVAL,
        TRUST_STORE,
    )  # fmt: skip
    return Linker((init, step), SECTIONS, keep=keep).link()


@functools.cache
def node_image() -> Image:
    """Return the 64-bit part of the release image, linked once per process."""
    from firmware.node.main import node_init  # noqa: PLC0415 - the adapter serves any image
    from firmware.node.step import node_step  # noqa: PLC0415 - as above

    return link_node(node_init, node_step)


@functools.cache
def _release() -> Loaded:
    return Loaded.of(node_image())


def shard_address(slot: int) -> int:
    """Return where the ShardContext of a slot lies; heads are coloured by slot."""
    base = limits.WORKSPACE_BASE + slot * limits.WORKSPACE_STRIDE
    return base + limits.WORKSPACE_STATE + slot % limits.WORKSPACE_COLOURS * 64


class ImageNode:
    """A `Node` of the virtual world whose inside is the firmware.

    Args:
        facts: configuration and boot.
        image: with `node_init` and `node_step`; None takes the release image.
        seed: what RDRAND gives.
        now_ns: virtual time of the boot, in nanoseconds.
        modern: whether the card is driven through memory windows instead of ports.
        trace: whether to count instructions and record coverage, at some cost.
        turn_limit: instructions after which a turn counts as hung; 0 sets no limit, because
            counting makes the engine ten times slower.
        kept: what the pages that a warm reset keeps hold; empty after power came.
        crashed: whether the boot before ended in a crash whose record was not told yet.
        tsc_at_zero: TSC when virtual time is zero.
        wall_ns: returns the virtual time that its RTC follows; None takes that of its turns.

    Attributes:
        machine: the machine.
        card: its network card.
        serial: its serial port.
        turn_instructions: instructions of the last turn; 0 without `trace`.
        turn_frames: frames that the last turn sent.
        turn_received: frames that came since the turn before.
        inbox: frames that came since the last turn.
    """

    def __init__(
        self,
        facts: NodeFacts | None = None,
        *,
        image: Image | None = None,
        seed: int | str = 1,
        now_ns: int = 0,
        modern: bool = False,
        trace: bool = False,
        turn_limit: int = 0,
        kept: bytes = b"",
        crashed: bool = False,
        tsc_at_zero: int = TSC_AT_ZERO,
        wall_ns: Callable[[], int] | None = None,
    ) -> None:
        self._turn_limit = turn_limit
        self._tsc_at_zero = tsc_at_zero
        self._now_ns = now_ns
        self._wall_ns = wall_ns or (lambda: self._now_ns)
        self.facts = facts or NodeFacts()
        self.image = image or node_image()
        regions = [r for n in range(self.facts.slots) for r in workspace_regions(n)]
        regions += [
            Region("tables", limits.WINDOW_PAGE_TABLES, TABLE_PAGES * PAGE),
            Region("dma", limits.WINDOW_DMA, limits.DMA_BYTES),
            Region("record", limits.RECORD_PAGE, limits.KEPT_PAGES * PAGE),
        ]
        if self.facts.fleet:
            regions += [r for n in LINK_SLOTS for r in workspace_regions(n)]
            outbox = limits.WINDOW_OUTBOX
            again = outbox + limits.OUTBOX_BYTES
            regions += [
                Region("outbox", outbox, limits.OUTBOX_BYTES, aliases=(again,)),
                Region("assembly", limits.WINDOW_ASSEMBLY, ASSEMBLIES * limits.ASSEMBLY_BYTES),
            ]
        if self.facts.trust:
            regions += [
                Region(f"arena{n}", limits.WINDOW_ARENAS + n * limits.ARENA_STRIDE, TlsArena.SIZE)
                for n in range(ARENAS_MAX)
            ]
        loaded = _release() if image is None else None
        self.machine = Machine(self.image, tuple(regions), loaded)
        self.live = LiveWorld(self.machine)
        self.serial = SerialPort()
        self.card = VirtioNet(self.machine, self.facts.mac, modern)
        self.rtc = Rtc(lambda: UNIX_AT_ZERO * NS_PER_S + self._wall_ns())
        devices: list[Device] = [self.serial, PciBus([self.card]), self.card, self.rtc]
        self.bus = Bus(devices, self._physical)
        named = {region.name: region.buffer for region in self.machine.regions}
        self._states = [memoryview(named[f"state{n}"]) for n in range(self.facts.slots)]
        self.turns = 0
        self.turn_instructions = 0
        self.turn_frames: list[bytes] = []
        self.turn_received: list[bytes] = []
        self.inbox: list[bytes] = []
        self._deadline = 0
        self._random = random.Random(seed)
        self.machine.environment = self.bus.connect(
            Environment(
                tsc=lambda: self._now_ns + tsc_at_zero,
                random=self._entropy(),
                on_cpuid=_cpuid,
                recording=False,
            )
        )
        self.machine.release_ports()
        self._quick = QuickAnswers(self.machine, self.serial, self.rtc)
        self.machine.map_mmio(limits.WINDOW_MMIO, limits.MMIO_BYTES)
        self.machine.hook_special()
        self.trace = BlockTrace(self.machine) if trace else None
        self._own_ip = self.window(NETWORK)[Network.ip.offset :][: Network.ip.size]
        self._boot(kept, crashed=crashed)

    # -- what a world calls -----------------------------------------------------------------------
    def deliver(self, frame: bytes) -> None:
        """Put one frame into the receive ring of the card."""
        self.card.deliver(frame)
        self.inbox.append(frame)

    def step(self, now_ns: int) -> list[bytes]:
        """Run one turn at `now_ns` and return the frames it sent."""
        self._now_ns = now_ns
        self._deadline = self._call("node_step")
        self.turns += 1
        self.turn_received, self.inbox = self.inbox, []
        self.card.service()
        self.turn_frames = self.card.transmitted
        self.card.transmitted = []
        return self.turn_frames

    def next_deadline(self, now_ns: int) -> int | None:
        """Return the virtual time of the next turn it asked for, or None."""
        return None if self._deadline == NEVER else self._deadline - self._tsc_at_zero

    def plug(self, attachment: Attachment) -> None:
        """Let the cable of a port and the operator's keys wake the node, as interrupts do."""
        attachment.port.link_changed[:] = [lambda up: self.card.set_link(up=up)]
        self.card.on_interrupt = attachment.wake
        self.serial.on_type = attachment.wake

    # -- looking in -------------------------------------------------------------------------------
    def shard(self, slot: int) -> Any:  # noqa: ANN401 - a View by field
        """Return a live view of a slot's ShardContext."""
        return self.live.view(ShardContext, shard_address(slot))

    def g(self, global_: Global[Any]) -> Any:  # noqa: ANN401 - a View by field
        """Return a live view of a node-wide struct."""
        return self.live.g(global_)

    def part(self, slot: int, offset: int, size: int) -> memoryview:
        """Return a live window on a slot's ShardContext, from `offset` on."""
        start = shard_address(slot) % PAGE + offset
        return self._states[slot][start : start + size]

    def window(self, global_: Global[Any]) -> memoryview:
        """Return a live window on a node-wide struct within one page."""
        address = self.image.address(global_)
        region, offset, _ = self.machine.page(address)
        start = offset + address % PAGE
        return memoryview(region.buffer)[start : start + global_.struct.SIZE]

    def workspace_bytes(self, slot: int) -> bytes:
        """Return every byte of a slot's workspace."""
        names = {region.name for region in workspace_regions(slot)}
        return b"".join(r.buffer[:] for r in self.machine.regions if r.name in names)

    @property
    def log(self) -> list[dict[str, str]]:
        """The lines that left by the serial port, each as a dict of its keys."""
        return [parse_line(line) for line in self.serial.lines]

    def address(self) -> str:
        """Return the node's own address, dotted; 0.0.0.0 before it has one."""
        return ip_text(self.own_ip())

    def own_ip(self) -> bytes:
        """Return the node's own address as four bytes."""
        return bytes(self._own_ip)

    def console(self, line: str) -> None:
        """Type a line on the serial port; the node sees it in its next turn."""
        self.serial.type(line)

    def stack_used(self) -> int:
        """Return how many bytes of the stack the deepest turn touched."""
        stack = next(r for r in self.machine.regions if r.name == "stack")
        untouched = stack.buffer[:].lstrip(bytes([PATTERN]))
        return len(untouched) - (STACK_TOP - self._leave)

    # -- inside -----------------------------------------------------------------------------------
    def kept(self) -> bytes:
        """Return the pages that a warm reset keeps."""
        return bytes(self._kept().buffer[:])

    def _kept(self) -> Region:
        return next(r for r in self.machine.regions if r.name == "record")

    def _boot(self, kept: bytes, *, crashed: bool) -> None:
        machine, image = self.machine, self.image
        for region in machine.regions:
            if region.name in ("tables", "dma"):
                region.buffer[:] = bytes(region.size)
        boot_tsc = self._now_ns + self._tsc_at_zero
        machine.write(image.address(BOOT), self.facts.boot(boot_tsc))
        machine.write(image.address(CONFIG), self.facts.config())
        machine.write(image.address(MEMORY), self.facts.memory())
        if self.facts.trust:
            machine.write(image.address(TRUST_STORE), self.facts.trust)
        if self.facts.fleet:
            machine.write(image.address(FLEET_CONFIG), self.facts.fleet)
        clock = self.g(CLOCK)
        clock.tsc_cycles_per_ms = CYCLES_PER_MS
        clock.boot_tsc = clock.unix_tsc = boot_tsc
        clock.unix_time = UNIX_AT_ZERO + self._wall_ns() // NS_PER_S
        if kept:
            self._kept().buffer[:] = kept
        self.g(SURVIVAL).crashed = int(crashed)
        machine.engine.reg_write(ux.UC_X86_REG_GS_BASE, image.address(CORE))
        # The port has a deep FIFO here, so that lines come out in the turn that wrote them.
        self.g(LOG).burst = LOG_RING_BYTES
        self.g(LOG).level = self.facts.log_level
        self._call("node_init")
        # The device masters the bus where the node's page tables say that its window lies.
        self.card.memory.physical = self.g(MEMORY).dma_physical
        self.card.service()

    def _call(self, name: str) -> int:
        machine = self.machine
        address = machine.image.address(name)
        self._leave = leave = machine.prepare_call(address, {})
        machine.ran_freely = True
        self._quick.before(self._now_ns + self._tsc_at_zero)
        try:
            machine.run(address, self._turn_limit)
        finally:
            self._quick.after()
        registers = machine.snapshot.take()
        if registers[4] != leave:
            raise MachineError(f"{name} left RSP {registers[4] - leave:+d} bytes off")
        if self.trace is not None:
            self.turn_instructions = self.trace.end_turn()
        return registers[0]

    def _entropy(self) -> Iterator[tuple[bool, int]]:
        while True:
            yield True, self._random.getrandbits(64)

    def _physical(self, address: int) -> int:
        """Walk the node's page tables for an address of the MMIO window."""
        if not limits.WINDOW_MMIO <= address < limits.WINDOW_MMIO + limits.MMIO_BYTES:
            return address
        directory = limits.WINDOW_PAGE_TABLES + TABLE_WINDOWS * PAGE
        entry = self._table(directory + (address - WINDOWS_BASE >> 21) * 8)
        table = limits.WINDOW_PAGE_TABLES + (entry & ADDRESS_MASK) - TABLES_PHYSICAL
        entry = self._table(table + (address >> 12 & 511) * 8)
        if not entry & PageBit.PRESENT:
            raise MachineError(f"device access at {address:#x}, which is not mapped")
        return (entry & ADDRESS_MASK) + address % PAGE

    def _table(self, address: int) -> int:
        return int(struct.unpack("<Q", self.machine.read(address, 8))[0])


def _cpuid(leaf: int, _subleaf: int) -> tuple[int, int, int, int]:
    """Answer as a processor with what the node looks for, and nothing else worth telling."""
    leaves = {0: (7, 0, 0, 0), 1: (0, 0, _RDRAND | _AES, 0), 7: (0, _FIELD, 0, 0)}
    return leaves.get(leaf, (0, 0, 0, 0))


def parse_line(line: str) -> dict[str, str]:
    """Split a log line into its keys; a quoted text is one value."""
    return {key: value.strip('"') for key, value in _PAIR.findall(line)}
