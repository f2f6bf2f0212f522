"""A bench for the bus: a link in any state, bytes of a server in its ring, what it would send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firmware.bus.messages import bus_take
from firmware.layouts.bus import BUS, BUS_IN, BusKind, LinkState
from firmware.layouts.config import CONFIG
from firmware.layouts.credentials import CREDENTIALS
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC, BusAuth
from firmware.layouts.log import LOG, LOG_RING
from firmware.layouts.shard import ShardContext
from firmware.limits import RING_BYTES
from tests.support.segments import NOW, OUR_PORT, PEER_IP, Bench, loaded

if TYPE_CHECKING:
    from emulator.memory import Region
    from toolchain.asm import Routine

NODE, BOOT = b"n7", 0x3FA2C1D0
INFO = (
    b'INFO {"server_id":"NBQO","server_name":"tr","version":"2.15.1","proto":1,"headers":true,'
    b'"auth_required":true,"max_payload":8388608,"jetstream":true,"client_id":13} \r\n'
)


class BusBench(Bench):
    """One for a test file. `reset` before each test."""

    def __init__(
        self, *routines: Routine, semantics: bool | None = None, extra: tuple[Region, ...] = ()
    ) -> None:
        super().__init__(*routines, bus_take, semantics=semantics, extra=extra)

    def reset(self) -> None:
        """Put everything back: two links without a connection, one server, no login."""
        super().reset()
        self.login(BusAuth.NONE)
        self.servers(1)
        g = self.lab.g
        g(FLEET_CONFIG).magic = FLEET_MAGIC
        g(CONFIG).gateway_secure = 0
        bus = g(BUS)
        bus.wipe()
        g(BUS_IN).wipe()
        bus.boot, bus.node_len = BOOT, len(NODE)
        bus.node[0 : len(NODE)] = NODE
        bus.boot_text[0:8] = b"%08x" % BOOT
        for n, shard in enumerate(self.shards):
            bus.links[n].context, bus.links[n].index = shard, n
            self.lab.view(ShardContext, shard).unleased = 1
        g(LOG).head = g(LOG).tail = 0

    @property
    def context(self) -> Any:
        """The workspace of CONTROL."""
        return self.lab.view(ShardContext, self.shard)

    @property
    def link(self) -> Any:
        """CONTROL."""
        return self.lab.g(BUS).links[0]

    def login(self, auth: BusAuth, user: bytes = b"n7", password: bytes = b"pw") -> None:
        """Give the node a login; the configuration says the same."""
        for mine in (self.lab.g(FLEET_CONFIG), self.lab.g(CREDENTIALS)):
            mine.auth = auth
            mine.user_len, mine.password_len = len(user), len(password)
            mine.user[0 : len(user)], mine.password[0 : len(password)] = user, password

    def servers(self, count: int) -> None:
        """Configure so many servers, all of them the peer."""
        config = self.lab.g(FLEET_CONFIG)
        config.servers_used = count
        host = ".".join(str(part) for part in PEER_IP).encode()
        for n in range(count):
            config.servers[n].host[0 : len(host)] = host
            config.servers[n].host_len, config.servers[n].port = len(host), 4222 + n

    def up(self, state: LinkState = LinkState.UP, **fields: int) -> Any:
        """Let CONTROL stand in a state, TCP established where it has one."""
        self.open(remote_port=4222, local_port=OUR_PORT, remote_ip=loaded(PEER_IP))
        link = self.link
        link.state, link.informed, link.headers = state, 1, 1
        link.last_rx, link.rx_seen = NOW, self.tcp.rcv_nxt
        link.attempt_deadline = NOW + 15_000_000
        for name, value in fields.items():
            setattr(link, name, value)
        return link

    def arrive(self, data: bytes) -> None:
        """Let bytes come that TCP has taken."""
        tcp, base = self.tcp, self.context.ring_base
        at = tcp.ring_head + tcp.ring_ready
        assert tcp.ring_ready + len(data) <= RING_BYTES
        for n in range(0, len(data), 256):
            piece, place = data[n : n + 256], (at + n) % RING_BYTES
            self.lab.machine.write(base + place, piece)
        tcp.ring_ready += len(data)
        tcp.rcv_nxt += len(data)

    def bus(self, routine: Routine, **inputs: int) -> dict[str, int]:
        """Call a routine for CONTROL in lockstep; return its outputs."""
        if "link" in routine.parameters:
            inputs.setdefault("link", self.link.address_)
        return self.call(routine, **inputs)

    def queued(self) -> bytes:
        """Return what waits to be sent."""
        tcp = self.tcp
        size = tcp.tx_end - tcp.tx_start
        return self.lab.machine.read(self.context.tx_base + tcp.tx_start, size) if size else b""

    def message(self, *, free: bool = False) -> Any:
        """Take the next message: subject, sid, reply, status, header, body, inbox; None = there is none.

        Args:
            free: The routine alone runs, without its model.
        """
        if free:
            at = {"link": self.link.address_, "shard": self.shard}
            kind = self.lab.free(bus_take, **at)["rax"] & 0xFFFF_FFFF
        else:
            kind = self.bus(bus_take)["eax"]
        if kind != BusKind.MESSAGE:
            return None
        got, read = self.lab.g(BUS_IN), self.lab.machine.read

        def text(name: str) -> bytes:
            size = getattr(got, f"{name}_len")
            return read(getattr(got, name), size) if size else b""

        return (
            text("subject"), int(got.sid), text("reply"), int(got.status), text("header"),
            text("body"), int(got.inbox),
        )  # fmt: skip

    def lines(self) -> list[str]:
        """Return the codes and values that the log holds."""
        raw = self.lab.machine.read(self.lab.image.address(LOG_RING), self.lab.g(LOG).head)
        return [line.split(" code=", 1)[1] for line in raw.decode().splitlines()]
