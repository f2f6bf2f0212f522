"""Whoever may have the token: what the desk sends, and each rule broken by a fake."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from emulator.simulation.clock import NS_PER_S, EventQueue
from emulator.simulation.desk import WRONG, Desk
from emulator.simulation.fleet_records import LeaseRecord, PlanRecord
from emulator.simulation.fleet_shape import Shape
from emulator.simulation.invariants import InvariantError
from emulator.simulation.leased import LeasedFleet
from emulator.simulation.nats.client import Client, Heard
from emulator.simulation.nats.cluster import NatsCluster
from emulator.simulation.operator import Operator
from firmware.layouts.enrol import ENROL_MAGIC, SEALED_BYTES
from firmware.layouts.shard import Hold, ShardState
from toolchain.cli.fleet.enrolment import SUITE, NodeLogin, grant_of

TOKEN = "MTk4.the-token.of_the-bot"  # noqa: S105 - of nobody
IDENTITY = f"{'52' * 6} - - {'ab' * 20}"
N1, N2 = ("n1", "00000001"), ("n2", "00000002")


class Hall:
    """A cluster with a desk, and nodes that a test plays."""

    def __init__(self, *, refused=(), servers: int = 1, seed: int = 1) -> None:
        self.events = EventQueue()
        self.cluster = NatsCluster(self.events, random.Random(seed), servers=servers)
        self.operator = Operator(self.cluster, "b1", PlanRecord())
        self.desk = Desk(self.cluster, "b1", TOKEN, random.Random(seed), refused=refused)
        self.got: dict[tuple[str, str], list[bytes]] = {}
        self.private: dict[tuple[str, str], X25519PrivateKey] = {}
        self.client = Client(self.cluster, random.Random(2), ("_E.>",), self._take)

    def _take(self, heard: Heard) -> None:
        _, node, boot, *_ = heard.subject.split(".")
        self.got.setdefault((node, boot), []).append(heard.body)

    def announce(self, who, *, word: str = "waiting", refused: int = 0, key=None) -> None:
        """Say what a node says."""
        private = self.private.setdefault(key or who, X25519PrivateKey.generate())
        public = private.public_key().public_bytes_raw().hex()
        line = f"1 {word} {refused} {public} {IDENTITY}"
        reply = "" if word == "enrolled" else f" _E.{who[0]}.{who[1]}.c.1"
        self.client.publish(f"shardfw.b1.enrol.{who[0]}{reply}", line.encode())

    def run(self, seconds: float) -> None:
        until = self.events.now_ns + round(seconds * NS_PER_S)
        while (due := self.events.next_time()) is not None and due <= until:
            self.events.run_next()
        self.events.now_ns = until

    def opens(self, who, body: bytes, *, key=None) -> bytes:
        info = ENROL_MAGIC + f"b1 {who[0]} {IDENTITY}".encode()
        return SUITE.decrypt(body, self.private[key or who], info=info)


def test_whoever_waits_is_given_the_token_until_it_has_joined():
    hall = Hall()
    hall.announce(N1)
    hall.run(60)
    sealed = [body for body in hall.got[N1] if len(body) == SEALED_BYTES]
    assert N1 in hall.desk.approved
    assert hall.opens(N1, sealed[0]) == grant_of(TOKEN, NodeLogin())
    assert hall.desk.sent.right > 2
    assert not hall.desk.all_joined([N1])
    hall.announce(N1, word="enrolled")
    assert hall.desk.all_joined([N1])
    sent = hall.desk.sent.right
    hall.run(60)
    assert hall.desk.sent.right == sent


def test_a_member_that_tells_its_numbers_has_joined():
    hall = Hall()
    hall.announce(N1)
    hall.desk.approve(N1)
    hall.client.publish("shardfw.b1.diag.n1", b"1 00000001 5 0")
    assert hall.desk.joined == {N1}


def test_a_new_boot_needs_a_new_approval():
    hall = Hall()
    hall.announce(N1)
    hall.run(60)
    sent = hall.desk.sent.right
    hall.announce(("n1", "00000009"))
    hall.run(60)
    assert len(hall.got[N1]) <= sent + 3
    assert ("n1", "00000009") in hall.desk.approved


def test_what_an_old_boot_said_late_keeps_nobody_waiting():
    hall, newer = Hall(), ("n1", "00000009")
    hall.announce(newer)
    hall.announce(N1)
    for _ in range(12):
        hall.run(5)
        hall.announce(newer)
    opened = [hall.opens(newer, body) for body in hall.got[newer][-2:]]
    assert opened == [grant_of(TOKEN, NodeLogin())] * 2
    count = len(hall.got[N1])
    hall.run(60)
    assert len(hall.got[N1]) == count


def test_who_is_refused_gets_nothing_that_it_could_open():
    hall = Hall(refused=("n1",))
    hall.announce(N1)
    hall.run(120)
    assert hall.desk.approved == set()
    assert sum(hall.desk.sent.wrong.values()) == len(hall.got[N1]) > 0
    assert hall.desk.all_joined([N1])


@pytest.mark.parametrize("kind", WRONG)
def test_what_must_not_be_accepted_cannot_be_opened(kind):
    hall = Hall(refused=("n1", "n2"))
    hall.announce(N2)
    hall.announce(N1)
    hall.desk.deceive(N1, kind)
    body = hall.got[N1][-1]
    if kind == "short":
        assert len(body) < SEALED_BYTES
        return
    assert len(body) == SEALED_BYTES
    with pytest.raises(InvalidTag):
        hall.opens(N1, body)
    assert hall.desk.sent.wrong == {kind: 1}


def test_what_is_anothers_boot_is_opened_there():
    hall = Hall(refused=("n1",))
    hall.announce(N1)
    again = ("n1", "00000009")
    hall.announce(again)
    hall.announce(N2)
    hall.desk.deceive(again, "another boot's")
    assert hall.opens(N1, hall.got[again][-1]) == grant_of(TOKEN, NodeLogin())


def test_the_desk_finds_another_server_when_its_own_is_gone():
    hall = Hall(servers=3)
    server = next(s for s in hall.cluster.servers if len(s.sessions))
    for session in list(server.sessions):
        session.reset()
    hall.announce(N1)
    assert hall.desk.applicants == {}
    hall.run(2)
    hall.announce(N1)
    hall.run(20)
    assert N1 in hall.desk.approved


# -- rules ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("word", ["enrolled", "member", "lease", "ticket", "frame", "row"])
def test_without_approval_there_is_no_member(word):
    hall = Hall(refused=("n1",))
    hall.announce(N1)
    row: Any = SimpleNamespace(state=ShardState.STARTING, hold=Hold.NONE, shard_id=0)
    lease = LeaseRecord(node="n1", boot="00000001", generation=1, op=1, duration_ms=20_000)
    acts = {
        "enrolled": lambda: hall.announce(N1, word="enrolled"),
        "member": lambda: hall.client.publish("shardfw.b1.diag.n1", b"1 00000001 5 0"),
        "lease": lambda: hall.operator.put("lease.0", str(lease)),
        "ticket": lambda: hall.operator.put("ident.0", "1 n1 00000001 1 0"),
        "frame": lambda: hall.desk.speaks(N1, "sends a frame"),
        "row": lambda: hall.desk.judge_rows(N1, [row]),
    }
    with pytest.raises(InvariantError, match=r"rule 'no token without approval': n1 00000001"):
        acts[word]()
    hall.desk.approve(N1)
    acts[word]()


def test_a_held_shard_of_a_node_without_token_is_no_fault():
    hall = Hall(refused=("n1",))
    row: Any = SimpleNamespace(state=ShardState.ASSIGNED, hold=Hold.NO_TOKEN, shard_id=0)
    hall.desk.judge_rows(N1, [row])


def test_two_boots_with_one_key_are_found():
    hall = Hall()
    hall.announce(N1)
    with pytest.raises(InvariantError, match=r"rule 'a key is of one boot': n1 00000009 announces"):
        hall.announce(("n1", "00000009"), key=N1)


@pytest.mark.parametrize("line", [b"1 waiting", b"2 waiting 0", b""])
def test_what_no_operator_reads_is_found(line):
    hall = Hall()
    with pytest.raises(InvariantError, match=r"rule 'announcement': n1 says"):
        hall.client.publish("shardfw.b1.enrol.n1 _E.n1.00000001.c.1", line)


@pytest.mark.parametrize("text", [TOKEN, TOKEN.encode().hex()])
@pytest.mark.parametrize("cut", [0, 5])
def test_the_token_in_clear_is_found_wherever_it_is_cut(text, cut):
    hall = Hall()
    whole = f"PUB shardfw.b1.log.n1 {len(text)}\r\n{text}\r\n".encode()
    place = whole.index(text.encode()) + cut
    session = hall.cluster.servers[0].accept(lambda _data: None, lambda: None, lambda: None)
    session.receive(whole[:place])
    with pytest.raises(InvariantError, match=r"rule 'the token is sealed': .* 127\.0\.0\.1 says"):
        session.receive(whole[place:])


def test_the_token_in_what_a_node_hears_is_found():
    hall = Hall()
    session = hall.cluster.servers[0].accept(lambda _data: None, lambda: None, lambda: None)
    with pytest.raises(InvariantError, match=r"rule 'the token is sealed': .* hears"):
        session.send(b"MSG a 1 30\r\n" + TOKEN.encode() + b"\r\n")


def test_who_does_what_his_login_does_not_allow_is_found():
    hall = Hall()
    session = hall.cluster.servers[0].accept(lambda _data: None, lambda: None, lambda: None)
    with pytest.raises(InvariantError, match=r"rule 'permissions': 127\.0\.0\.1 hears"):
        session.send(b"-ERR 'Permissions Violation for Publish to \"x\"'\r\n")


# -- whole nodes ----------------------------------------------------------------------------------
def test_a_fleet_works_once_it_is_approved_and_without_who_is_refused():
    shape = Shape(slots=2, total=2, max_concurrency=2, enrol=True, login=True, refused=("node2",))
    fleet = LeasedFleet(13, shape)
    desk = fleet.desk
    assert desk is not None
    fleet.until_owned()
    fleet.world.run_until(fleet.joined)
    outsider = fleet.stations[2]
    for kind in WRONG:
        desk.deceive(outsider.holder, kind)
    fleet.run(8)
    assert desk.applicants[outsider.holder].refused >= len(WRONG)
    assert outsider.shards == []
    assert {node for node, _ in desk.approved} == {"node0", "node1"}

    before = fleet.stations[0].holder
    fleet.stations[0].power_off()
    fleet.stations[0].power_on()
    assert not fleet.joined()
    fleet.world.run_until(fleet.joined)
    assert fleet.stations[0].holder != before
    fleet.until_owned()
