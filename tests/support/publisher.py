"""A node that publishes, on a bench: its outbox, its shards, and what lies in the ring."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.memory import Region
from firmware.layouts.bus import BUS, BUS_IN, BusKind
from firmware.layouts.fleet_config import FLEET_CONFIG
from firmware.layouts.gateway import GatewayState
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.outbox import ASSEMBLIES, OUTBOX
from firmware.layouts.shard import ShardContext, ShardFlag
from firmware.limits import ASSEMBLY_BYTES, OUTBOX_BYTES, WINDOW_ASSEMBLY, WINDOW_OUTBOX

if TYPE_CHECKING:
    from tests.support.lab import Lab
    from toolchain.asm import Routine

PART = 0x4000
"""Of the ring only the first and the last bytes are memory here, of a buffer only the first."""
REGIONS = (
    Region("outbox", WINDOW_OUTBOX, PART, aliases=(WINDOW_OUTBOX + OUTBOX_BYTES,), foreign=True),
    Region("outbox_end", WINDOW_OUTBOX + OUTBOX_BYTES - PART, PART, foreign=True),
    *(
        Region(f"assembly{n}", WINDOW_ASSEMBLY + n * ASSEMBLY_BYTES, PART, foreign=True)
        for n in range(ASSEMBLIES)
    ),
)
MS = 1_000
NOW = 50_000 * MS
INTERVAL_MS = 41_252
"""Of heartbeats; four parts of it are whole."""
SESSION = b"5f2c8e0a9b"
NODE, BOT, BOOT = b"n525400123456", b"b1", b"3fa2c1d0"


def furnish_names(lab: Lab) -> None:
    """Give the node a name and a bot."""
    bus, config = lab.g(BUS), lab.g(FLEET_CONFIG)
    bus.node[: len(NODE)], bus.node_len, bus.boot_text[:] = NODE, len(NODE), BOOT
    lab.machine.write(config.offset_of("bot"), BOT)
    lab.machine.write(config.offset_of("bot_len"), bytes([len(BOT)]))


def furnish(lab: Lab) -> None:
    """Give the node a name, a bot and an empty outbox."""
    furnish_names(lab)
    box = lab.g(OUTBOX)
    box.base = WINDOW_OUTBOX
    for n in range(ASSEMBLIES):
        box.assemblies[n].bytes_at = WINDOW_ASSEMBLY + n * ASSEMBLY_BYTES


def queued(lab: Lab) -> bytes:
    """Return every byte that waits in the ring."""
    box = lab.g(OUTBOX)
    return lab.machine.read(box.base + box.freed % OUTBOX_BYTES, box.end - box.freed)


class Publisher:
    """Two READY shards, 5 and 6, of a node with an outbox.

    Args:
        lab: With REGIONS.
    """

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        lab.reset()
        lab.g(CLOCK).tsc_cycles_per_ms = MS
        core = lab.g(CORE)
        core.now, core.slots_used, core.slots_due = NOW, 2, 2**63
        for n in range(2):
            core.slots[n].context, core.slots[n].deadline = lab.shard(n), 2**63
            shard = self.shard(n)
            shard.shard_id, shard.shard_total, shard.connection = 5 + n, 16, 3 + n
            shard.flags, shard.sequence = ShardFlag.SEQ_VALID, 40
            shard.gateway.state, shard.gateway.seq_acked = GatewayState.READY, 40
            shard.gateway.interval_cycles = INTERVAL_MS * MS
            shard.events.fence = 7
            shard.session.session_id[: len(SESSION)] = SESSION
            shard.session.session_id_len = len(SESSION)
            self.name(b"MESSAGE_CREATE", n)
        furnish(lab)

    @property
    def box(self) -> Any:
        """The live outbox."""
        return self.lab.g(OUTBOX)

    @property
    def now(self) -> int:
        """The time of the turn; TSC."""
        return int(self.lab.g(CORE).now)

    @now.setter
    def now(self, value: int) -> None:
        self.lab.g(CORE).now = value

    def shard(self, n: int = 0) -> Any:
        """Return the live context of a shard."""
        return self.lab.view(ShardContext, self.lab.shard(n, wipe=False))

    def name(self, name: bytes, n: int = 0) -> None:
        """Let the parser of a shard hold a name."""
        self.shard(n).gateway.parser.t[: len(name)] = name

    def call(self, routine: Routine, /, n: int | None = None, **inputs: int) -> Any:
        """Call a routine in lockstep, of shard `n` when it takes one."""
        if n is not None:
            inputs["shard"] = self.shard(n).address_
        return self.lab.call(routine, **inputs)

    def skip_to(self, position: int) -> None:
        """Let the ring begin at a position, nothing in it."""
        self.box.freed = self.box.sent = self.box.end = position

    def queued(self) -> bytes:
        """Return every byte that waits in the ring."""
        return queued(self.lab)

    def answer(self, number: int, body: bytes, *, status: int = 0) -> None:
        """Lay an answer of the stream down as the message in hand."""
        message = self.lab.g(BUS_IN)
        message.inbox, message.status, message.body_len = number, status, len(body)
        message.kind = BusKind.MESSAGE
        message.body = self.lab.put(body)
