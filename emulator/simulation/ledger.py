"""What the gateway sent and heard, against what the node handed on and meant to say.

Neither side is believed alone. The gateway's record is taken behind wsproto, where messages go into
TCP; the node's is taken at the entry of the routine that takes a dispatch, before it looks at it.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import unicorn as uc
import unicorn.x86_const as ux

from firmware.layouts.gateway import GatewayContext
from firmware.layouts.json import JsonField, JsonParser
from firmware.layouts.policy import OnLimit, Policy
from firmware.layouts.profile import ProfileId
from firmware.layouts.shard import End, Phase, ShardContext, ShardFlag, ShardState, Stop
from firmware.limits import WORKSPACE_BASE, WORKSPACE_STRIDE

if TYPE_CHECKING:
    from emulator.simulation.peers.gateway import GatewayCore
    from emulator.simulation.peers.websocket import WebSocketPeer
    from emulator.simulation.rig import Rig
    from emulator.simulation.shard_row import ShardRow
    from emulator.simulation.world import Attachment

    Key = tuple[bytes, int, bytes]

NO_CODE = 1005
_DISPATCH_ENTRY = "gateway_op_dispatch"
_PARSER = ShardContext.gateway.offset + GatewayContext.parser.offset
_S_AT = JsonParser.values.offset + 4 * JsonField.S
_T_AT = JsonParser.values.offset + 4 * JsonField.T


class LedgerError(AssertionError):
    """Gateway and node do not tell the same; the text says which rule and both sides."""


@dataclass(frozen=True, slots=True)
class CloseCodes:
    """What a service's documentation says about its close codes.

    Attributes:
        fatal: a retry cannot help.
        fresh: reconnect, but with a new session.
        fresh_in_replay: the same, when they answer a Resume; otherwise the session stays.
        own_fault: they accuse the client of a fault: three of them in a row may end a shard.
    """

    fatal: frozenset[int]
    fresh: frozenset[int] = frozenset()
    fresh_in_replay: frozenset[int] = frozenset()
    own_fault: frozenset[int] = frozenset()


CLOSE_CODES = {
    ProfileId.DISCORD: CloseCodes(
        fatal=frozenset((4004, 4010, 4011, 4012, 4013, 4014)),
        fresh=frozenset((4003, 4007, 4009)),
        own_fault=frozenset((4001, 4002, 4003, 4005)),
    ),
    ProfileId.FLUXER: CloseCodes(
        fatal=frozenset((4001, 4002, 4003, 4004, 4005, 4010, 4011, 4012, 4013, 4014)),
        fresh_in_replay=frozenset((4007,)),
    ),
}
RECOVERING = ShardFlag.ESTABLISHED | ShardFlag.STARTUP_OVER
"""With one of them a shard's first READY, or the start of the group, is behind it."""


@dataclass(slots=True)
class Record:
    """One connection at the gateway.

    Attributes:
        local: the gateway's address.
        sent: sequence and name of each dispatch that went into it, in order.
        taken: how many of them the node handed on.
        session: the session that it carries; "" before READY or a Resume.
        closed: close code that the gateway sent; 0 = none.
        beats: for each heartbeat that the node wrote, the sequence before and after its turn.
    """

    local: bytes
    sent: list[tuple[int, str]] = field(default_factory=list)
    taken: int = 0
    session: str = ""
    closed: int = 0
    beats: deque[tuple[int | None, int | None]] = field(default_factory=deque)


