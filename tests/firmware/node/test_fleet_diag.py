"""The node's own numbers on the bus."""

import pytest

from firmware.layouts.bus import BUS, BUS_IN, CONTROL, DATA, INBOX_SID, LinkState
from firmware.layouts.commands import COMMAND_SID, COMMANDS
from firmware.layouts.events import DATA_UNHEARD
from firmware.layouts.fleet import FLEET
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC, NAME_MAX
from firmware.layouts.fleet_diag import (
    DIAG_EVERY_MS,
    DIAG_FIELDS,
    DIAG_LINE_MAX,
    DIAG_MAX,
    DIAG_SID,
    FLEET_DIAG,
)
from firmware.layouts.handover import HANDOVER
from firmware.layouts.log import LOG_ON_BUS
from firmware.layouts.node import CLOCK, CORE, SLOT_ACTIVE
from firmware.layouts.outbox import OUTBOX
from firmware.layouts.shard import ShardContext, ShardState
from firmware.node.fleet_diag import diag_heard, diag_listen, diag_publish, diag_unheard
from tests.support.lab import Lab
from tests.support.publisher import MS, furnish_names
from tests.support.stream import Stream

LAB = Lab(diag_heard, diag_listen, diag_publish, diag_unheard, slots=4)
BOOT, NOW = 7 * MS, 4_000 * MS
NEVER = 2**64 - 1
LARGE = {"published": 2**64 - 1, "acknowledged": 2**64 - 2, "duplicates": 2**63, "refused": 2**62}

SESSIONS = ("taken", "saves", "refused", "late", "lost", "ignored")


class Node:
    """Three rows, one free, one READY; its link CONTROL is UP."""

    def __init__(self):
        LAB.reset()
        core, clock, bus = LAB.g(CORE), LAB.g(CLOCK), LAB.g(BUS)
        core.now, core.slots_used, clock.tsc_cycles_per_ms, clock.boot_tsc = NOW, 3, MS, BOOT
        for n in range(3):
            core.slots[n].context = LAB.shard(n)
            core.slots[n].flags = 0 if n == 1 else SLOT_ACTIVE
        self.shard(0).state = ShardState.READY
        self.stream = Stream(LAB, LAB.shard(3))
        furnish_names(LAB)
        self.magic(FLEET_MAGIC)
        link = bus.links[CONTROL]
        link.context, link.state, link.ups = self.stream.shard, LinkState.UP, 4
        bus.links[DATA].ups = 5
        box, commands = LAB.g(OUTBOX), LAB.g(COMMANDS)
        box.first, box.next = 2**32 - 1, 2
        for n, name in enumerate(
            ("published", "acknowledged", "duplicates", "refused", "overdue", "dropped", "oversize")
        ):
            setattr(box, name, 100 + n)
        commands.taken, commands.refused = 200, 201
        for n, name in enumerate(SESSIONS):
            setattr(LAB.g(HANDOVER), name, 400 + n)
        LAB.g(LOG_ON_BUS).lines, LAB.g(FLEET).holding = 300, 1

    def shard(self, n):
        return LAB.view(ShardContext, LAB.g(CORE).slots[n].context)

    def magic(self, value):
        LAB.machine.write(LAB.g(FLEET_CONFIG).offset_of("magic"), value.to_bytes(4, "little"))

    def turn(self):
        return LAB.call(diag_publish).outputs["rax"], self.stream.take_sent()


def test_numbers_stand_in_their_order():
    at, sent = Node().turn()
    line, text, rest = sent.split(b"\r\n")
    assert line == b"PUB shardfw.b1.diag.n525400123456 %d" % len(text)
    assert (rest, at) == (b"", NOW + DIAG_EVERY_MS * MS)
    form, boot, *values = text.decode().split(" ")
    assert (form, boot) == ("1", "3fa2c1d0")
    assert dict(zip(DIAG_FIELDS, map(int, values), strict=True)) == {
        "uptime_ms": 3_993, "rows": 2, "ready": 1, "slots": 1, "published": 100,
        "acknowledged": 101, "duplicates": 102, "waiting": 3, "refused": 103, "overdue": 104,
        "dropped": 105, "oversize": 106, "commands": 200, "refused_commands": 201,
        "control_ups": 4, "data_ups": 5, "log_lines": 300, "sessions_taken": 400,
        "sessions_saved": 401, "sessions_refused": 402, "sessions_late": 403, "sessions_lost": 404,
        "sessions_ignored": 405,
    }  # fmt: skip


def test_it_is_said_every_ten_seconds():
    node = Node()
    node.turn()
    LAB.g(CORE).now = NOW + DIAG_EVERY_MS * MS - 1
    assert node.turn() == (NOW + DIAG_EVERY_MS * MS, b"")
    LAB.g(CORE).now += 1
    at, sent = node.turn()
    assert (at, LAB.g(FLEET_DIAG).said) == (NOW + 2 * DIAG_EVERY_MS * MS, 2)
    assert sent


