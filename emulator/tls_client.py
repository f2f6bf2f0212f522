"""A TLS client that is the node's own: linked routines in a machine, over somebody else's stream."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

import unicorn.x86_const as ux

from emulator.environment import Environment
from emulator.live import LiveWorld
from emulator.machine import Machine
from emulator.memory import Region
from emulator.registers import GPR
from emulator.stream import receive, take_sent
from emulator.workspace import SECTIONS, workspace_regions
from firmware import limits
from firmware.layouts.config import CONFIG
from firmware.layouts.crypto import DRBG
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import TcpState
from firmware.layouts.tls import RECORD_COST, TlsFlag, TlsState
from firmware.layouts.tls_arena import TlsArena
from firmware.layouts.tls_pool import TLS_POOL
from firmware.layouts.variants import VARIANTS, Variant
from firmware.tls.prepare import tls_prepare
from firmware.tls.stream import tls_ended
from firmware.tls.transport import (
    tls_close,
    tls_commit,
    tls_consume,
    tls_readable,
    tls_ready,
    tls_reserve,
)
from toolchain.link import Linker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toolchain.asm import Routine
    from toolchain.link import Image

WRITE_MAX = limits.TX_BYTES // 2 - RECORD_COST
"""Bytes of one record of ours: two find room in the transmit buffer."""
CYCLES_PER_MS = 1_000_000
"""One cycle is one nanosecond."""
_ROUTINES = (
    tls_close, tls_commit, tls_consume, tls_ended, tls_prepare, tls_readable, tls_ready, tls_reserve,
)  # fmt: skip
_CF = 1


@functools.cache
def _image() -> Image:
    return Linker(_ROUTINES, SECTIONS, keep=(CORE, CLOCK, CONFIG, DRBG, TLS_POOL, VARIANTS)).link()


def _entropy() -> Iterator[tuple[bool, int]]:
    while True:
        yield True, int.from_bytes(os.urandom(8), "little")


class TlsClient:
    """One connection.

    Args:
        host: Whom the server has to be: SNI, and the name in its certificate.
        store: The trust store, where chains have to end.
        date: When it is, in Unix seconds.
        now_ns: Tells the time for the handshake's deadline.
        named: Send the name to the server; it is not for one that is reached by address.

    Attributes:
        shard: The live context of the connection.
    """

    def __init__(
        self,
        host: bytes,
        store: bytes,
        date: int,
        now_ns: Callable[[], int],
        *,
        named: bool = True,
    ) -> None:
        self._now_ns = now_ns
        regions = (
            *workspace_regions(0),
            Region("arena0", limits.WINDOW_ARENAS, TlsArena.SIZE),
        )
        machine = self.machine = Machine(_image(), regions)
        machine.environment = Environment(random=_entropy(), recording=False)
        machine.hook_special()
        machine.engine.reg_write(ux.UC_X86_REG_GS_BASE, machine.image.address(CORE))
        for region in regions:
            region.buffer[:] = bytes(region.size)
        anchors, name = machine.alloc(len(store)), machine.alloc(len(host))
        machine.write(anchors, store)
        machine.write(name, host)

        self._live = LiveWorld(machine)
        base = limits.WORKSPACE_BASE
        self.shard = self._live.view(ShardContext, base + limits.WORKSPACE_STATE)
        self.shard.tx_base = base + limits.WORKSPACE_TX
        self.shard.ring_base = base + limits.WORKSPACE_RING
        self.shard.tcp.state = TcpState.ESTABLISHED
        config, clock = self._live.g(CONFIG), self._live.g(CLOCK)
        config.gateway_secure, config.build_time = 1, date
        clock.unix_time, clock.tsc_cycles_per_ms, clock.unix_tsc = date, CYCLES_PER_MS, now_ns()
        pool = self._live.g(TLS_POOL)
        pool.trust, pool.slots[0].address = anchors, limits.WINDOW_ARENAS
        chosen = self._live.g(VARIANTS)
        chosen.usable = 1
        chosen.aes_gcm = chosen.x25519 = chosen.p256 = chosen.signatures = Variant.FAST
        drbg = self._live.g(DRBG)
        drbg.key[:], drbg.seeded = os.urandom(32), 1
        self._call(tls_prepare, rsi=name, rcx=len(host))
        if not named:
            self._live.view(TlsArena, limits.WINDOW_ARENAS).is_address = 1

    @property
    def state(self) -> TlsState:
        """Where the connection is."""
        return TlsState(self.shard.tls.state)

    @property
    def error(self) -> int:
        """Why it was given up, as `firmware.errors.describe` takes it."""
        return int(self.shard.tls.error)

    @property
    def greeted(self) -> bool:
        """Whether the server's hello has come."""
        return bool(self.shard.tls.suite)

    @property
    def busy(self) -> bool:
        """Whether a chain is judged: the next call of `ready` needs nothing of the server."""
        arena = self.shard.tls.arena_ptr
        return bool(arena and self._live.view(TlsArena, arena).paused_record)

    @property
    def room(self) -> int:
        """Bytes that TCP's window would let the server send now."""
        return limits.RING_BYTES - int(self.shard.tcp.ring_ready)

    def receive(self, data: bytes) -> None:
        """Let bytes of the server arrive, at most `room`."""
        receive(self.machine, self.shard, data)

    def end(self) -> None:
        """Let the server's FIN arrive."""
        self.shard.tcp.state = TcpState.CLOSE_WAIT

    def sent(self) -> bytes:
        """Return what goes to the server."""
        return take_sent(self.machine, self.shard)

    def ready(self) -> bool:
        """Go on with the handshake; tell whether it is over and good.

        A chain is judged by one signature in a call, as in a turn of a node.
        """
        return not self._call(tls_ready)["flags"] & _CF

    def read(self, most: int) -> bytes:
        """Return plaintext that has come, at most so many bytes; nothing when there is none now."""
        got = self._call(tls_readable)
        size = min(got["rcx"] & 0xFFFF_FFFF, most)
        text = self.machine.read(got["rsi"], size) if size else b""
        if size:
            self._call(tls_consume, rcx=size)
        return text

    def write(self, data: bytes) -> bool:
        """Put at most WRITE_MAX bytes into a record; False when there is no room, or no connection."""
        got = self._call(tls_reserve, rcx=len(data))
        if got["flags"] & _CF:
            return False
        self.machine.write(got["rdi"], data)
        self._call(tls_commit, rcx=len(data))
        return True

    def ended(self) -> bool:
        """Tell whether the server has ended its stream in order; a FIN alone fails the connection."""
        return not self._call(tls_ended)["flags"] & _CF

    def update_keys(self) -> None:
        """Write with new keys from the next record on, as when the server asks for it."""
        self.shard.tls.flags |= TlsFlag.KEY_UPDATE_OWED

    def close(self) -> None:
        """Say close_notify."""
        self._call(tls_close)

    def _call(self, routine: Routine, **registers: int) -> dict[str, Any]:
        self._live.g(CORE).now = self._now_ns()
        everything = dict.fromkeys(GPR, 0) | registers | {"rbx": self.shard.address_}
        return self.machine.call(routine.name, everything)
