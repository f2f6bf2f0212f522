"""One shard in trouble and siblings that must not notice, seen by the gateway and by the node's log.

A case acts on shard 0 (TARGET), lets time pass, and asserts on what the peer saw (`Talk`), on the
record of the failure (`Record`) and on the siblings (`unnoticed`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from firmware.layouts.profile import PROFILES, ProfileId
from firmware.layouts.shard import ShardState
from pxe.gateway.script import Step

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.simulation.peers.websocket import WebSocketPeer
    from emulator.simulation.rig import Rig
    from pxe.gateway import Gateway

TARGET = 0
RECORDS = ("lifecycle.retry", "lifecycle.connectionLost", "lifecycle.connectionEnded")
RESUME_HOST, RESUME_ADDRESS = "resume.gateway.test", "203.0.113.9"
HELD = ("nothing", True)


def path_of(profile: ProfileId) -> str:
    """Return the path and query that a service wants."""
    return f"/?v={PROFILES[profile].version}&encoding=json"


@dataclass
class Talk:
    """One connection, as the gateway saw it.

    Attributes:
        slot: whose it was.
        host: the Host header.
        target: path and query.
        opened_s: when the upgrade was answered.
        frames: time, opcode and whole message of everything that the node sent.
    """

    peer: WebSocketPeer
    slot: int
    host: str
    target: str
    opened_s: float
    frames: list[tuple[float, int, dict[str, Any]]] = field(default_factory=list)

    @property
    def closed(self) -> int | None:
        """The node's close code, or None without a close frame."""
        return self.peer.close_code

    @property
    def handshakes(self) -> list[int]:
        """The Identifies and Resumes among the opcodes, in order."""
        return [op for _at, op, _message in self.frames if op in (2, 6)]

    @property
    def beats(self) -> list[tuple[float, Any]]:
        """Time and `d` of every heartbeat; one that lacks `d` is a KeyError."""
        return [(at, message["d"]) for at, op, message in self.frames if op == 1]

    @property
    def body(self) -> dict[str, Any]:
        """`d` of the first Identify or Resume."""
        return next(message["d"] for _at, op, message in self.frames if op in (2, 6))

    def at(self, op: int) -> float:
        """Return when the first message of an opcode came."""
        return next(at for at, each, _message in self.frames if each == op)


@dataclass(frozen=True)
class Record:
    """A failure as the node's log tells it."""

    at_ms: int
    code: str
    reason: str
    close: int
    classification: str
    next: str
    delay_ms: int
    stop: str
    stage: str

    @classmethod
    def of(cls, line: dict[str, str]) -> Record:
        """Read a line of the log."""
        return cls(
            int(line["t"]), line["code"], line["reason"], int(line["closeCode"]),
            line["classification"], line.get("next", ""), int(line.get("delayMs", 0)),
            line.get("stop", ""), line["stage"],
        )  # fmt: skip