def test_largest_numbers_fit():
    node = Node()
    LAB.g(CLOCK).tsc_cycles_per_ms, LAB.g(CORE).now = 1, 2**64 - DIAG_EVERY_MS - 1
    for name, value in LARGE.items():
        setattr(LAB.g(OUTBOX), name, value)
    for name in SESSIONS:
        setattr(LAB.g(HANDOVER), name, 2**32 - 1)
    _, sent = node.turn()
    assert len(sent) < DIAG_MAX


@pytest.mark.parametrize("what", ["down", "enrolling", "full"])
def test_it_waits_for_the_next_time_when_nothing_may_be_said(what):
    node = Node()
    if what == "down":
        LAB.g(BUS).links[CONTROL].state = LinkState.HELLO
    elif what == "enrolling":
        LAB.g(BUS).enrolling = 1
    else:
        node.stream.fill(10)
    at, sent = node.turn()
    assert at == NOW + DIAG_EVERY_MS * MS
    assert b"PUB" not in sent


@pytest.mark.parametrize("what", ["no fleet", "no clock"])
def test_it_is_never_said(what):
    node = Node()
    if what == "no fleet":
        node.magic(0)
    else:
        LAB.g(CLOCK).tsc_cycles_per_ms = 0
    assert node.turn() == (NEVER, b"")


def unheard(node, times=5, servers=3):
    """Say it again and again, heard once before; return whether DATA is UP after each time."""
    LAB.g(FLEET_CONFIG).servers_used, LAB.g(FLEET_DIAG).heard = servers, 1
    data = LAB.g(BUS).links[DATA]
    data.state, data.context, ups = LinkState.UP, LAB.shard(2), []
    for _ in range(times):
        LAB.g(CORE).now, sent = node.turn()
        assert sent.startswith(b"PUB shardfw.")
        ups.append(data.state == LinkState.UP)
    return ups


def test_data_leaves_a_server_where_it_is_not_heard():
    node = Node()
    assert unheard(node) == [True, True, False, False, False]
    data = LAB.g(BUS).links[DATA]
    assert (data.state, data.error, data.server) == (LinkState.DOWN, DATA_UNHEARD.code, 1)


def test_the_only_server_is_not_left():
    assert unheard(Node(), servers=1) == [True] * 5


@pytest.mark.parametrize("what", ["heard", "never heard", "data", "control", "data is away"])
def test_a_server_where_it_may_be_heard_is_not_left(what):
    node = Node()
    links, diag = LAB.g(BUS).links, LAB.g(FLEET_DIAG)
    assert unheard(node, times=2) == [True] * 2
    if what == "heard":
        take(DIAG_SID)
    elif what == "never heard":
        diag.heard = diag.unheard = 0
    elif what == "data":
        links[DATA].ups += 1
    elif what == "control":
        links[CONTROL].ups += 1
    else:
        links[DATA].state = LinkState.DOWN
    before = links[DATA].state
    node.turn()
    assert (links[DATA].state, links[DATA].error) == (before, 0)
    assert diag.unheard == {"never heard": 0, "data is away": 3}.get(what, 1)


def test_a_server_is_left_only_over_a_connection_of_control():
    node = Node()
    assert unheard(node, times=2) == [True] * 2
    LAB.g(BUS).links[CONTROL].state = LinkState.DOWN
    assert node.turn()[1] == b""
    assert LAB.g(BUS).links[DATA].state == LinkState.UP
    assert LAB.g(FLEET_DIAG).unheard == 0


def take(sid):
    LAB.g(BUS_IN).sid = sid
    LAB.call(diag_heard)


def test_only_what_comes_on_its_subscription_was_heard():
    Node()
    diag = LAB.g(FLEET_DIAG)
    diag.unheard = 2
    for sid in (INBOX_SID, DIAG_SID + 1, COMMAND_SID):
        take(sid)
    assert (diag.heard, diag.unheard) == (0, 2)
    take(DIAG_SID)
    assert (diag.heard, diag.unheard) == (1, 0)


def listen(node):
    link = LAB.g(BUS).links[CONTROL].address_
    return LAB.call(diag_listen, link=link, workspace=node.stream.shard).outputs["cf"]


def test_diag_listen_subscribes_what_the_node_says():
    node = Node()
    assert listen(node) == 0
    assert node.stream.take_sent() == b"SUB shardfw.b1.diag.n525400123456 2\r\n"


def test_diag_listen_waits_for_room():
    node = Node()
    node.stream.fill(10)
    assert listen(node) == 1
    assert b"SUB" not in node.stream.take_sent()


def test_diag_listen_of_the_longest_names_fits():
    node = Node()
    config, bus = LAB.g(FLEET_CONFIG), LAB.g(BUS)
    config.bot[:NAME_MAX], config.bot_len = b"b" * NAME_MAX, NAME_MAX
    bus.node[:NAME_MAX], bus.node_len = b"n" * NAME_MAX, NAME_MAX
    assert listen(node) == 0
    assert len(node.stream.take_sent()) <= DIAG_LINE_MAX
