"""A bench for TLS routines: a shard with an arena, in lockstep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.machine import Region
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls_arena import GROUPS, SHARE_BYTES, TlsArena
from tests.support.lab import Lab

if TYPE_CHECKING:
    from toolchain.asm import Routine

ARENA = 0x6B00_0000
"""Where the arena of shard 0 lies; nothing is mapped around it."""
NAME = b"gateway.example"


class TlsBench:
    """One lab for a test file, with one shard in a handshake. `reset` before each test."""

    def __init__(self, *routines: Routine, extra: tuple[Region, ...] = ()) -> None:
        arena = Region("arena", ARENA, TlsArena.SIZE, foreign=True)
        self.lab = Lab(*routines, slots=1, extra=(arena, *extra))
        self.reset()

    def reset(self) -> None:
        """Put everything back: an arena with a name, random, session id and a share."""
        self.lab.reset()
        self.shard = self.lab.shard(0)
        self.lab.machine.write(ARENA, bytes(TlsArena.SIZE))
        self.tls.arena_ptr = ARENA
        arena = self.arena
        arena.host[: len(NAME)], arena.host_len = NAME, len(NAME)
        arena.random[:] = bytes(range(32))
        arena.session_id[:] = bytes(range(100, 132))
        arena.share_group, arena.share_len = GROUPS[0], SHARE_BYTES[GROUPS[0]]
        arena.share[:32] = bytes(range(200, 232))

    @property
    def context(self) -> Any:
        """The shard's context."""
        return self.lab.view(ShardContext, self.shard)

    @property
    def tls(self) -> Any:
        """The shard's TlsContext."""
        return self.context.tls

    @property
    def arena(self) -> Any:
        """The arena."""
        return self.lab.view(TlsArena, ARENA)

    def call(self, routine: Routine, **inputs: int) -> dict[str, int]:
        """Call a routine for the shard in lockstep; return its outputs."""
        if "shard" in routine.parameters:
            inputs.setdefault("shard", self.shard)
        return self.lab.call(routine, **inputs).outputs

    def message(self, body: bytes) -> dict[str, int]:
        """Put a message's body behind its header into the arena; return where and how long."""
        at = self.arena.offset_of("message") + 4
        self.lab.machine.write(at, body) if body else None
        return {"body": at, "length": len(body)}