class Case:
    """A node of a few shards on a gateway of its profile."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.profile = rig.facts.profile
        self.discord = self.profile == ProfileId.DISCORD
        self.opened: list[Talk] = []
        shared = rig.gateway.shared
        shared.on_open, shared.on_message = self._open, self._message
        self._heard: dict[WebSocketPeer, Talk] = {}

    def _open(self, peer: WebSocketPeer) -> None:
        port = peer.tcp.remote[1]
        shards = range(self.rig.facts.shards)
        slot = next(n for n in shards if self.rig.node.shard(n).tcp.local_port == port)
        upgrade = peer.upgrade
        assert upgrade is not None
        talk = Talk(peer, slot, upgrade.host, upgrade.target, self.now)
        self.opened.append(talk)
        self._heard[peer] = talk

    def _message(self, peer: WebSocketPeer, data: str | bytes) -> None:
        message = json.loads(data)
        self._heard[peer].frames.append((self.now, message["op"], message))

    # -- what is done -----------------------------------------------------------------------------
    @property
    def core(self) -> Gateway:
        """The gateway; call `act` instead where it has to say something."""
        return self.rig.gateway.core

    @property
    def now(self) -> float:
        """Virtual time in seconds."""
        return self.rig.now_s()

    def act(self, command: Callable[[Gateway], object]) -> None:
        """Let the gateway do something now."""
        command(self.core)
        self.rig.gateway.flush()

    def script(self, on: str, do: str, *, instead: bool = True, **options: Any) -> None:
        """Add a step; by default it stands instead of what the gateway would do."""
        self.core.add_steps(Step(on=on, do=do, instead=instead, **options))

    def say(self, text: str | dict[str, Any], talk: Talk | None = None) -> None:
        """Send the target a text message, on its newest connection unless another is named."""
        whole = text if isinstance(text, str) else json.dumps(text)
        (talk or self.talk).peer.send(whole)

    def dispatch(self, sequence: int | None, event: str = "X", data: object = None) -> None:
        """Send the target a dispatch with a sequence that the gateway has not given."""
        self.say({"op": 0, "s": sequence, "t": event, "d": data})

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.rig.run(seconds)

    def until(self, condition: Callable[[], object], within_s: float = 60) -> None:
        """Let time pass until something holds."""
        self.rig.world.run_until(lambda: bool(condition()), within_ns=round(within_s * 1e9))

    def until_records(self, count: int, within_s: float = 60) -> None:
        """Let time pass until the target has failed so often in all."""
        self.until(lambda: len(self.records()) >= count, within_s)

    def until_ready(self, within_s: float = 60) -> None:
        """Let time pass until every shard is READY."""
        self.rig.until_ready(within_s)

    def healed(self, within_s: float = 60) -> None:
        """Let time pass until the target, which must have failed, is READY again."""
        self.until(lambda: self.records() and self.row.state == ShardState.READY, within_s)

    # -- what is seen -----------------------------------------------------------------------------
    @property
    def row(self) -> Any:
        """The target's fields after the last turn."""
        return self.rig.invariants.rows[TARGET]

    @property
    def view(self) -> Any:
        """The target's memory."""
        return self.rig.node.shard(TARGET)

    @property
    def talks(self) -> list[Talk]:
        """The target's connections in order."""
        return [talk for talk in self.opened if talk.slot == TARGET]

    @property
    def talk(self) -> Talk:
        """The target's newest connection."""
        return self.talks[-1]

    @property
    def handshakes(self) -> list[list[int]]:
        """For each connection of the target the handshakes that it carried."""
        return [talk.handshakes for talk in self.talks]

    def lines(self, code: str, slot: int = TARGET) -> list[dict[str, str]]:
        """Return a shard's log lines of one code."""
        mine = str(self.rig.facts.start + slot)
        return [x for x in self.rig.node.log if x["code"] == code and x.get("shard") == mine]

    def records(self, slot: int = TARGET) -> list[Record]:
        """Return a shard's failures in order."""
        mine = str(self.rig.facts.start + slot)
        log = self.rig.node.log
        return [Record.of(x) for x in log if x["code"] in RECORDS and x.get("shard") == mine]

    @property
    def record(self) -> Record:
        """The target's last failure."""
        return self.records()[-1]

    def failed(
        self, reason: str, *, close: int = 0, then: str, wait_ms: int = 0, below_ms: int = 30_000
    ) -> Record:
        """Assert on the target's last failure, which another attempt follows.

        Args:
            reason: why it ended.
            close: close code of the gateway, 0 for none.
            then: resume or identify.
            wait_ms: the delay is at least this,
            below_ms: and less than this.
        """
        record = self.record
        assert (record.reason, record.close, record.next) == (reason, close, then), record
        assert wait_ms <= record.delay_ms < below_ms, record
        return record

    def ended(self, reason: str, stop: str, *, close: int = 0) -> Record:
        """Assert that the target gave up for this reason and stays silent for ten minutes."""
        record = self.record
        assert record.code == "lifecycle.connectionEnded", record
        assert (record.reason, record.stop, record.close) == (reason, stop, close), record
        assert self.row.state == ShardState.FATAL
        talks, records = len(self.talks), len(self.records())
        self.run(600)
        assert (len(self.talks), len(self.records())) == (talks, records)
        assert self.row.state == ShardState.FATAL
        return record

    def unnoticed(self) -> None:
        """Assert that every sibling is READY on its first connection, with every beat answered."""
        for row in self.rig.invariants.rows:
            if row.slot != TARGET:
                assert (row.state, row.reconnects, row.attempts) == (ShardState.READY, 0, 1), row
                assert row.hb_misses == 0
                assert not self.records(row.slot)
                assert [t.handshakes for t in self.opened if t.slot == row.slot] == [[2]]
