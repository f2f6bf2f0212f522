"""Sessions that change nodes: what a move does with those of the shards that leave and that come.

A snapshot lies on this machine between the move of the node that gives its shard up and that of the
node that gets it. It is found by whose it is (bot, total, shard), and whoever claims it is the only
one: no session is ever resumed twice.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from firmware.layouts.control import ControlResult, ControlVerb
from firmware.layouts.sessions import AGE_MAX_MS, ANY_SHARD, DIGEST_BYTES, SessionSnapshot
from toolchain.cli.control import Commander, NoReplyError, RefusedError, UncertainError
from toolchain.cli.sessions import (
    AGAIN_S,
    REPLY_S,
    TAKE_PATIENCE_S,
    Saved,
    now_ms,
    state_folder,
    write_private,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from toolchain.cli.control import Place
    from toolchain.config import ShardsConfig


def bot_digest(token: str) -> bytes:
    """Return what tells a bot from others, as the node makes it."""
    return hashlib.sha256(token.encode()).digest()[:DIGEST_BYTES]


@dataclass(frozen=True)
class HandoverStore:
    """Sessions on their way, one file each, which only this user can read.

    Attributes:
        folder: Where they are.
        bot: Whose: the digest of the token.
        total: Shards of the whole bot.
        clock: Gives Unix time in milliseconds.
    """

    folder: Path
    bot: bytes
    total: int
    clock: Callable[[], int] = now_ms

    @classmethod
    def of(cls, bot: bytes, total: int) -> HandoverStore:
        """Return the store of this user."""
        folder = state_folder() / "handover"
        folder.mkdir(mode=0o700, exist_ok=True)
        return cls(folder, bot, total)

    def put(self, shard: int, saved: Saved) -> None:
        """Keep a session for whoever gets its shard; what is too old for anybody goes."""
        for path in self.folder.iterdir():
            if not self._young(path):
                path.unlink(missing_ok=True)
        write_private(self._path(shard), json.dumps(saved.as_json()))

    def holds(self, shards: Iterable[int]) -> bool:
        """Return whether there is a session of one of these shards that may still be taken over."""
        return any(self._young(self._path(shard)) for shard in shards)

    def claim(self, shard: int) -> Saved | None:
        """Take a session away; None when there is none that could be taken over."""
        path = self._path(shard)
        if not self._young(path):
            return None
        mine = path.with_suffix(f".{os.getpid()}")
        try:
            path.rename(mine)
        except FileNotFoundError:
            return None
        try:
            return Saved.from_json(json.loads(mine.read_text()))
        except (ValueError, KeyError, TypeError):
            return None
        finally:
            mine.unlink()

    def _young(self, path: Path) -> bool:
        try:
            return self.clock() - path.stat().st_mtime_ns // 1_000_000 < AGE_MAX_MS
        except FileNotFoundError:
            return False

    def _path(self, shard: int) -> Path:
        return self.folder / f"{self.bot.hex()}-{self.total}-{shard}.json"


def handed_over(token: str, shards: ShardsConfig) -> dict[int, Saved]:
    """Claim the sessions of a configuration's shards that another node has given up.

    Args:
        token: The bot's.
        shards: Which.
    """
    store = HandoverStore.of(bot_digest(token), shards.total)
    claimed = {n: store.claim(n) for n in range(shards.start, shards.start + shards.count)}
    return {n: saved for n, saved in claimed.items() if saved is not None}


@dataclass
class HandOver:
    """One move's work on sessions.

    Attributes:
        place: The node that moves.
        store: Where sessions are in between.
        clock: Gives Unix time in milliseconds.
        taken: Sessions that the node gave up.
        given: Sessions that it took over.
    """

    place: Place
    store: HandoverStore
    clock: Callable[[], int] = now_ms
    taken: int = 0
    given: int = 0
    _claimed: dict[int, Saved | None] = field(default_factory=dict)
    _unsure: set[int] = field(default_factory=set)

    def run(self, leaving: Iterable[int], coming: Iterable[int]) -> None:
        """Take the sessions of shards that leave, and offer those of shards that come.

        Both go on side by side, because a shard may get its place from one that leaves.

        Args:
            leaving: Shards whose sessions the node gives up.
            coming: Shards that wait for an offer.
        """
        steps = [(self._take, n) for n in leaving] + [(self._offer, n) for n in coming]
        offered = any(step == self._offer for step, _ in steps)
        deadline = time.monotonic() + TAKE_PATIENCE_S
        with Commander(self.place, REPLY_S) as node:
            while steps and time.monotonic() < deadline:
                left = [(step, shard) for step, shard in steps if not self._done(step, node, shard)]
                if len(left) == len(steps):
                    time.sleep(AGAIN_S)
                steps = left
            if offered:
                # A shard that began anew, because it had failed for good, waits as well.
                self._done(self._offer_none, node, ANY_SHARD)
        for shard, saved in self._claimed.items():
            # What the node may have taken over is nobody else's.
            if saved is not None and shard not in self._unsure:
                self.store.put(shard, saved)

    @staticmethod
    def _done(step: Callable[[Commander, int], bool], node: Commander, shard: int) -> bool:
        try:
            return step(node, shard)
        except (NoReplyError, UncertainError):
            return False

    def _take(self, node: Commander, shard: int) -> bool:
        try:
            reply = node.send(ControlVerb.SESSION_TAKE, slot=shard, room=SessionSnapshot.SIZE)
        except RefusedError as error:
            return error.result != ControlResult.SESSION_LIVE
        if reply.payload:
            self.store.put(shard, Saved(reply.payload, self.clock() - reply.value))
            self.taken += 1
        return True

    def _offer(self, node: Commander, shard: int) -> bool:
        if shard not in self._claimed:
            self._claimed[shard] = self.store.claim(shard)
        saved = self._claimed[shard]
        if saved is None:
            return self._offer_none(node, shard)
        age = self.clock() - saved.ended_ms
        try:
            reply = node.send(
                ControlVerb.SESSION_OFFER, slot=shard, argument=age % 2**64, payload=saved.snapshot
            )
        except RefusedError as error:
            if error.result == ControlResult.ARGUMENT:
                return False  # it has no place yet
            self._claimed[shard] = None
            return True  # it started without
        except (NoReplyError, UncertainError):
            self._unsure.add(shard)
            raise
        self.given += reply.value == 0
        self._claimed[shard] = None
        return True

    @staticmethod
    def _offer_none(node: Commander, shard: int) -> bool:
        try:
            node.send(ControlVerb.SESSION_OFFER, slot=shard)
        except RefusedError as error:
            return error.result != ControlResult.ARGUMENT
        return True
