"""What must hold after every turn of a node, whatever its peers do.

The node's own rules, and those of `shard_rules` for each shard that a turn changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.simulation.node import CYCLES_PER_MS
from emulator.simulation.packet import ETHERTYPE_IPV4, PROTOCOL_TCP, RST, ip_text
from emulator.simulation.shard_row import (
    GATEWAY_AT,
    GATEWAY_BYTES,
    HEAD_BYTES,
    SESSION_AT,
    SESSION_BYTES,
    ShardRow,
    read_row,
    unpacker,
)
from emulator.simulation.shard_rules import SHARD_RULES, Turn, every_wait_is_dated, first_wait
from firmware.layouts.clock import NEVER
from firmware.layouts.fleet import FLEET, HELD_MAX, HeldPhase
from firmware.layouts.node import (
    CLOCK,
    CORE,
    LEASE,
    NETWORK,
    SLOT_ACTIVE,
    Clock,
    CoreState,
    Lease,
    Network,
    Slot,
)  # fmt: skip
from firmware.layouts.permit import PERMITS
from firmware.layouts.profile import PROFILES
from firmware.layouts.shard import ShardState

if TYPE_CHECKING:
    from emulator.simulation.node import ImageNode
    from emulator.simulation.world import Attachment
    from toolchain.layout.fields import Field

S = ShardState
_ETHERNET = 14
SPINS_MOST = 20
_SESSION_IN_ROW = HEAD_BYTES + GATEWAY_BYTES
_ROW_BYTES = _SESSION_IN_ROW + SESSION_BYTES


class InvariantError(AssertionError):
    """A rule does not hold; the text names shard, rule and values."""


_CORE = unpacker([(CoreState.now, 0), (CoreState.next_deadline, 0)])
_LEASE = unpacker([(Lease.generation, 0), (Lease.expired, 0)])
_CLOCK = unpacker([(Clock.tsc_cycles_per_ms, 0)])


_RULES = tuple(SHARD_RULES.items())


class Invariants:
    """Looks at a node after each of its turns.

    Args:
        node: the node; attach `check` to `Attachment.after_turn`.
    """

    def __init__(self, node: ImageNode) -> None:
        self.node = node
        self.turns = 0
        self.entered: dict[tuple[int, int], int] = {}
        """Times that a slot entered a state."""
        self._identified: dict[int, int] = {}
        self._spins = 0
        self._core = node.window(CORE)
        self._lease = node.window(LEASE)
        first, end = CoreState.slots.offset + Slot.flags.offset, node.facts.slots * Slot.SIZE
        self.flags = self._core[first : CoreState.slots.offset + end : Slot.SIZE]
        """Flags of each slot, live."""
        self._clock = node.window(CLOCK)
        at = Network.ip.offset
        self._address = node.window(NETWORK)[at : at + 4]
        self._parts = [
            part
            for slot in range(node.facts.slots)
            for part in (
                node.part(slot, 0, HEAD_BYTES),
                node.part(slot, GATEWAY_AT, GATEWAY_BYTES),
                node.part(slot, SESSION_AT, SESSION_BYTES),
            )
        ]
        self._raw = b"".join(self._parts)
        self.changes = 0
        """Turns that changed a row."""
        self.rows = [self._read(slot) for slot in range(node.facts.slots)]
        self._waits = [first_wait(row, 0) for row in self.rows]
        self._last = self._turn()

    def check(self, _attachment: Attachment | None = None) -> None:
        """Compare with the last turn.

        Raises:
            InvariantError: A rule does not hold.
        """
        self.turns += 1
        turn = self._turn()
        self._check_node(turn)
        raw = b"".join(self._parts)
        if raw != self._raw or turn.expired != self._last.expired:
            self._check_shards(raw, turn)
        # Nothing about the other shards changed; their deadlines still bind the node.
        if turn.deadline > min(self._waits):
            for slot in range(self.node.facts.slots):
                wrong = every_wait_is_dated(self.rows[slot], self.rows[slot], turn)
                if wrong:
                    raise InvariantError(f"slot {slot}, rule 'every wait has a deadline': {wrong}")
        self._check_pace(turn)
        self._last = turn

    def _check_shards(self, raw: bytes, turn: Turn) -> None:
        """Apply every rule to the shards that changed, or to all when the lease did."""
        before, self._raw = self._raw, raw
        self.changes += 1
        for slot in range(self.node.facts.slots):
            start = slot * _ROW_BYTES
            same = raw[start : start + _ROW_BYTES] == before[start : start + _ROW_BYTES]
            if same and turn.expired == self._last.expired:
                continue
            old = self.rows[slot]
            new = self.rows[slot] = self._read(slot)
            if new.slot != slot or not self._has_shard(slot):
                self._waits[slot] = NEVER
                continue
            self._waits[slot] = first_wait(new, turn.now)
            if new.life != old.life:
                continue  # another shard has the row; it begins anew
            for name, rule in _RULES:
                wrong = rule(old, new, turn)
                if wrong:
                    raise InvariantError(f"slot {slot}, rule {name!r}: {wrong}")
            if new.identifies != old.identifies:
                self._check_identify(new, turn)
            if new.state != old.state:
                key = slot, new.state
                self.entered[key] = self.entered.get(key, 0) + 1

    def _has_shard(self, slot: int) -> bool:
        """Say whether a row holds a shard; in a fleet they come and go."""
        return not self.node.facts.fleet or bool(self.flags[slot] & SLOT_ACTIVE)

    def states(self) -> list[ShardState]:
        """Return the state of every slot after the last turn."""
        used = _number(self._core, CoreState.slots_used)
        return [S(row.state) for row in self.rows[:used]]

    def _check_node(self, turn: Turn) -> None:
        last = self._last
        if _number(self._core, CoreState.current_shard):
            raise InvariantError("node code runs, but a shard is marked as running")
        if turn.generation < last.generation:
            raise InvariantError("the lease generation went back")
        if last.expired and not turn.expired and turn.generation == last.generation:
            raise InvariantError("an expired lease came back without a grant")
        if turn.expired and turn.tcp_frames and not self._has_given_back():
            raise InvariantError(
                f"{turn.tcp_frames} TCP frames left in a turn that ended with an expired lease"
            )
        for frame in self.node.turn_frames:
            if frame[6:12] != self.node.facts.mac:
                raise InvariantError(f"a frame with a foreign source address: {frame[:14].hex()}")
            if _is_tcp(frame) and frame[26:30] != self._address:
                raise InvariantError(
                    f"a TCP frame from {ip_text(frame[26:30])}, but the node is "
                    f"{ip_text(bytes(self._address))}"
                )

    def _has_given_back(self) -> bool:
        """Say whether the last slot was given back in this turn, which sent nothing but resets for shards.

        A segment of a connection that is gone is reset by the node, for no shard.
        """
        node = self.node
        if self._last.expired or not node.facts.fleet:
            return False
        phases = {node.g(FLEET).held[n].phase for n in range(HELD_MAX)} - {HeldPhase.NONE}
        resets = all(_is_reset(f) for f in node.turn_frames if self._is_of_shard(f))
        return phases == {HeldPhase.RELEASING} and resets

    def _is_of_shard(self, frame: bytes) -> bool:
        return _is_tcp(frame) and _port(frame) != self.node.facts.link_port

    def _check_pace(self, turn: Turn) -> None:
        """A node that asks for a turn at once, again and again, does nothing in between: it spins."""
        busy = turn.deadline > turn.now or self.node.turn_frames or self.node.turn_received
        self._spins = 0 if busy else self._spins + 1
        if self._spins > SPINS_MOST:
            raise InvariantError(
                f"{self._spins} turns in a row that did nothing and asked for the next at once"
            )

    def _check_identify(self, row: ShardRow, turn: Turn) -> None:
        """One key sends one Identify in the time that its profile says (I6; decision 20)."""
        # Discovery may have told another number of keys than is configured.
        key = row.shard_id % self.node.g(PERMITS).max_concurrency
        last = self._identified.get(key)
        self._identified[key] = turn.now
        spacing_ms = PROFILES[row.profile].identify_spacing_ms
        if last is not None and turn.now - last < spacing_ms * CYCLES_PER_MS:
            raise InvariantError(
                f"slot {row.slot}, rule 'identify spacing': key {key} identified again after "
                f"{(turn.now - last) / CYCLES_PER_MS:g} ms"
            )

    def _turn(self) -> Turn:
        node = self.node
        frames = sum(map(self._is_of_shard, node.turn_frames))
        now, deadline = _CORE.unpack_from(self._core)
        generation, expired = _LEASE.unpack_from(self._lease)
        (cycles,) = _CLOCK.unpack_from(self._clock)
        if not node.turns:
            deadline = NEVER
        return Turn(now, deadline, expired, generation, frames, calibrated=cycles != 0)

    def _read(self, slot: int) -> ShardRow:
        raw = self._raw[slot * _ROW_BYTES : (slot + 1) * _ROW_BYTES]
        return read_row(raw[:HEAD_BYTES], raw[HEAD_BYTES:_SESSION_IN_ROW], raw[_SESSION_IN_ROW:])


def _is_tcp(frame: bytes) -> bool:
    ethertype = int.from_bytes(frame[12:14], "big")
    return ethertype == ETHERTYPE_IPV4 and frame[_ETHERNET + 9] == PROTOCOL_TCP


def _is_reset(frame: bytes) -> bool:
    return bool(frame[_ETHERNET + 33] & RST)


def _port(frame: bytes) -> int:
    """Return the destination port of a TCP frame; the node's own have no IP options."""
    return int.from_bytes(frame[_ETHERNET + 22 : _ETHERNET + 24], "big")


def _number(window: memoryview, field: Field) -> int:
    return int.from_bytes(window[field.offset : field.offset + field.size], "little")
