"""What a reader makes of the events that a fleet published, against what the gateway sent.

The reader does what docs/guarantees.md asks of one: an id that it saw is dropped, and so is what a former
owner says late, unless it is of the newer owner's session and goes on in it. Neither side is a node's.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from emulator.simulation.invariants import InvariantError
from emulator.simulation.nats.protocol import header_value
from emulator.simulation.nats.stream import MSG_ID

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from emulator.simulation.nats.stream import Message, Stream
    from emulator.simulation.peers.gateway import GatewayCore
    from emulator.simulation.peers.websocket import WebSocketPeer

DISPATCH, RESUME = 0, 6
NOTICE = "SHARDFW_"
OVERSIZE = "SHARDFW_OVERSIZE"


@dataclass(slots=True)
class Read:
    """What was read of one shard.

    Attributes:
        fence: highest generation.
        session: of the newest event of that generation.
        sequences: by session, what was read of it, in order.
    """

    fence: int = 0
    session: str = ""
    sequences: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))


class EventReader:
    """Compares both records at the end of a run.

    Args:
        core: of the gateway, before it has a connection.
        stream: of the events.

    Attributes:
        sent: by session, the sequences of the dispatches that the gateway would repeat.
        read: by shard.
        late: events of former owners that were dropped.
        repeated: events that were dropped because they had been read.
        disordered: sessions of which something was read behind what followed it.
    """

    def __init__(self, core: GatewayCore, stream: Stream) -> None:
        self._core, self._stream = core, stream
        self.sent: dict[str, set[int]] = defaultdict(set)
        self.read: dict[int, Read] = defaultdict(Read)
        self.late = self.repeated = self.disordered = 0
        self._sessions: dict[int, str] = {}
        self._seen: set[str] = set()
        self._taken = 0
        core.on_send = self._take_sent
        core.on_message = self._take_heard

    def _take_sent(self, peer: WebSocketPeer, text: str) -> None:
        message = json.loads(text)
        if message.get("op") != DISPATCH:
            return
        if message.get("t") == "READY":
            self._sessions[id(peer)] = message["d"]["session_id"]
        session = self._sessions.get(id(peer))
        # A service repeats neither of these, so what the stream refused of them is gone.
        once = message.get("t") in ("READY", "RESUMED")
        if session is not None and message.get("s") is not None and not once:
            self.sent[session].add(message["s"])

    def _take_heard(self, peer: WebSocketPeer, text: str | bytes) -> None:
        message = json.loads(text)
        if message.get("op") == RESUME:
            self._sessions[id(peer)] = message["d"]["session_id"]

    def follow(self) -> None:
        """Read what was published since the last call."""
        for message in self._stream.log[self._taken :]:
            self._take(message)
        self._taken = self._stream.last_seq

    def _take(self, message: Message) -> None:
        ident = header_value(message.header, MSG_ID) or ""
        name = message.subject.rpartition(".")[2]
        if name.startswith(NOTICE) and name != OVERSIZE:
            return
        if ident in self._seen:
            self.repeated += 1
            return
        self._seen.add(ident)
        session, _, number = ident.rpartition("-")
        facts = dict(w.split("=") for w in (header_value(message.header, "Shardfw") or "").split())
        read, fence, sequence = (
            self.read[int(message.subject.split(".")[3])],
            int(facts["g"]),
            int(number),
        )
        goes_on = session == read.session
        if fence < read.fence and not goes_on:
            self.late += 1
            return
        if fence >= read.fence:
            read.fence, read.session = fence, session
        read.sequences[session].append(sequence)

    def complete(self, sequences: dict[int, tuple[str, int]]) -> bool:
        """Say whether everything was read that the gateway has sent in sessions that go on.

        Args:
            sequences: by shard, the session that goes on and the gateway's sequence of it.
        """
        self.follow()
        return all(
            max(found := self.read[shard].sequences[session], default=0) == sequence
            and self.sent[session] <= set(found)
            for shard, (session, sequence) in sequences.items()
        )

    def judge(self, lives: Collection[str], saved: Mapping[str, int]) -> None:
        """Judge what was read.

        Args:
            lives: sessions that go on: of them everything must have been read.
            saved: by session, the highest sequence that a node wrote into its record. Of a session
                that was given up, nobody can have more again than up to there.

        Raises:
            InvariantError: an event is missing or doubled.
        """
        self.follow()
        self.disordered = 0
        for shard, read in self.read.items():
            for session, found in read.sequences.items():
                where = f"shard {shard}, session {session[:8]}"
                if len(set(found)) != len(found):
                    raise InvariantError(f"rule 'no event is doubled': {where}: {found}")
                self.disordered += sorted(found) != found
                upto = max(found) if session in lives else saved.get(session, 0)
                wanted = {s for s in self.sent[session] if s <= upto}
                if missing := wanted - set(found):
                    raise InvariantError(f"rule 'no event is lost': {where}: {sorted(missing)}")
