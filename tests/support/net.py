"""A bench for the network layer: a started card, an address, a clock that the test sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firmware.layouts.crypto import DRBG
from firmware.layouts.net import ARP, DHCP, DHCP_OPTIONS, NET, ArpState
from firmware.layouts.nic import NO_HEAD, NicState
from firmware.layouts.node import CLOCK, CORE
from firmware.net.input import net_input
from firmware.nic.legacy import legacy_start
from firmware.nic.queue import nic_flush
from tests.support.nic import DMA_PHYSICAL, MAC, PCI_ADDRESS, NicBench
from tests.support.token import set_token

if TYPE_CHECKING:
    from emulator.lockstep import Result
    from tests.support.lab import Lab

MS = 1_000_000
"""Cycles of the bench's clock in a millisecond."""
SECOND = 1000 * MS
START = 10**12
IP, ROUTER, PEER, FAR = "10.0.0.2", "10.0.0.1", "10.0.0.9", "192.0.2.7"
PEER_MAC = bytes.fromhex("020000000009")
NEEDED = (legacy_start, nic_flush, net_input)
"""What every lab of this bench links."""


def ip32(text: str) -> int:
    """Return an address as a load from the wire gives it."""
    return int.from_bytes(bytes(map(int, text.split("."))), "little")


class NetBench(NicBench):
    """A node with a link.

    Args:
        lab: linked with at least `NEEDED`.
        configured: whether it has an address.
    """

    def __init__(self, lab: Lab, *, configured: bool = True, **options: Any) -> None:
        super().__init__(lab, **options)
        nic, network = self.nic, self.network
        nic.pci_address, nic.dma_physical, nic.rx_head = PCI_ADDRESS, DMA_PHYSICAL, NO_HEAD
        self.run("legacy_start")
        nic.state = NicState.READY
        network.link_up = 1
        lab.g(CLOCK).tsc_cycles_per_ms = MS
        lab.g(CORE).now = START
        if configured:
            network.ip, network.netmask = ip32(IP), ip32("255.255.255.0")
            network.router, network.configured = ip32(ROUTER), 1
        if "drbg" in lab.image.symbols:
            drbg = lab.g(DRBG)
            drbg.key[:] = bytes(range(32))
            drbg.nonce[:] = bytes(12)
            drbg.seeded = 1
        if "bot_token" in lab.image.symbols:
            set_token(lab, b"a.bot.token")

    def advance(self, cycles: int) -> None:
        """Let time pass."""
        self.lab.g(CORE).now += cycles

    @property
    def counters(self) -> Any:
        return self.lab.g(NET).counters

    @property
    def dhcp(self) -> Any:
        return self.lab.g(DHCP)

    @property
    def dhcp_options(self) -> Any:
        return self.lab.g(DHCP_OPTIONS)

    def learn(self, ip: str, mac: bytes = PEER_MAC, *, slot: int = 0) -> Any:
        """Put a neighbour into the table."""
        entry = self.lab.g(ARP).entries[slot]
        entry.ip, entry.state = ip32(ip), ArpState.KNOWN
        entry.mac[:] = mac
        entry.expires = self.lab.g(CORE).now + 60_000 * MS
        entry.asked, entry.used = 0, self.lab.g(CORE).now
        return entry

    def sent(self) -> list[bytes]:
        """Let the card send what is queued; return the frames since the last time."""
        self.run("nic_flush")
        self.card.service()
        frames = list(self.card.transmitted)
        self.card.transmitted.clear()
        return frames

    def put(self, frame: bytes) -> int:
        """Lay a frame down where a received one would be; return its address."""
        lab = self.lab
        start = lab.machine.alloc(2048, align=64) + 16
        lab.machine.write(start, frame.ljust(64, b"\xee"))
        return start

    def input(self, frame: bytes) -> Result:
        """Hand a frame to `net_input` in lockstep, as the card delivers it: padded."""
        padded = frame.ljust(60, b"\x00")
        return self.call(net_input, frame=self.put(padded), length=len(padded))


__all__ = ["FAR", "IP", "MAC", "MS", "NEEDED", "PEER", "PEER_MAC", "ROUTER", "SECOND", "START"]
__all__ += ["NetBench", "ip32"]
