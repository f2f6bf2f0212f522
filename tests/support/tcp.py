"""The linked TCP code as a node on the virtual wire, with IP below it answered by the test.

`ip_begin` and `ip_finish` are intercepted at their entry, so nothing below TCP takes part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import unicorn as uc
import unicorn.x86_const as ux

from emulator.simulation.packet import (
    ARP_REPLY,
    ARP_REQUEST,
    ETHERTYPE_ARP,
    ETHERTYPE_IPV4,
    PROTOCOL_TCP,
    Arp,
    Ethernet,
    Ipv4,
    Tcp,
)
from firmware.crypto.drbg import drbg_u64
from firmware.layouts.clock import NEVER
from firmware.layouts.crypto import DRBG
from firmware.layouts.node import CLOCK, CORE, LEASE, NETWORK
from firmware.layouts.shard import ShardContext
from firmware.tcp.connect import tcp_abort, tcp_close, tcp_connect
from firmware.tcp.input import tcp_input
from firmware.tcp.reliable import tcp_commit, tcp_reserve
from firmware.tcp.ring import tcp_consume, tcp_readable
from firmware.tcp.timers import tcp_tick
from tests.support.lab import Lab

if TYPE_CHECKING:
    from collections.abc import Callable

ROUTINES = (
    tcp_connect, tcp_input, tcp_tick, tcp_readable, tcp_consume, tcp_reserve, tcp_commit,
    tcp_close, tcp_abort, drbg_u64,
)  # fmt: skip
CYCLES_PER_MS = 1_000_000
START = 1 << 40
"""TSC at virtual time 0, far from 0 and from every wrap."""
NODE_MAC = b"\x52\x54\x00\x00\x00\x77"


def wire(address: bytes) -> int:
    """Return an address as the node loads it."""
    return int.from_bytes(address, "little")


class Application:
    """What stands above TCP on one shard: bytes to send, bytes received, when it reads."""

    def __init__(self, outgoing: bytes = b"") -> None:
        self.outgoing = outgoing
        self.received = bytearray()
        self.reading = True
        self.read_most = 1 << 30
        self.write_most = 1000
        self.close_when_sent = False


class TcpNode:
    """A node under test (`emulator.simulation.world.Node`) whose shards only speak TCP."""

    def __init__(self, address: bytes, *, slots: int = 1) -> None:
        self.lab = Lab(*ROUTINES, slots=slots)
        self.machine = self.lab.machine
        self.address, self.slots = address, slots
        self._iss: int | None = None
        self._intercept("ip_begin", self._ip_begin)
        self._intercept("ip_finish", self._ip_finish)
        self.restart()

    def restart(self, iss: int | None = None) -> None:
        """Begin again with empty memory; `iss` replaces the number of the next connections."""
        self.lab.reset()
        slots = self.slots
        self._iss = iss
        self.blocked = False
        self.frames: list[bytes] = []
        self.sent: list[Tcp] = []
        self.inbox: list[bytes] = []
        self.neighbour: bytes | None = None
        self.shards = [self.lab.shard(n) for n in range(slots)]
        self.applications = [Application() for _ in self.shards]
        self.deadlines = [NEVER] * slots
        self._frame = self.machine.alloc(2048)
        self._segment = self.machine.alloc(2048)
        g = self.lab.g
        g(CLOCK).tsc_cycles_per_ms = CYCLES_PER_MS
        g(NETWORK).ip = wire(self.address)
        g(DRBG).seeded = 1
        for n in range(32):
            g(DRBG).key[n] = n
        self.set_time(0)

    # -- IP below ---------------------------------------------------------------------------------
    def _intercept(self, name: str, action: Callable[[uc.Uc], None]) -> None:
        address = self.machine.image.address(name)

        def entered(engine: uc.Uc, _at: int, _size: int, _data: object) -> None:
            action(engine)
            rsp = engine.reg_read(ux.UC_X86_REG_RSP)
            back = int.from_bytes(self.machine.read(rsp, 8), "little")
            engine.reg_write(ux.UC_X86_REG_RSP, rsp + 8)
            engine.reg_write(ux.UC_X86_REG_RIP, back)

        self.machine.hook(uc.UC_HOOK_CODE, entered, address, address)

    def _ip_begin(self, engine: uc.Uc) -> None:
        for register in (ux.UC_X86_REG_RAX, ux.UC_X86_REG_RCX, ux.UC_X86_REG_RDX,
                         ux.UC_X86_REG_RSI, ux.UC_X86_REG_R8, ux.UC_X86_REG_R11):  # fmt: skip
            engine.reg_write(register, 0xDEAD_BEEF_0BAD_F00D)
        engine.reg_write(ux.UC_X86_REG_RDI, self._frame)
        flags = engine.reg_read(ux.UC_X86_REG_RFLAGS) & ~1
        engine.reg_write(ux.UC_X86_REG_RFLAGS, flags | self.blocked)

    def _ip_finish(self, engine: uc.Uc) -> None:
        length = engine.reg_read(ux.UC_X86_REG_ECX)
        target = engine.reg_read(ux.UC_X86_REG_EDX).to_bytes(4, "little")
        assert engine.reg_read(ux.UC_X86_REG_AL) == PROTOCOL_TCP
        payload = self.machine.read(self._frame, length)
        self.sent.append(Tcp.decode(payload, self.address, target))
        packet = Ipv4(self.address, target, PROTOCOL_TCP, payload).encode()
        # Peers of the simulation have a MAC made of their address; a real one is learned by ARP.
        neighbour = self.neighbour or b"\x02\x00" + target
        self.frames.append(Ethernet(neighbour, NODE_MAC, ETHERTYPE_IPV4, packet).encode())

    # -- the routines -----------------------------------------------------------------------------
    def call(self, name: str, slot: int = 0, **registers: int) -> dict[str, Any]:
        """Call a routine for a shard."""
        return self.machine.call(name, {"rbx": self.shards[slot], **registers}, limit=200_000)

    def set_time(self, now_ns: int) -> None:
        """Set the time of the turn; one cycle is a nanosecond."""
        self.lab.g(CORE).now = START + now_ns

    def tcp(self, slot: int = 0) -> Any:
        """Return the control block of a shard."""
        return self.lab.view(ShardContext, self.shards[slot]).tcp

    def connect(self, address: bytes, port: int, slot: int = 0) -> None:
        """Open a connection now."""
        tcp = self.tcp(slot)
        tcp.remote_ip, tcp.remote_port = wire(address), port
        self.blocked, before = self.blocked or self._iss is not None, self.blocked
        assert self.call("tcp_connect", slot)["flags"] & 1 == 0
        self.blocked = before
        if self._iss is not None:
            # The SYN has not left yet, so another number may still be chosen for it.
            tcp.iss = tcp.snd_una = tcp.snd_nxt = self._iss
            tcp.snd_max = self._iss + 1
        self.deadlines[slot] = 0

    def expire_lease(self) -> None:
        """End the node's permission to send."""
        self.lab.g(LEASE).expired = 1

    def segment(self, data: bytes, source: bytes) -> int:
        """Hand a segment to `tcp_input`; return the shard's address or 0."""
        self.machine.write(self._segment, data)
        after = self.call(
            "tcp_input", rsi=self._segment, rcx=len(data), rdx=wire(source), r8=wire(self.address)
        )
        return int(after["rax"])

    # -- emulator.simulation.world.Node -----------------------------------------------------------
    def deliver(self, frame: bytes) -> None:
        """Queue one received frame."""
        self.inbox.append(frame)

    def step(self, now_ns: int) -> list[bytes]:
        """Run one turn: frames, applications, timers."""
        self.set_time(now_ns)
        inbox, self.inbox = self.inbox, []
        for frame in inbox:
            self._take(frame)
        for slot, application in enumerate(self.applications):
            self._run(slot, application)
            self.deadlines[slot] = self.call("tcp_tick", slot)["rax"]
        frames, self.frames = self.frames, []
        return frames

    def next_deadline(self, _now_ns: int) -> int | None:
        """Return when the earliest timer rings."""
        earliest = min(self.deadlines)
        for slot, application in enumerate(self.applications):
            # A reader that took only a part reads on in the next turn.
            if application.reading and self.tcp(slot).ring_ready:
                earliest = 0
        return None if earliest == NEVER else max(0, int(earliest) - START)

    def _take(self, frame: bytes) -> None:
        try:
            ether = Ethernet.decode(frame)
            if ether.ethertype == ETHERTYPE_ARP:
                asked = Arp.decode(ether.payload)
                if asked.operation == ARP_REPLY:
                    self.neighbour = asked.sender_mac
                if asked.operation == ARP_REQUEST and asked.target_ip == self.address:
                    reply = Arp(
                        ARP_REPLY, NODE_MAC, self.address, asked.sender_mac, asked.sender_ip
                    )
                    raw = Ethernet(asked.sender_mac, NODE_MAC, ETHERTYPE_ARP, reply.encode())
                    self.frames.append(raw.encode())
                return
            packet = Ipv4.decode(ether.payload)
        except ValueError:
            return  # damaged below TCP: the IP layer drops it
        if packet.dst == self.address and packet.protocol == PROTOCOL_TCP:
            self.segment(packet.payload, packet.src)

    def _run(self, slot: int, application: Application) -> None:
        while application.reading:
            got = self.call("tcp_readable", slot)
            length = min(got["rcx"] & 0xFFFF_FFFF, application.read_most)
            if not length:
                break
            application.received += self.machine.read(got["rsi"], length)
            self.call("tcp_consume", slot, rcx=length)
            if application.read_most < 1 << 30:
                break
        while application.outgoing:
            piece = application.outgoing[: application.write_most]
            got = self.call("tcp_reserve", slot, rcx=len(piece))
            if got["flags"] & 1:
                break
            self.machine.write(got["rdi"], piece)
            self.call("tcp_commit", slot, rcx=len(piece))
            application.outgoing = application.outgoing[len(piece) :]
        if application.close_when_sent and not application.outgoing:
            self.call("tcp_close", slot)
