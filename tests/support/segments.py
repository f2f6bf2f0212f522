"""A bench for TCP routines: control blocks in any state, segments in, segments out, in lockstep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.simulation.packet import ACK, Ethernet, Ipv4, Tcp, ip
from firmware.layouts.clock import NEVER
from firmware.layouts.crypto import DRBG
from firmware.layouts.net import ARP, ArpState
from firmware.layouts.nic import FRAME_OFFSET, NIC, TX_BUFFERS, TX_QUEUE, AvailableRing, NicState
from firmware.layouts.node import CLOCK, CORE, LEASE, NETWORK
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import TCP_PORTS, TcpState
from firmware.limits import RING_BYTES
from firmware.tcp.connect import tcp_connect
from firmware.tcp.input import tcp_input
from tests.support.lab import Lab

if TYPE_CHECKING:
    from emulator.memory import Region
    from toolchain.asm import Routine

OUR_IP, PEER_IP = ip("10.0.0.2"), ip("10.0.0.1")
OUR_PORT, PEER_PORT = 50_000, 443
CYCLES_PER_MS = 1000
NOW = 1 << 40
BUFFERS = 16
_AVAILABLE = TX_QUEUE + 0x4000
_TX_SPARE = 0x1000


def ms(value: int) -> int:
    """Return the TSC a time after NOW."""
    return NOW + value * CYCLES_PER_MS


def loaded(address: bytes) -> int:
    """Return an address as the node loads it."""
    return int.from_bytes(address, "little")


class Bench:
    """One lab for a test file. `reset` before each test."""

    def __init__(
        self, *routines: Routine, semantics: bool | None = None, extra: tuple[Region, ...] = ()
    ) -> None:
        self.lab = Lab(*routines, tcp_input, tcp_connect, semantics=semantics, extra=extra)
        self.reset()

    def reset(self) -> None:
        """Put everything back: an open network, two wiped shards, time NOW."""
        lab, g = self.lab, self.lab.g
        lab.reset()
        self.frame = lab.machine.alloc(2048)
        self.taken = 0
        g(CLOCK).tsc_cycles_per_ms = CYCLES_PER_MS
        g(CORE).now = NOW
        network = g(NETWORK)
        network.ip, network.configured = loaded(OUR_IP), 1
        network.netmask = 0x00FF_FFFF
        network.mac[0:6] = b"\x52\x54\x00\x00\x00\x77"
        neighbour = g(ARP).entries[0]
        neighbour.ip, neighbour.state = loaded(PEER_IP), ArpState.KNOWN
        neighbour.mac[0:6] = b"\x02\x00\x0a\x00\x00\x01"
        neighbour.expires = 1 << 62
        nic = g(NIC)
        nic.state, nic.tx_free_count = NicState.READY, BUFFERS
        nic.tx.descriptors, nic.tx.available, nic.tx.mask = TX_QUEUE, _AVAILABLE, 255
        nic.tx.used, nic.tx.buffers = _AVAILABLE + _TX_SPARE, BUFFERS
        lab.machine.write(TX_QUEUE, bytes(0x8000))
        for n in range(BUFFERS):
            nic.tx_free[n] = n
        g(DRBG).seeded = 1
        self.shards = [lab.shard(0), lab.shard(1)]

    @property
    def shard(self) -> int:
        """The address of shard 0."""
        return self.shards[0]

    @property
    def tcp(self) -> Any:
        """The control block of shard 0."""
        return self.lab.view(ShardContext, self.shard).tcp

    def open(self, state: TcpState = TcpState.ESTABLISHED, **fields: int) -> Any:
        """Give shard 0 a connection that stands in `state`, then set further fields."""
        tcp = self.tcp
        for name in ("rtx_at", "give_up_at", "ack_at", "keep_at", "wait_at"):
            setattr(tcp, name, NEVER)
        tcp.state = state
        tcp.remote_ip, tcp.remote_port, tcp.local_port = loaded(PEER_IP), PEER_PORT, OUR_PORT
        tcp.iss = 999
        tcp.snd_una = tcp.snd_nxt = tcp.snd_max = 1000
        tcp.snd_wnd = tcp.snd_wnd_max = 60_000
        tcp.snd_mss, tcp.cwnd, tcp.ssthresh = 1208, 12_080, 0xFFFF
        tcp.rcv_nxt, tcp.rcv_adv = 5000, 5000 + RING_BYTES
        tcp.snd_wl1, tcp.snd_wl2 = 5000, 1000
        tcp.rto = 1000 * CYCLES_PER_MS
        for name, value in fields.items():
            setattr(tcp, name, value)
        ports = self.lab.g(TCP_PORTS)
        ports.owner[OUR_PORT - 49152] = 0
        ports.contexts[0:8] = self.shard.to_bytes(8, "little")
        return tcp

    def queue(self, data: bytes, *, at: int = 0) -> None:
        """Put bytes into the transmit queue of shard 0."""
        shard = self.lab.view(ShardContext, self.shard)
        if data:
            self.lab.machine.write(shard.tx_base + at, data)
        shard.tcp.tx_start, shard.tcp.tx_end = at, at + len(data)

    def call(self, routine: Routine, **inputs: int) -> dict[str, int]:
        """Call a routine for shard 0 in lockstep; return its outputs."""
        if "shard" in routine.parameters:
            inputs.setdefault("shard", self.shard)
        return self.lab.call(routine, **inputs).outputs

    def feed(
        self,
        control: int = ACK,
        *,
        seq: int | None = None,
        ack: int | None = None,
        window: int = 60_000,
        payload: bytes = b"",
        options: bytes = b"",
        ports: tuple[int, int] = (PEER_PORT, OUR_PORT),
        source: bytes = PEER_IP,
    ) -> int:
        """Hand one segment of the peer to `tcp_input`; what is left out is what fits."""
        tcp = self.tcp
        seq = tcp.rcv_nxt if seq is None else seq % 2**32
        ack = tcp.snd_max if ack is None else ack % 2**32
        raw = Tcp(*ports, seq, ack, control, window, payload, options).encode(source, OUR_IP)
        return self.raw(raw, source)

    def raw(self, data: bytes, source: bytes = PEER_IP) -> int:
        """Hand bytes to `tcp_input`; return the shard's address or 0."""
        if data:
            self.lab.machine.write(self.frame, data)
        return self.call(
            tcp_input,
            segment=self.frame,
            length=len(data),
            source=loaded(source),
            destination=loaded(OUR_IP),
        )["rax"]

    def sent(self) -> list[Tcp]:
        """Return the segments that left since the last call, and take their buffers back."""
        nic = self.lab.g(NIC)
        ring = self.lab.view(AvailableRing, _AVAILABLE)
        found = []
        for n in range(self.taken, nic.tx.given):
            head = int.from_bytes(ring.heads[2 * (n & 255) : 2 * (n & 255) + 2], "little")
            at = TX_BUFFERS + (head >> 1) * 2048 + FRAME_OFFSET
            packet = Ipv4.decode(Ethernet.decode(self.lab.machine.read(at, 1514)).payload)
            found.append(Tcp.decode(packet.payload, packet.src, packet.dst))
        self.taken = nic.tx.given
        nic.tx_free_count = BUFFERS
        for n in range(BUFFERS):
            nic.tx_free[n], nic.tx_busy[n] = n, 0
        return found

    def block(self, *, blocked: bool = True) -> None:
        """Let the NIC refuse frames."""
        self.lab.g(NIC).state = NicState.FAILED if blocked else NicState.READY

    def expire(self) -> None:
        """End the lease."""
        self.lab.g(LEASE).expired = 1

    def at(self, milliseconds: int) -> None:
        """Move the time of the turn to a time after NOW."""
        self.lab.g(CORE).now = ms(milliseconds)

    def received(self) -> bytes:
        """Return what is readable on shard 0."""
        shard = self.lab.view(ShardContext, self.shard)
        ready = shard.tcp.ring_ready
        return self.lab.machine.read(shard.ring_base + shard.tcp.ring_head, ready) if ready else b""