class Ledger:
    """Compares both records as they grow.

    Args:
        rig: whose node and gateways are compared; before it runs.
        base: address that may hear an Identify.
    """

    def __init__(self, rig: Rig, base: bytes) -> None:
        self._rig = rig
        self._base = base
        self.records: dict[Key, Record] = {}
        self._address = bytes(4)
        self.known: list[int | None] = []
        self._session: list[str] = []
        self.handed_on = 0
        self.fatal: set[int] = set()
        """Slots that gave up for a reason that is good."""
        self._codes = CLOSE_CODES[rig.facts.profile]
        self._core: GatewayCore = rig.gateway.shared
        self._core.on_open = self._opened
        self._core.on_send = self._sent
        self._core.on_message = self._heard
        self._core.on_close = self._closed
        rig.after_turn.append(self._after_turn)
        self._node = rig.node
        self._watch()

    # -- the gateway ------------------------------------------------------------------------------
    @staticmethod
    def _key(peer: WebSocketPeer) -> Key:
        return (peer.tcp.remote[0], peer.tcp.remote[1], peer.tcp.local[0])

    def _opened(self, peer: WebSocketPeer) -> None:
        self.records[self._key(peer)] = Record(peer.tcp.local[0])

    def _sent(self, peer: WebSocketPeer, text: str) -> None:
        message = json.loads(text)
        if message["op"] != 0:
            return
        record = self.records[self._key(peer)]
        record.sent.append((message["s"], message["t"]))
        if message["t"] == "READY":
            record.session = message["d"]["session_id"]

    def _closed(self, peer: WebSocketPeer, code: int) -> None:
        self.records[self._key(peer)].closed = code

    def _heard(self, peer: WebSocketPeer, data: str | bytes) -> None:
        message = json.loads(data)
        record = self.records[self._key(peer)]
        if message["op"] == 1:
            self._heard_beat(record, message["d"])
        elif message["op"] == 2 and record.local != self._base:
            raise LedgerError("rule 'identify at the base host': a resume host heard an Identify")
        elif message["op"] == 6:
            self._heard_resume(record, message["d"])

    def _heard_beat(self, record: Record, sequence: int | None) -> None:
        if not record.beats:
            raise LedgerError(f"rule 'heartbeats': {sequence} came, and the node wrote none")
        before, after = record.beats.popleft()
        low, high = -1 if before is None else before, -1 if after is None else after
        if not low <= (-1 if sequence is None else sequence) <= high:
            raise LedgerError(
                f"rule 'heartbeats': one says {sequence}, but the node had handed on {before} "
                f"before its turn and {after} after it"
            )

    def _heard_resume(self, record: Record, body: dict[str, object]) -> None:
        record.session = str(body["session_id"])
        slots = [slot for slot, name in enumerate(self._session) if name == record.session]
        if not slots:
            raise LedgerError(f"rule 'resume': nobody has the session {record.session}")
        if body["seq"] != self.known[slots[0]]:
            raise LedgerError(
                f"slot {slots[0]}, rule 'resume': from {body['seq']}, "
                f"but {self.known[slots[0]]} was handed on last"
            )

    # -- the node ---------------------------------------------------------------------------------
    def _watch(self) -> None:
        """Look at the node of the moment; it knows what its memory kept, after power came nothing."""
        node = self._node
        known, names = self.known, self._session
        self.known = [None] * node.facts.shards
        self._session = [""] * node.facts.shards
        for slot, row in enumerate(self._rig.invariants.rows):
            if row.resumable:
                self._judge_kept(slot, row, known[slot], names[slot])
                self.known[slot], self._session[slot] = row.sequence, names[slot]
        self._beats = [0] * node.facts.shards
        self._before: list[int | None] = list(self.known)
        self._rows: list[ShardRow] = list(self._rig.invariants.rows)
        self.fatal.clear()
        address = node.image.address(_DISPATCH_ENTRY)
        node.machine.hook(uc.UC_HOOK_CODE, self._handed_on, address, address)

    @staticmethod
    def _judge_kept(slot: int, row: ShardRow, known: int | None, name: str) -> None:
        """A session over a reset is the last one, from nothing that was not handed on."""
        where = f"slot {slot}, rule 'sessions over a reset'"
        if not name or name.encode()[: row.session_id_len] != row.session_id[: len(name)]:
            raise LedgerError(f"{where}: {row.session_id!r} is kept, but {name!r} was the last")
        if known is None or row.sequence > known:
            raise LedgerError(f"{where}: {row.sequence} is kept, but {known} was handed on last")

    def _own_ip(self) -> bytes:
        """Return the node's address, or its last one: a lease may end in the turn that is judged."""
        address = self._node.own_ip()
        if any(address):
            self._address = address
        return self._address

    def _key_of(self, row: ShardRow) -> Key:
        return (self._own_ip(), row.tcp_local_port, row.tcp_remote_ip.to_bytes(4, "little"))

    def _handed_on(self, engine: uc.Uc, _address: int, _size: int, _data: object) -> None:
        node = self._node
        shard = engine.reg_read(ux.UC_X86_REG_RBX)
        slot = (shard - WORKSPACE_BASE) // WORKSPACE_STRIDE
        parser = shard + _PARSER
        read = node.machine.read
        sequence = int.from_bytes(read(parser + _S_AT, 4), "little")
        length = int.from_bytes(read(parser + _T_AT, 4), "little")
        kept = min(length, JsonParser.t.size)
        name = read(parser + JsonParser.t.offset, kept)
        view = node.shard(slot).tcp
        key = (self._own_ip(), view.local_port, int(view.remote_ip).to_bytes(4, "little"))
        record = self.records.get(key)
        where = f"slot {slot}, rule 'order of dispatches': {name.decode()} with s={sequence}"
        if record is None or record.taken == len(record.sent):
            raise LedgerError(f"{where} was handed on, but the gateway sent nothing more")
        expected, event = record.sent[record.taken]
        if (sequence, name) != (expected, event.encode()[:kept]):
            raise LedgerError(f"{where} was handed on; next is {event} with s={expected}")
        record.taken += 1
        self.handed_on += 1
        self._session[slot] = record.session
        self.known[slot] = sequence if event == "READY" else max(sequence, self.known[slot] or 0)

    def _after_turn(self, _attachment: Attachment) -> None:
        rig = self._rig
        if rig.node is not self._node:
            self._node = rig.node
            self._watch()
            return
        rows, before = rig.invariants.rows, self._rows
        for slot, new in enumerate(rows):
            old = before[slot]
            if new is old:
                continue
            self._judge_interval(slot, new)
            if new.identifies != old.identifies:
                self.known[slot] = None
            self._take_beats(slot, old, new)
            lost = old.state in (ShardState.STARTING, ShardState.READY)
            if lost and new.state in (ShardState.BACKOFF, ShardState.FATAL):
                self._judge_end(slot, old, new)
        self._rows = list(rows)
        self._before = list(self.known)

    def _judge_interval(self, slot: int, new: ShardRow) -> None:
        said = self._core.core.options.heartbeat_interval_ms
        if new.gateway_heartbeat_interval_ms not in (0, said):
            raise LedgerError(
                f"slot {slot}, rule 'heartbeats': one in {new.gateway_heartbeat_interval_ms} ms, "
                f"but Hello said {said}"
            )

    def _take_beats(self, slot: int, old: ShardRow, new: ShardRow) -> None:
        grown = new.gateway_beats - old.gateway_beats
        if grown > 0:
            record = self.records.get(self._key_of(new))
            if record is None:
                raise LedgerError(f"slot {slot}, rule 'heartbeats': one without a connection")
            record.beats.extend([(self._before[slot], self.known[slot])] * grown)

    def _judge_end(self, slot: int, old: ShardRow, new: ShardRow) -> None:
        """The close code is the gateway's, and does what the documentation says; nobody is accused."""
        where = f"slot {slot}, rule 'end of a connection'"
        if new.evidence_end == End.PROTOCOL:
            raise LedgerError(f"{where}: protocol failure {new.evidence_error:#x} of a right peer")
        code = new.evidence_close_code if new.evidence_end == End.CLOSED else 0
        record = self.records.get(self._key_of(old))
        sent = 0 if record is None else record.closed or NO_CODE
        if code not in (0, sent):
            raise LedgerError(f"{where}: close code {code}, but the gateway sent {sent}")
        if new.state == ShardState.FATAL:
            self._judge_stop(where, code, old, new)
            self.fatal.add(slot)
        elif code:
            self._judge_code(where, code, old, new)

    def _judge_code(self, where: str, code: int, old: ShardRow, new: ShardRow) -> None:
        """What a code leaves of the session when the shard goes on."""
        codes = self._codes
        if code in codes.fatal:
            raise LedgerError(f"{where}: {code} led to {ShardState(new.state).name}")
        fresh = code in codes.fresh
        if code in codes.fresh_in_replay:
            fresh = old.phase == Phase.REPLAY
        if fresh and new.resumable:
            raise LedgerError(f"{where}: {code} ends the session, but it is kept")
        if not fresh and old.resumable and not new.resumable:
            raise LedgerError(f"{where}: {code} keeps the session, but it is dropped")

    def _judge_stop(self, where: str, code: int, old: ShardRow, new: ShardRow) -> None:
        """A shard gives up for a code that asks for it, or where the configuration says so."""
        facts, stop = self._node.facts, Stop(new.evidence_stop)
        match stop:
            case Stop.REFUSED | Stop.AUTH | Stop.CONFIG | Stop.RESHARD:
                good = code in self._codes.fatal
            case Stop.PROTOCOL_LIMIT:
                good = code in self._codes.own_fault
            case Stop.STARTUP_ATTEMPTS | Stop.STARTUP_DEADLINE:
                good = facts.on_limit == OnLimit.FATAL and not old.flags & RECOVERING
            case Stop.SCHEDULE_ENDED:
                good = facts.policy == Policy.SCHEDULE and new.reconnects >= len(facts.schedule_ms)
            case _:
                good = False
        if not good:
            raise LedgerError(f"{where}: close code {code} led to FATAL with stop {stop.name}")
