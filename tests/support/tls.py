"""A bench for TLS routines: a shard with an arena, in lockstep."""

from __future__ import annotations

import hmac
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from emulator.compare import value_of
from emulator.environment import Environment
from emulator.lockstep import registers_of
from emulator.memory import Region
from emulator.stream import receive, take_sent
from firmware.errors import describe
from firmware.layouts.node import CLOCK
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import Suite, TlsFlag, TlsKeys, TlsState
from firmware.layouts.tls_arena import GROUPS, SHARE_BYTES, TlsArena
from firmware.layouts.tls_pool import TLS_POOL
from firmware.layouts.variants import Variant
from firmware.tls.pool import tls_arena_give
from firmware.tls.protect import tls_take_secret
from tests.support.chains import store_of
from tests.support.lab import Lab
from tests.support.variants import choose

if TYPE_CHECKING:
    from toolchain.asm import Routine

ARENA, STORE = 0x6B00_0000, 0x6B10_0000
"""Where the arena of shard 0 and the anchors lie; nothing is mapped around them."""
STORE_BYTES = 0x1_0000
DATE = int(datetime(2026, 6, 1, tzinfo=UTC).timestamp())
"""When the tests take place."""
NAME = b"gateway.example"


class TlsBench:
    """One lab for a test file, with one shard in a handshake. `reset` before each test.

    Args:
        routines: What to link.
        extra: Further memory.
        judged: Let the models judge every call; without them millions of instructions take no time.
        semantics: As for `Lab`.
    """

    def __init__(
        self,
        *routines: Routine,
        extra: tuple[Region, ...] = (),
        judged: bool = True,
        semantics: bool | None = None,
    ) -> None:
        regions = (
            Region("arena", ARENA, TlsArena.SIZE, foreign=True),
            Region("store", STORE, STORE_BYTES, foreign=True),
            *extra,
        )
        self.lab = Lab(
            *routines, tls_take_secret, tls_arena_give, slots=1, semantics=semantics, extra=regions
        )
        self._keys: dict[Suite, bytes] = {}
        self.judged = judged
        self.reset()

    def reset(self) -> None:
        """Put everything back: an arena with a name, random, session id and a share."""
        self.lab.reset()
        self.shard = self.lab.shard(0)
        self.lab.machine.write(ARENA, bytes(TlsArena.SIZE))
        self.tls.arena_ptr = ARENA
        choose(self.lab, Variant.FAST)
        pool = self.lab.g(TLS_POOL)
        pool.trust = STORE
        pool.slots[0].address, pool.slots[0].owner = ARENA, self.shard
        self.lab.g(CLOCK).unix_time = DATE
        arena = self.arena
        arena.host[: len(NAME)], arena.host_len = NAME, len(NAME)
        arena.random[:] = bytes(range(32))
        arena.session_id[:] = bytes(range(100, 132))
        arena.share_group, arena.share_len = GROUPS[0], SHARE_BYTES[GROUPS[0]]
        arena.share[:32] = bytes(range(200, 232))
        self.tls.deadline = 1 << 63  # `tls_prepare` set it before the SYN

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
        return (
            self.lab.call(routine, **inputs).outputs if self.judged else self.run(routine, inputs)
        )

    def run(self, routine: Routine, inputs: dict[str, int]) -> dict[str, int]:
        """Call a routine without its model, for what takes millions of instructions."""
        machine = self.lab.machine
        machine.environment = Environment()
        start = machine.image.address(routine)
        machine.prepare_call(start, registers_of(machine, routine, inputs))
        machine.run(start)
        registers, vectors = machine.snapshot.take(), machine.snapshot.vectors()
        return {o.reg.name: value_of(o.reg, registers, vectors) for o in routine.contract.outputs}

    def trust(self, *roots: bytes, pins: tuple[bytes, ...] = ()) -> None:
        """Let chains end at these certificates alone, by way of a pinned key if there are any."""
        self.lab.machine.write(STORE, store_of(*roots, pins=pins))

    def message(self, body: bytes) -> dict[str, int]:
        """Put a message's body behind its header into the arena; return where and how long."""
        at = self.arena.offset_of("message") + 4
        self.lab.machine.write(at, body) if body else None
        return {"body": at, "length": len(body)}

    # -- records ----------------------------------------------------------------------------------
    def keyed(self, suite: Suite = Suite.AES_128_GCM_SHA256) -> tuple[Peer, Peer]:
        """Give both directions keys; return a peer that seals to us, and one that opens ours."""
        context, size = self.context, 48 if suite == Suite.AES_256_GCM_SHA384 else 32
        self.tls.suite = suite
        self.tls.flags |= TlsFlag.OPENING | TlsFlag.SEALING | TlsFlag.CCS_SENT
        secrets = [bytes(range(first, first + size)) for first in (1, 101)]
        keys = context.tls_keys
        if suite not in self._keys:
            for direction, secret in zip((keys.receive, keys.send), secrets, strict=True):
                at = self.lab.put(secret.ljust(48, b"\0"), first=True)
                self.call(tls_take_secret, direction=direction.address_, secret=at)
            self._keys[suite] = self.lab.machine.read(keys.address_, TlsKeys.SIZE)
        self.lab.machine.write(keys.address_, self._keys[suite])
        return Peer(suite, secrets[0]), Peer(suite, secrets[1])

    def receive(self, data: bytes, *, head: int | None = None) -> None:
        """Let TCP have received bytes in order, behind what it has already."""
        context = self.context
        if head is not None:
            context.tcp.ring_head, context.tcp.ring_ready = head, 0
        receive(self.lab.machine, context, data)

    def sent(self) -> bytes:
        """Return what lies in the transmit buffer, and empty it."""
        return take_sent(self.lab.machine, self.context)

    def failure(self) -> tuple[str, TlsState]:
        """Return why the connection failed, and the state."""
        context = self.context
        assert context.last_error == context.tls.error
        return describe(context.tls.error), context.tls.state


