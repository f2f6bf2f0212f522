"""The network layer alone as a node of the virtual world: the linked bytes, a card, no shards."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from emulator.environment import Environment
from firmware.layouts.clock import NEVER
from firmware.layouts.config import CONFIG
from firmware.layouts.crypto import DRBG
from firmware.layouts.net import ARP, DHCP, NET, PROTOCOL_UDP
from firmware.layouts.node import CLOCK, CORE
from firmware.net.dns import dns_resolve, dns_tick
from firmware.net.dns_message import dns_input
from firmware.net.input import net_input
from firmware.net.start import net_start
from firmware.net.tick import net_tick
from firmware.nic.device import nic_init
from firmware.nic.queue import nic_flush, nic_poll, nic_release
from tests.support.nic import DMA_PHYSICAL, MAC, PCI_ADDRESS, NicBench, windows_lab

if TYPE_CHECKING:
    from tests.support.lab import Lab

TSC_AT_ZERO = 10**12
CYCLES_PER_MS = 1_000_000
"""One cycle is a nanosecond."""


def wire_lab() -> Lab:
    """Link what a node without shards needs."""
    return windows_lab(
        nic_init, nic_poll, nic_release, nic_flush, net_start, net_input, net_tick,
        dns_resolve, dns_tick, dns_input,
    )  # fmt: skip


class NetNode(NicBench):
    """A node that gets an address, answers pings and resolves names.

    Args:
        lab: from `wire_lab`; put back by the start.
        ack: the boot ROM's DHCPACK; empty for none.
        seed: of its random generator.
        card: options of the card.
    """

    def __init__(self, lab: Lab, *, ack: bytes = b"", seed: int = 1, **card: Any) -> None:
        super().__init__(lab, **card)
        self.now_ns = 0
        self.deadline = 0
        self.machine = lab.machine
        self.machine.environment = self.bus.connect(Environment(recording=False))
        lab.g(CLOCK).tsc_cycles_per_ms = CYCLES_PER_MS
        lab.g(CONFIG).dhcp = 1
        lab.g(DRBG).key[:] = random.Random(seed).randbytes(32)
        lab.g(DRBG).seeded = 1
        self._turn_begins(0)
        started = self.machine.call("nic_init", {"rdi": PCI_ADDRESS, "rsi": DMA_PHYSICAL})
        if started["rax"]:
            raise AssertionError(f"nic_init returns {started['rax']:#x}")
        at = self.machine.alloc(2048)
        self.machine.write(at, ack or b"\0")
        self.machine.call("net_start", {"rsi": at, "rcx": len(ack)})
        self._name = self.machine.alloc(256)

    def _turn_begins(self, now_ns: int) -> None:
        self.now_ns = now_ns
        self.lab.g(CORE).now = now_ns + TSC_AT_ZERO

    # -- what a world calls -----------------------------------------------------------------------
    def deliver(self, frame: bytes) -> None:
        """Put a frame into the receive ring."""
        self.card.deliver(frame)

    def step(self, now_ns: int) -> list[bytes]:
        """Run one turn."""
        self._turn_begins(now_ns)
        call = self.machine.call
        while (got := call("nic_poll"))["rcx"] & 0xFFFF_FFFF:
            taken = call("net_input", {"rsi": got["rsi"], "rcx": got["rcx"]})
            if taken["rax"] & 0xFFFF_FFFF == PROTOCOL_UDP:
                names = ("rsi", "rcx", "rdx", "r8", "r9")
                call("dns_input", {name: taken[name] for name in names})
            call("nic_release")
        self.deadline = min(call("net_tick")["rax"], call("dns_tick")["rax"])
        return self.flush()

    def flush(self) -> list[bytes]:
        """Let the card send what is queued, and return it."""
        self.machine.call("nic_flush")
        self.card.service()
        frames = list(self.card.transmitted)
        self.card.transmitted.clear()
        return frames

    def next_deadline(self, now_ns: int) -> int | None:
        """Return when it wants to run again."""
        return None if self.deadline == NEVER else max(self.deadline - TSC_AT_ZERO, now_ns)

    # -- what a test asks -------------------------------------------------------------------------
    def resolve(self, name: str) -> tuple[int, bytes]:
        """Ask for a name: 0 found, 1 pending, 2 failed; and the address."""
        self.machine.write(self._name, name.encode())
        got = self.machine.call("dns_resolve", {"rsi": self._name, "rcx": len(name)})
        return got["rax"] & 0xFFFF_FFFF, (got["rdx"] & 0xFFFF_FFFF).to_bytes(4, "little")

    @property
    def address(self) -> bytes:
        """Its address, empty while it has none."""
        network = self.network
        return int(network.ip).to_bytes(4, "little") if network.configured else b""

    @property
    def counters(self) -> Any:
        return self.lab.g(NET).counters

    @property
    def dhcp(self) -> Any:
        return self.lab.g(DHCP)

    def neighbours(self) -> dict[bytes, bytes]:
        """Return the neighbour table: address to MAC."""
        table = self.lab.g(ARP)
        rows = [table.entries[n] for n in range(16)]
        return {int(e.ip).to_bytes(4, "little"): bytes(e.mac) for e in rows if e.state}


__all__ = ["MAC", "NetNode", "wire_lab"]
