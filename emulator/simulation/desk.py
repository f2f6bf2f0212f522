"""The operator who gives nodes the bot's token, over a connection of his own, and who may have one.

He does what `shardfw fleet approve` does, with its own words: hears announcements, seals a grant to the
key of one boot, sends it to that boot's inbox, and again when nothing comes of it. Whoever else can write
to inboxes sends what nobody may accept: seals for another boot, another machine, another key.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from emulator.simulation.clock import NS_PER_S
from emulator.simulation.invariants import InvariantError
from emulator.simulation.nats.client import REDIAL_NS, Client, Heard
from firmware.layouts.shard import Hold, ShardState
from toolchain.cli.fleet.enrolment import Announcement, NodeLogin, grant_of

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable

    from emulator.simulation.nats.cluster import NatsCluster
    from emulator.simulation.nats.session import Session
    from emulator.simulation.nats.stream import Message, Stream
    from emulator.simulation.ownership import Holder
    from emulator.simulation.shard_row import ShardRow

APPROVE_MOST_NS = 15 * NS_PER_S
AGAIN_NS = 8 * NS_PER_S
SILENT_NS = 30 * NS_PER_S
"""After that a boot is not thought to wait any more; it is announced every five seconds."""
WRONG_MOST_NS = 25 * NS_PER_S
VIOLATION = b"Permissions Violation"


@dataclass(slots=True)
class Applicant:
    """One boot of a node that announced itself.

    Attributes:
        line: its newest announcement with an inbox.
        heard_ns: when that came.
        refused: answers that it refused, as it tells.
        awaited: whether the token is on its way to it.
    """

    line: Announcement
    heard_ns: int
    refused: int = 0
    awaited: bool = False


@dataclass(slots=True)
class Seals:
    """How many answers of each kind were sent."""

    right: int = 0
    wrong: dict[str, int] = field(default_factory=dict)


class Desk:
    """Hears who waits, and decides.

    Args:
        cluster: where.
        bot: whose token it is.
        token: what is released.
        login: what is released along with it.
        rng: decides delays, and what is sent that must not be accepted.
        refused: nodes that are never approved.
        user: how the operator logs in.

    Attributes:
        approved: node and boot of everybody to whom the token was sealed.
        joined: node and boot of those that work as members of the fleet.
        applicants: by node and boot, who announced itself.
        sent: answers by kind.
        told: called with a line for each decision.
    """

    def __init__(
        self,
        cluster: NatsCluster,
        bot: str,
        token: str,
        rng: random.Random,
        *,
        login: NodeLogin | None = None,
        refused: Iterable[str] = (),
        user: tuple[str, str] = ("", ""),
    ) -> None:
        self.approved: set[Holder] = set()
        self.joined: set[Holder] = set()
        self.applicants: dict[Holder, Applicant] = {}
        self.sent = Seals()
        self.told: list[Callable[[str], None]] = []
        self.refused = frozenset(refused)
        self._bot, self._random, self._events = bot, rng, cluster.events
        self._secret, self._digits = token.encode(), token.encode().hex().encode()
        self._grant = grant_of(token, login or NodeLogin())
        self._boots: dict[bytes, Holder] = {}
        self._tails: dict[tuple[int, bool], bytes] = {}
        cluster.on_commit.append(self._take_record)
        cluster.taps.append(self._take_bytes)
        subjects = (f"shardfw.{bot}.enrol.*", f"shardfw.{bot}.diag.*")
        self._client = Client(cluster, rng, subjects, self._take, user)

    # -- deciding ---------------------------------------------------------------------------------
    def _take(self, heard: Heard) -> None:
        """Take an announcement, or the numbers that a member tells.

        Raises:
            InvariantError: it is none, or of somebody who has no right to it.
        """
        node = heard.subject.rpartition(".")[2]
        if ".diag." in heard.subject:
            self._take_member((node, heard.body.decode().split(" ")[1]), "tells its numbers")
            return
        line = Announcement.parse(heard.subject, heard.reply, heard.body)
        if line is None:
            raise InvariantError(
                f"rule 'announcement': {node} says {heard.body!r}, reply {heard.reply!r}"
            )
        if line.enrolled:
            self._take_member(self._boots.get(line.key, (node, "unknown")), "is enrolled")
        else:
            self._take_applicant((node, heard.reply.split(".")[2]), line)

    def _take_member(self, who: Holder, what: str) -> None:
        self._demand(who, what)
        self.joined.add(who)

    def _take_applicant(self, who: Holder, line: Announcement) -> None:
        if self._boots.setdefault(line.key, who) != who:
            raise InvariantError(
                f"rule 'a key is of one boot': {' '.join(who)} announces the key of "
                f"{' '.join(self._boots[line.key])}"
            )
        known = self.applicants.get(who)
        if known is None:
            known = self.applicants[who] = Applicant(line, self._events.now_ns)
            self._say(f"{' '.join(who)} waits, {line.fingerprint}")
            self._plan_deceits(who)
        known.line, known.refused, known.heard_ns = line, line.refused, self._events.now_ns
        if not known.awaited and who[0] not in self.refused:
            known.awaited = True
            self._after(APPROVE_MOST_NS, partial(self._release, who))

    def _plan_deceits(self, who: Holder) -> None:
        for _ in range(self._random.choice((1, 2, 3) if who[0] in self.refused else (0, 0, 1, 2))):
            kind = self._random.choice(WRONG)
            self._after(WRONG_MOST_NS, partial(self.deceive, who, kind))

    def _after(self, most_ns: int, action: Callable[[], None]) -> None:
        self._events.after(self._random.randrange(most_ns), action)

    def _release(self, who: Holder) -> None:
        """Approve a boot, and again until something comes of it or nothing is heard of it."""
        applicant = self.applicants[who]
        silent_ns = self._events.now_ns - applicant.heard_ns
        applicant.awaited = who not in self.joined and silent_ns < SILENT_NS
        if applicant.awaited:
            self.approve(who)
            self._events.after(AGAIN_NS, partial(self._try_again, who))

    def _try_again(self, who: Holder) -> None:
        if who not in self.joined:
            # Perhaps nobody hears him where he is.
            self._client.move_on()
        self._events.after(2 * REDIAL_NS, partial(self._release, who))

    def approve(self, who: Holder) -> None:
        """Seal the token to a boot and send it."""
        line = self.applicants[who].line
        if self._client.publish(line.reply, line.seal(self._bot, self._grant)):
            self.approved.add(who)
            self.sent.right += 1
            self._say(f"{' '.join(who)} is approved")

    def deceive(self, who: Holder, kind: str) -> None:
        """Send a boot what it must not accept."""
        line = self.applicants[who].line
        body = _WRONG[kind](self, who, line)
        if self._client.publish(line.reply, body):
            self.sent.wrong[kind] = self.sent.wrong.get(kind, 0) + 1
        self._say(f"{' '.join(who)} is sent a seal: {kind}")

    def _say(self, text: str) -> None:
        for tell in self.told:
            tell(text)

    # -- what must not be accepted ----------------------------------------------------------------
    def _seal(self, line: Announcement, bot: str = "") -> bytes:
        return line.seal(bot or self._bot, self._grant)

    def _of_another(self, who: Holder, line: Announcement) -> bytes:
        """Seal to another boot of the node, or else to another node."""
        others = [each for each in self.applicants if each != who]
        boots = [each for each in others if each[0] == who[0]] or others
        if not boots:
            return self._foreign(who, line)
        return self._seal(self.applicants[self._random.choice(boots)].line)

    def _foreign(self, _who: Holder, line: Announcement) -> bytes:
        private = X25519PrivateKey.from_private_bytes(self._random.randbytes(32))
        return self._seal(replace(line, key=private.public_key().public_bytes_raw()))

    def _identity(self, _who: Holder, line: Announcement) -> bytes:
        mac, rest = line.identity.split(" ", 1)
        return self._seal(replace(line, identity=f"{int(mac, 16) ^ 1:012x} {rest}"))

    def _other_bot(self, _who: Holder, line: Announcement) -> bytes:
        return self._seal(line, bot="b2")

    def _damaged(self, _who: Holder, line: Announcement) -> bytes:
        body = bytearray(self._seal(line))
        body[self._random.randrange(len(body))] ^= 1 << self._random.randrange(8)
        return bytes(body)

    def _short(self, _who: Holder, line: Announcement) -> bytes:
        body = self._seal(line)
        return body[: self._random.randrange(len(body))]

    # -- judging ----------------------------------------------------------------------------------
    def _demand(self, who: Holder, what: str) -> None:
        if who not in self.approved:
            raise InvariantError(
                f"rule 'no token without approval': {' '.join(who)} {what}, and nobody approved it"
            )

    def speaks(self, who: Holder, what: str) -> None:
        """Judge what only a node with the token does.

        Raises:
            InvariantError: nobody gave it one.
        """
        self._demand(who, what)

    def judge_rows(self, who: Holder, shards: Iterable[ShardRow]) -> None:
        """Judge the shards of a node without the token: none of them may have begun.

        Raises:
            InvariantError: one has.
        """
        for row in shards:
            if (row.state, row.hold) != (ShardState.ASSIGNED, Hold.NO_TOKEN):
                self._demand(who, f"has shard {row.shard_id} in {ShardState(row.state).name}")

    def _take_record(self, _stream: Stream, message: Message) -> None:
        """Judge who writes records, by the log."""
        kind, _, name = message.subject.partition(".ctl.")[2].partition(".")
        words = message.body.decode("latin-1").split(" ")
        if kind == "lease" and words[1] == "held":
            self._demand((words[2], words[3]), f"holds slot {name}")
        elif kind == "ident" and words[1] != "-":
            self._demand((words[1], words[2]), f"takes a ticket for shard {words[4]}")

    def _take_bytes(self, session: Session, said: bool, data: bytes) -> None:
        """Judge every byte to and from NATS.

        Raises:
            InvariantError: the token stands there, or somebody may not do what he does.
        """
        key = session.number + (session.server.index << 32), said
        seen = self._tails.get(key, b"") + data
        self._tails[key] = seen[1 - len(self._digits) :]
        if self._secret in seen or self._digits in seen:
            raise InvariantError(
                f"rule 'the token is sealed': it stands in clear in what "
                f"{session.address} {'says' if said else 'hears'}"
            )
        if not said and data.startswith(b"-ERR") and VIOLATION in data:
            raise InvariantError(f"rule 'permissions': {session.address} hears {data!r}")

    def all_joined(self, holders: Iterable[Holder]) -> bool:
        """Say whether everybody who is not refused works as a member."""
        return all(who in self.joined for who in holders if who[0] not in self.refused)


_WRONG: dict[str, Callable[[Desk, Holder, Announcement], bytes]] = {
    "another boot's": Desk._of_another,
    "a foreign key's": Desk._foreign,
    "another machine's": Desk._identity,
    "another bot's": Desk._other_bot,
    "damaged": Desk._damaged,
    "short": Desk._short,
}
WRONG = tuple(_WRONG)