class Peer:
    """One direction at the other end: seals or opens records with `cryptography`."""

    def __init__(self, suite: Suite, secret: bytes) -> None:
        self.suite, self.secret, self.sequence = suite, secret, 0
        self._rekey()

    def _label(self, label: bytes, size: int) -> bytes:
        name = "sha384" if self.suite == Suite.AES_256_GCM_SHA384 else "sha256"
        full = b"tls13 " + label
        info = size.to_bytes(2, "big") + bytes([len(full)]) + full + b"\0"
        return hmac.digest(self.secret, info + b"\x01", name)[:size]

    def _rekey(self) -> None:
        self.sequence = 0
        self._iv = int.from_bytes(self._label(b"iv", 12), "big")
        key = self._label(b"key", 16 if self.suite == Suite.AES_128_GCM_SHA256 else 32)
        chacha = self.suite == Suite.CHACHA20_POLY1305_SHA256
        self._aead = ChaCha20Poly1305(key) if chacha else AESGCM(key)

    def update(self) -> None:
        """Go on to the next traffic secret."""
        self.secret = self._label(b"traffic upd", len(self.secret))
        self._rekey()

    def _nonce(self) -> bytes:
        self.sequence += 1
        return (self._iv ^ (self.sequence - 1)).to_bytes(12, "big")

    def seal(self, content: bytes, kind: int = 23, padding: int = 0) -> bytes:
        """Return a record."""
        inner = content + bytes([kind]) + bytes(padding)
        return self.raw(inner)

    def raw(self, inner: bytes) -> bytes:
        """Return a record with any inner text."""
        header = b"\x17\x03\x03" + (len(inner) + 16).to_bytes(2, "big")
        return header + self._aead.encrypt(self._nonce(), inner, header)

    def open(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return the types and contents of whole records."""
        found = []
        while data:
            size = 5 + int.from_bytes(data[3:5], "big")
            assert data[:3] == b"\x17\x03\x03"
            inner = self._aead.decrypt(self._nonce(), data[5:size], data[:5])
            found.append((inner[-1], inner[:-1]))
            data = data[size:]
        return found
