"""Sessions that `shardfw run` keeps while its node is off: the store, and the talk with the node.

The node's snapshots are opaque here. A snapshot is offered once: what was offered is gone from the
store, so that no session is ever resumed twice.
"""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from firmware.layouts.control import ControlResult, ControlVerb
from firmware.layouts.plan import PlanReport
from firmware.layouts.sessions import ANY_SHARD, SessionSnapshot
from toolchain.cli.control import (
    Commander,
    CommandError,
    NoReplyError,
    RefusedError,
    UncertainError,
)
from toolchain.layout.pack import unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from toolchain.cli.control import Place

OFFER_PATIENCE_S, TAKE_PATIENCE_S = 60.0, 12.0
"""How long a node has to get an address after its start, and to release its shards; seconds."""
REPLY_S, AGAIN_S = 0.5, 0.02


def state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of what outlives a run, made when it is missing: private to this user."""
    base = environ.get("XDG_STATE_HOME")
    parent = Path(base) if base else Path.home() / ".local" / "state"
    folder = parent / "shardfw"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user can read, all at once."""
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    part.replace(path)


@dataclass(frozen=True)
class Saved:
    """One session.

    Attributes:
        snapshot: What the node gave.
        ended_ms: When its connection ended; Unix time of this machine in milliseconds.
    """

    snapshot: bytes = field(repr=False)
    ended_ms: int

    def as_json(self) -> dict[str, int | str]:
        """Return what a store writes."""
        return {"ended_ms": self.ended_ms, "snapshot": self.snapshot.hex()}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Saved:
        """Return what a store has written.

        Raises:
            ValueError, KeyError, TypeError: It has not.
        """
        return cls(bytes.fromhex(row["snapshot"]), int(row["ended_ms"]))


@dataclass(frozen=True)
class SessionStore:
    """The sessions of one run's name, in a file that only this user can read.

    Attributes:
        path: The file.
    """

    path: Path

    def save(self, sessions: Mapping[int, Saved]) -> None:
        """Write all sessions, by shard, in place of what is there; without any there is no file."""
        if not sessions:
            self.path.unlink(missing_ok=True)
            return
        rows = {str(shard): saved.as_json() for shard, saved in sessions.items()}
        write_private(self.path, json.dumps(rows))

    def take(self) -> dict[int, Saved]:
        """Return all sessions by shard, and forget them; a file that cannot be read holds none."""
        try:
            rows = json.loads(self.path.read_text())
            return {int(shard): Saved.from_json(row) for shard, row in rows.items()}
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            return {}
        finally:
            self.path.unlink(missing_ok=True)


def _held(node: Commander) -> list[int]:
    """Return the shards that the node says it holds; none when it does not say."""
    try:
        report = unpack(PlanReport, node.send(ControlVerb.PLAN, room=PlanReport.SIZE).payload)
    except CommandError:
        return []
    return list(range(report["start"], report["start"] + report["count"]))


def now_ms() -> int:
    """Return the Unix time in milliseconds."""
    return time.time_ns() // 1_000_000


@dataclass
class SessionKeeper:
    """Offers sessions to a node that starts, and takes those of a node that stops.

    Attributes:
        store: Where they are in between.
        clock: Gives Unix time in milliseconds.
        ended: Set to end whatever it does.
        saved: What is still to be offered.
        waits: Whether the image waits for offers.
    """

    store: SessionStore
    clock: Callable[[], int] = now_ms
    ended: threading.Event = field(default_factory=threading.Event)
    saved: dict[int, Saved] = field(default_factory=dict)
    waits: bool = False

    def load(self, moved: Mapping[int, Saved] = MappingProxyType({})) -> bool:
        """Take what the store holds; return whether there is something that a node should wait for.

        Args:
            moved: Sessions of shards that another node has given up.
        """
        self.saved = self.store.take()
        for shard, saved in moved.items():
            if shard not in self.saved or self.saved[shard].ended_ms < saved.ended_ms:
                self.saved[shard] = saved
        self.waits = bool(self.saved)
        return self.waits

    def offer(self, place: Place, shards: Iterable[int]) -> int:
        """Offer each shard its session, then let those without one start; return how many were taken.

        Args:
            place: The node.
            shards: Its shards.
        """
        if not self.waits:
            return 0
        # A node that boots again in the same run waits as well, and there is nothing any more.
        saved, self.saved, taken = self.saved, {}, 0
        deadline = time.monotonic() + OFFER_PATIENCE_S
        with Commander(place, REPLY_S) as node:
            for shard in (*(n for n in shards if n in saved), ANY_SHARD):
                session = saved.get(shard)
                while not self.ended.is_set() and time.monotonic() < deadline:
                    age = 0 if session is None else self.clock() - session.ended_ms
                    try:
                        reply = node.send(
                            ControlVerb.SESSION_OFFER,
                            slot=shard,
                            argument=age % 2**64,
                            payload=b"" if session is None else session.snapshot,
                        )
                    except (NoReplyError, UncertainError):
                        continue
                    except RefusedError:
                        break  # it started without, or a reset has left it a fresher one
                    taken += session is not None and reply.value == 0
                    break
        return taken

    def collect(self, place: Place, shards: Iterable[int]) -> int:
        """Take the sessions of a node that stops into the store; return how many there were.

        Args:
            place: The node.
            shards: Its shards, unless it tells of others because it has moved.
        """
        deadline, saved = time.monotonic() + TAKE_PATIENCE_S, {}
        with Commander(place, REPLY_S) as node:
            left = _held(node) or list(shards)
            while left and not self.ended.is_set() and time.monotonic() < deadline:
                shard = left.pop(0)
                try:
                    reply = node.send(
                        ControlVerb.SESSION_TAKE, slot=shard, room=SessionSnapshot.SIZE
                    )
                except (NoReplyError, UncertainError):
                    left.append(shard)
                    continue
                except RefusedError as error:
                    if error.result == ControlResult.SESSION_LIVE:
                        left.append(shard)
                        time.sleep(AGAIN_S)
                    continue
                if reply.payload:
                    saved[shard] = Saved(reply.payload, self.clock() - reply.value)
        self.store.save(saved)
        return len(saved)
